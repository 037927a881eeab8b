"""The commands as a person or a program calls them: what they print, where, and how they exit."""

import csv
import json
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.simulator import Simulator, parse_faults
from tests.cli.conftest import Called
from tests.conftest import environment

Simulate = Callable[..., Simulator]
COUNTS = ["planned", "ok", "unparsed", "refused", "truncated", "errored", "expired", "missing", "cancelled", "open"]


def test_plan_counts_and_touches_nothing(
    pairlog: Callable[..., Called], experiment_file: Callable[..., Path], tmp_path: Path
) -> None:
    file = experiment_file(more="directions: [forward, reverse]\nbatch: {max_requests: 4}")
    before = sorted(tmp_path.rglob("*"))
    called = pairlog("plan", file, "--json")
    found = json.loads(called.out)
    assert (called.code, found["requests"], found["batches"], found["pairs"]) == (0, 30, 8, 15)
    assert pairlog("plan", file).code == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_plan_says_what_is_new_what_stays_and_what_would_change(
    pairlog: Callable[..., Called], simulator: Simulator, experiment_file: Callable[..., Path]
) -> None:
    two = "[{provider: openai, model: gpt-6-luna, reasoning: [none, low]}]"
    assert pairlog("submit", experiment_file(judges=two)).code == 0
    other = experiment_file(judges="[{provider: openai, model: gpt-6-luna, reasoning: [low, medium]}]")
    planned = pairlog("plan", other)
    assert (planned.code, planned.out) == (0, "")
    said = " ".join(planned.err.split())
    assert "15 of these requests are new" in said
    assert re.findall(r"new: (\S+)", said) == ["essays--default--openai--gpt-6-luna--medium--forward"]
    assert "1 run stays in the store although no longer named in this file: essays--default" in said
    changed = pairlog("plan", experiment_file(judges=two, samples=7))
    assert changed.code == 2
    assert "take a new name" in " ".join(changed.err.split())


@pytest.mark.parametrize(
    ("rows", "more", "words"),
    [
        ("a,one\nb,other\nc,three\n", "", "would change (samples: text of 'b' changed; pairs); take a new name\n"),
        (
            "a,one\nb,two\nc,three\nd,4\ne,5\n",
            "",
            "(samples: 'd' and 1 more were added; pairs; requests: 3 -> 10); take a new name; further",
        ),
        ("a,one\nc,three\n", "", "(samples: 'b' was removed; pairs; "),
        ("b,two\na,one\nc,three\n", "", "(samples: their order changed; pairs)"),
        (
            "a,one\nb,two\nc,three\n",
            "pairs: {design: random, count: 2}",
            "; further pairs go under another name with another pairs.seed, and `pairlog rank few OTHER` ranks both",
        ),
    ],
)
def test_a_change_is_refused_with_the_samples_it_is_about_and_how_pairs_are_added(
    pairlog: Callable[..., Called], simulator: Simulator, tmp_path: Path, rows: str, more: str, words: str
) -> None:
    file = "name: few\nsamples: s.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n"
    (tmp_path / "s.csv").write_text("id,text\na,one\nb,two\nc,three\n")
    (tmp_path / "e.yaml").write_text(file)
    assert pairlog("submit", "e.yaml").code == 0
    (tmp_path / "s.csv").write_text(f"id,text\n{rows}")
    (tmp_path / "e.yaml").write_text(file + more)
    for command in ("plan", "submit"):
        called = pairlog(command, "e.yaml")
        assert called.code == 2
        assert words in called.err


def test_plan_says_how_many_blank_rows_were_left_out(pairlog: Callable[..., Called], tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,text\na,one\n,\nb,two\n,\n")
    (tmp_path / "e.yaml").write_text("name: few\nsamples: s.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n")
    called = pairlog("plan", tmp_path / "e.yaml")
    assert called.code == 0
    assert "2 blank rows left out" in called.err
    assert "2 samples, 1 pair, 1 request" in called.err


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            "judges: [{provider: opnai, model: m}]",
            "line 3: judges[0].provider: provider 'opnai' is unknown; did you mean",
        ),
        (
            "judges:\n  - {provider: openai, model: a}\n  - {provider: bedrock, model: b, mode: live}",
            "line 5: judges[1]: bedrock has no mode live",
        ),
        ("judges: [{provider: openai, model: gpt-6-luna, reasoning: huge}]", "line 3: judges[0]: "),
        ("pairs: {design: random, count: 9}", "line 3: pairs.count is 9, but only 3 pairs exist"),
        ("pairs: {design: groups}", "line 3: pairs.design is groups, but no sample has a group"),
        (
            "criterion: coherence",
            "line 3: criterion: 'coherence' is not a built-in trait; built in are overall_quality",
        ),
        ("templates: [default, none]", "line 3: templates: 'none' is not a built-in template"),
        ("templates: [gone.txt]", "line 3: templates[0]: "),
        ("samples: gone.csv", "line 3: samples: "),
        ("judges: [gpt-6-luna]", "line 3: judges[0] is 'gpt-6-luna'; it must be a mapping, such as {provider: openai,"),
        ("judges:\n\t- {provider: openai, model: m}", "line 4: a tab stands where YAML takes spaces only; use spaces"),
    ],
)
def test_mistakes_that_are_seen_late_name_their_line_and_field_too(
    pairlog: Callable[..., Called], tmp_path: Path, lines: str, words: str
) -> None:
    (tmp_path / "s.csv").write_text("id,text\na,one\nb,two\nc,three\n")
    plain = {"samples": "samples: s.csv", "judges": "judges: [{provider: openai, model: m}]"}
    others = [line for key, line in plain.items() if not lines.startswith(key)]
    head = ["name: few", others[0]]
    (tmp_path / "e.yaml").write_text("\n".join([*head, lines, *others[1:]]) + "\n")
    called = pairlog("plan", "e.yaml")
    assert (called.code, called.err[: len("error: e.yaml, ")]) == (2, "error: e.yaml, ")
    assert words in called.err


@pytest.mark.parametrize("name", ["essays.yaml", "essay", "infra/essays.yml"])
def test_an_experiment_that_is_called_by_its_file_is_guessed(
    pairlog: Callable[..., Called], simulator: Simulator, experiment_file: Callable[..., Path], name: str
) -> None:
    assert pairlog("submit", experiment_file()).code == 0
    for command in ("rank", "resume"):
        called = pairlog(command, name)
        assert called.code == 2
        assert "did you mean essays?" in called.err


@pytest.mark.parametrize(
    ("model", "is_told"), [("gpt-6-lunaaa", True), ("gpt-6-luna", False), ("gpt-5-2026-01-01", False)]
)
def test_a_model_that_is_spelled_like_a_known_one_is_noted_and_not_refused(
    pairlog: Callable[..., Called], experiment_file: Callable[..., Path], model: str, is_told: bool
) -> None:
    called = pairlog("plan", experiment_file(judges=f"[{{provider: openai, model: {model}}}]"))
    assert called.code == 0
    words = "note: gpt-6-lunaaa is not a model of openai that is known here; did you mean gpt-6-luna?"
    assert (words in called.err) is is_told


def test_the_faults_of_the_simulator_can_be_listed(pairlog: Callable[..., Called]) -> None:
    called = pairlog("simulate", "--faults", "help")
    assert called.code == 0
    assert "expire.share" in called.err


SELVES = "only `rank --by sample` counts such a pair"


@pytest.mark.parametrize(
    ("rows", "pairs", "words"),
    [
        (
            "id,text,contestant\na,1,m\nb,2,m\nc,3,n\nd,4,n\n",
            2,
            f"2 of 6 pairs compare a contestant with itself, and {SELVES}",
        ),
        ("id,text,contestant\na,1,m\nb,2,m\nc,3,n\nd,4,n\n", 2, "give the samples a column `group`"),
        ("id,text,contestant\na,1,m\nb,2,m\nc,3,m\n", 3, "all 3 pairs compare a contestant with itself"),
        ("id,text,contestant,group\na,1,m,x\nb,2,m,x\nc,3,n,x\n", 1, "at most one sample in a group"),
        ("id,text,contestant,group\na,1,m,x\nb,2,n,x\nc,3,m,y\nd,4,n,y\n", 0, None),
        ("id,text\na,1\nb,2\n", 0, None),
    ],
)
def test_pairs_of_a_contestant_with_itself_are_told_before_they_are_paid_for(
    pairlog: Callable[..., Called], simulator: Simulator, tmp_path: Path, rows: str, pairs: int, words: str | None
) -> None:
    (tmp_path / "s.csv").write_text(rows)
    (tmp_path / "e.yaml").write_text("name: few\nsamples: s.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n")
    assert json.loads(pairlog("plan", "e.yaml", "--json").out)["self_pairs"] == pairs
    for command in ("plan", "submit"):
        said = pairlog(command, "e.yaml").err
        assert words in said if words else "with itself" not in said


def test_a_store_copied_from_a_mistyped_address_is_a_mistake(pairlog: Callable[..., Called], tmp_path: Path) -> None:
    called = pairlog("store", "copy", tmp_path / "nowhere", tmp_path / "copy")
    assert called.code == 2
    assert "holds no experiment" in " ".join(called.err.split())


def test_status_counts_the_batches_that_are_done_and_names_them_to_programs(
    pairlog: Callable[..., Called], simulator: Simulator, experiment_file: Callable[..., Path]
) -> None:
    assert pairlog("run", experiment_file(), "--interval", "0").code == 0
    (run,) = json.loads(pairlog("status", "--json").out)["experiments"][0]["runs"]
    assert set(run) == {"run_id", "provider", "model", "reasoning", "direction", "counts", "batches"}
    shown = pairlog("status")
    _, behind = (shown.out + shown.err).split(run["run_id"])
    numbers = [int(cell) for cell in behind.split() if cell.isdigit()]
    assert numbers[:4] == [len(run["batches"]), *(run["counts"][name] for name in ("planned", "ok", "open"))]


def test_a_study_from_plan_to_results(
    pairlog: Callable[..., Called], simulator: Simulator, experiment_file: Callable[..., Path], tmp_path: Path
) -> None:
    file = experiment_file()
    assert pairlog("submit", file).code == 0
    assert pairlog("status", "--json").code == 0
    assert pairlog("resume", "--interval", "0").code == 0
    status = json.loads(pairlog("status", "essays", "--json").out)
    run_status = status["experiments"][0]["runs"][0]
    assert list(run_status["counts"]) == COUNTS
    assert run_status["counts"]["planned"] == sum(run_status["counts"][name] for name in COUNTS[1:]) == 15
    assert set(run_status["batches"][0]) == {"batch_id", "attempt", "phase", "remote_id", "requests", "note"}
    assert run_status["batches"][0]["phase"] == "published"
    for kind in ("parquet", "csv", "jsonl"):
        assert pairlog("results", "essays", "--out", tmp_path / f"out.{kind}", "--with-samples").code == 0
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names[-2:] == ["first_text", "second_text"]
    with (tmp_path / "out.csv").open(newline="") as opened:
        assert len(list(csv.DictReader(opened))) == table.num_rows == 15
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    assert [line["request_id"] for line in lines] == table.column("request_id").to_pylist()
    assert pairlog("audit").code == 0


def test_published_rows_say_their_schema_and_who_wrote_them(
    pairlog: Callable[..., Called], simulator: Simulator, experiment_file: Callable[..., Path], tmp_path: Path
) -> None:
    assert pairlog("run", experiment_file(), "--interval", "0").code == 0
    (published,) = (tmp_path / ".pairlog/comparisons").rglob("*.parquet")
    said = pq.read_metadata(published).metadata
    assert said[b"pairlog.schema"] == b"1"
    assert said[b"pairlog.producer"] == f"pairlog {version('pairlog')}".encode()


def test_rows_of_a_version_that_knew_fewer_columns_are_read_without_them(
    pairlog: Callable[..., Called], simulator: Simulator, experiment_file: Callable[..., Path], tmp_path: Path
) -> None:
    assert pairlog("run", experiment_file(more="batch: {max_requests: 8}"), "--interval", "0").code == 0
    older = min((tmp_path / ".pairlog/comparisons").rglob("*.parquet"))
    pq.write_table(pq.read_table(older, partitioning=None).drop_columns(["thoughts", "judged_at"]), older)
    assert pairlog("results", "essays", "--out", tmp_path / "rows.csv", "--with-samples").code == 0
    with (tmp_path / "rows.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert sorted(row["judged_at"] != "" for row in read) == [False] * 8 + [True] * 7
    assert {row["first_text"] for row in read} <= {f"The text that has number {number}." for number in range(6)}
    assert pairlog("rank", "essays").code == 0


def test_cells_that_a_spreadsheet_would_compute_are_neutralised(
    pairlog: Callable[..., Called], simulator: Simulator, tmp_path: Path
) -> None:
    with (tmp_path / "s.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], ["=cmd()", "one"], ["@x", "two"], ["-1", "three"]])
    (tmp_path / "e.yaml").write_text("name: cells\nsamples: s.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n")
    pairlog("run", tmp_path / "e.yaml", "--interval", "0")
    pairlog("results", "cells", "--out", tmp_path / "o.csv")
    with (tmp_path / "o.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["first_id"] for row in rows} | {row["second_id"] for row in rows} == {"'=cmd()", "'@x", "'-1"}


def test_events_tell_the_story_of_a_run(
    pairlog: Callable[..., Called], simulator: Simulator, experiment_file: Callable[..., Path]
) -> None:
    pairlog("run", experiment_file(), "--interval", "0")
    run_id = "essays--default--openai--gpt-6-luna--default--forward"
    commits = json.loads(pairlog("events", run_id, "--json").out)
    kinds = [event["type"] for commit in commits for event in commit["events"]]
    assert kinds == [
        "run-planned", "batch-planned", "input-stored", "attempt-opened", "file-uploaded", "submitted", "ended",
        "outputs-stored", "rows-published", "remote-cleaned",
    ]  # fmt: skip
    text = pairlog("events", run_id).out
    assert len(text.splitlines()) == len(kinds)
    as_of = commits[0]["at"]
    past = json.loads(pairlog("status", "--json", "--as-of", as_of).out)
    assert past["experiments"][0]["counts"]["open"] == 15


def test_explain_goes_back_to_the_raw_line_and_the_prompt(
    pairlog: Callable[..., Called], simulator: Simulator, experiment_file: Callable[..., Path], tmp_path: Path
) -> None:
    pairlog("run", experiment_file(), "--interval", "0")
    pairlog("results", "essays", "--out", tmp_path / "o.parquet")
    for row in pq.read_table(tmp_path / "o.parquet").to_pylist():
        found = json.loads(pairlog("explain", row["request_id"], "--json").out)
        assert (found["first_id"], found["outcome"], found["status"]) == (row["first_id"], row["outcome"], "ok")
        assert json.loads(found["raw_output"])["custom_id"] == row["request_id"]
        asked = json.loads(found["raw_request"])["body"]["messages"]
        assert [(each["role"], each["text"]) for each in found["messages"]] == [(asked[0]["role"], asked[0]["content"])]
        assert f"number {row['first_id'][1:]}" in asked[0]["content"]
    assert pairlog("explain", "0" * 32).code == 2


def test_cancel_keeps_what_was_answered_and_ends_the_rest(
    pairlog: Callable[..., Called],
    simulate: Simulate,
    monkeypatch: pytest.MonkeyPatch,
    experiment_file: Callable[..., Path],
) -> None:
    simulator = simulate(latency_seconds=60, faults=parse_faults("cancel.share=0.4"))
    for name, value in environment(simulator).items():
        monkeypatch.setenv(name, value)
    file = experiment_file()
    assert pairlog("submit", file).code == 0
    assert pairlog("cancel", "essays").code == 1
    assert pairlog("resume", "--interval", "0.05").code == 0
    counts = json.loads(pairlog("status", "--json").out)["experiments"][0]["counts"]
    assert counts["ok"] + counts["cancelled"] == 15
    assert counts["cancelled"] == 6
    assert simulator.ledger.totals.requests == 9
    assert pairlog("cancel", "essays").code == 0
    for command in ("submit", "run"):
        again = pairlog(command, file)
        assert again.code == 0
        assert "6 requests were cancelled and will not be sent: take a new name in the file to ask again" in again.err


def test_strict_turns_failures_into_an_exit_code(
    pairlog: Callable[..., Called],
    simulate: Simulate,
    monkeypatch: pytest.MonkeyPatch,
    experiment_file: Callable[..., Path],
) -> None:
    simulator = simulate(faults=parse_faults("answer.refusal=0.2"))
    for name, value in environment(simulator).items():
        monkeypatch.setenv(name, value)
    file = experiment_file()
    assert pairlog("run", file, "--interval", "0").code == 0
    called = pairlog("run", file, "--interval", "0", "--strict")
    assert called.code == 1
    assert "3 requests did not end as ok" in called.last_line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["status", "nosuch"], "nosuch"),
        (["resume", "nosuch"], "nosuch"),
        (["cancel", "nosuch"], "nosuch"),
        (["results", "nosuch", "--out", "x.csv"], "nosuch"),
        (["events", "nosuch"], "nosuch"),
        (["explain", "nosuch"], "nosuch"),
        (["plan", "nosuch.yaml"], "nosuch.yaml"),
        (["submit", "nosuch.yaml"], "nosuch.yaml"),
        (["plan", "."], "is a folder"),
        (["adopt", "nosuch", "s000-1", "r"], "nosuch"),
        (["status", "--as-of", "yesterday"], "yesterday"),
        (["resume", "--interval", "-1"], "interval"),
        (["frobnicate"], "frobnicate"),
        (["plan"], "FILE"),
        (["status", "--store", "ftp://user:hunter2@x/y"], "ftp"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_call_exits_2_and_writes_nothing(
    pairlog: Callable[..., Called], tmp_path: Path, arguments: list[str], message: str
) -> None:
    called = pairlog(*arguments)
    assert called.code == 2
    assert message in called.err
    assert "Traceback" not in called.err
    assert "hunter2" not in called.err
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_one_is_named(
    pairlog: Callable[..., Called], simulator: Simulator, experiment_file: Callable[..., Path]
) -> None:
    file = experiment_file()
    for command in (["plan", file], ["submit", file], ["run", file], ["resume"], ["status"], ["doctor"], ["audit"]):
        called = pairlog(*command, "--store", file)
        assert called.code == 2
        assert called.last_line.endswith("is a file, not a folder; name a folder, or one that is to be made")
    called = pairlog("submit", file, "--store", "/proc/pairlog")
    assert called.code == 1
    assert "there is no" not in called.err
    assert called.last_line.endswith("the store cannot be written by this user")
    assert "cannot be written by this user" in pairlog("doctor", "--store", "/proc/pairlog").err


def test_plan_counts_duplicate_rows(pairlog: Callable[..., Called], experiment_file: Callable[..., Path]) -> None:
    file = experiment_file()
    with (file.parent / "samples.csv").open("a", encoding="utf-8") as samples:
        samples.write("s0,The text that has number 0.\n")
    called = pairlog("plan", file)
    assert "1 duplicate row left out" in called.err
    assert "6 samples, 15 pairs" in called.err


@pytest.mark.parametrize(
    ("samples", "more", "message"),
    [
        ("id,text\n", "", "s.csv holds no sample"),
        ("id,text\na,one\n", "", "s.csv holds one sample, and a pair needs two"),
        ("id,text,group\na,one,x\nb,two,y\n", "pairs: {design: groups}", "no group has two samples"),
        ("id,text\n", "task: generation", "s.csv holds no sample"),
    ],
)
def test_samples_that_make_no_request_are_refused_so_that_the_name_stays_free(
    pairlog: Callable[..., Called], simulator: Simulator, tmp_path: Path, samples: str, more: str, message: str
) -> None:
    (tmp_path / "s.csv").write_text(samples)
    judges = "judges: [{provider: openai, model: gpt-6-luna}]"
    (tmp_path / "e.yaml").write_text(f"name: few\nsamples: s.csv\n{judges}\n{more}\n")
    called = pairlog("submit", tmp_path / "e.yaml")
    assert called.code == 2
    assert f"there is nothing to ask: {message}" in called.err
    assert not (tmp_path / ".pairlog").exists()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("OPENAI_API_KEY", None, "OPENAI_API_KEY"),
        ("OPENAI_API_KEY", "", "OPENAI_API_KEY"),
        ("OPENAI_API_KEY", "sk-canary\n", "OPENAI_API_KEY"),
        ("OPENAI_API_KEY", '"sk-canary"', "OPENAI_API_KEY"),
        ("OPENAI_BASE_URL", "http://api.example.com/v1", "https"),
        ("OPENAI_BASE_URL", "http://169.254.169.254/v1", "https"),
        ("OPENAI_BASE_URL", "https://169.254.169.254/v1", "no provider"),
        ("OPENAI_BASE_URL", "https://me:sk-canary@example.com/v1", "password"),
        ("OPENAI_BASE_URL", "ftp://example.com", "web address"),
        ("OPENAI_BASE_URL", "https://2852039166/v1", "no provider"),
        ("OPENAI_BASE_URL", "https://169.254.169.254./v1", "no provider"),
        ("OPENAI_BASE_URL", "https://[::ffff:169.254.169.254]/v1", "no provider"),
        ("OPENAI_BASE_URL", "https://[::1/v1", "web address"),
        ("OPENAI_BASE_URL", "https://example.com:99999/v1", "web address"),
        ("OPENAI_BASE_URL", "https://example.com/v1\n", "web address"),
        ("PAIRLOG_QUIET_SECONDS", "soon", "PAIRLOG_QUIET_SECONDS"),
        ("PAIRLOG_QUIET_SECONDS", "-1", "PAIRLOG_QUIET_SECONDS"),
        ("PAIRLOG_PAUSE_SECONDS", "nan", "PAIRLOG_PAUSE_SECONDS"),
    ],
)
def test_a_wrong_environment_exits_2_before_anything_is_written(
    pairlog: Callable[..., Called],
    simulator: Simulator,
    monkeypatch: pytest.MonkeyPatch,
    experiment_file: Callable[..., Path],
    tmp_path: Path,
    name: str,
    value: str | None,
    message: str,
) -> None:
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    called = pairlog("run", experiment_file())
    assert called.code == 2
    assert message in called.err
    assert "canary" not in called.err
    assert not (tmp_path / ".pairlog").exists()
    assert simulator.ledger.files == []


def test_resuming_an_empty_store_is_done_at_once(pairlog: Callable[..., Called]) -> None:
    assert pairlog("resume").code == 0
    assert pairlog("status").code == 0


def test_resuming_without_the_key_is_refused_before_any_write(
    pairlog: Callable[..., Called],
    simulator: Simulator,
    monkeypatch: pytest.MonkeyPatch,
    experiment_file: Callable[..., Path],
    tmp_path: Path,
) -> None:
    pairlog("submit", experiment_file())
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.delenv("OPENAI_API_KEY")
    assert pairlog("resume").code == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_doctor_names_keys_but_never_their_values(
    pairlog: Callable[..., Called], simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    good = pairlog("doctor")
    assert good.code == 0
    assert "refuses a second create" in good.err
    assert "OPENAI_API_KEY is set; reached: " in good.err
    assert "ANTHROPIC_API_KEY is not set" in good.err
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    broken = pairlog("doctor")
    assert broken.code == 1
    assert "doctor: openai: OPENAI_API_KEY is set; " in broken.err
    assert "canary" not in good.err + good.out + broken.err + broken.out


def test_no_key_is_stored_logged_or_printed_anywhere(
    pairlog: Callable[..., Called],
    simulate: Simulate,
    monkeypatch: pytest.MonkeyPatch,
    experiment_file: Callable[..., Path],
    tmp_path: Path,
) -> None:
    simulator = simulate(faults=parse_faults("create.401=1,poll.500=1,download.cut=1"))
    for name, value in environment(simulator).items():
        monkeypatch.setenv(name, value)
    said = ""
    for _ in range(2):
        called = pairlog("run", experiment_file(), "--interval", "0")
        said += called.out + called.err
    for command in (["status"], ["events", "essays--default--openai--gpt-6-luna--default--forward"], ["audit"]):
        called = pairlog(*command)
        said += called.out + called.err
    assert "canary" not in said
    for path in (tmp_path / ".pairlog").rglob("*"):
        assert "canary" not in str(path)
        assert path.is_dir() or b"canary" not in path.read_bytes()


def test_the_demo_finds_the_true_order(pairlog: Callable[..., Called], tmp_path: Path) -> None:
    called = pairlog("demo", "--store", tmp_path / "demo")
    assert called.code == 0
    assert "the order found, beside the true one" in called.err
    found = json.loads(pairlog("rank", "essays", "--store", tmp_path / "demo", "--json").out)
    shown = re.findall(r"^│ (\d+) +│ (essay-\d+) ", called.err, flags=re.MULTILINE)
    assert shown == [(str(each["rank"]), each["contestant"]) for each in found["contestants"]]
    assert len({each["rank"] for each in found["contestants"]}) < len(found["contestants"])
    assert all(f"note: {warning}" in called.err for warning in found["warnings"])
    advice = [line.split()[1:] for line in called.err.splitlines() if line.startswith("  pairlog ")]
    assert [command[0] for command in advice] == ["rank", "report"]
    assert [pairlog(*command).code for command in advice] == [0, 0]
    assert len(list((tmp_path / "demo" / "comparisons").rglob("*.parquet"))) == 4


@pytest.mark.parametrize("has_ended", [False, True])
def test_resume_goes_on_with_the_others_where_one_log_is_damaged_and_names_it(
    pairlog: Callable[..., Called],
    simulator: Simulator,
    experiment_file: Callable[..., Path],
    tmp_path: Path,
    has_ended: bool,
) -> None:
    first = experiment_file(name="alpha")
    assert pairlog("run" if has_ended else "submit", first, *(["--interval", "0"] if has_ended else [])).code == 0
    assert pairlog("submit", experiment_file(name="zeta")).code == 0
    (log,) = (tmp_path / ".pairlog" / "log").glob("alpha--*")
    (log / f"{0:020d}.json").write_bytes(b"{}")
    called = pairlog("resume", "--interval", "0")
    assert called.code == 1
    assert "alpha--default--openai--gpt-6-luna--default--forward" in " ".join(called.err.split())
    assert json.loads(pairlog("status", "zeta", "--json").out)["experiments"][0]["counts"]["ok"] == 15


@pytest.mark.parametrize("interval", ["inf", "1e12", "nan", "-1"])
def test_an_interval_that_nobody_can_wait_for_is_a_mistake(pairlog: Callable[..., Called], interval: str) -> None:
    called = pairlog("resume", "--interval", interval)
    assert called.code == 2
    assert "is not between 0 and 604800 seconds" in " ".join(called.err.split())


def test_a_quiet_period_in_which_nothing_can_be_sent_is_a_mistake(
    pairlog: Callable[..., Called], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAIRLOG_QUIET_SECONDS", "0")
    called = pairlog("resume")
    assert called.code == 2
    assert "PAIRLOG_QUIET_SECONDS is '0'; give a number of seconds, 0.1 or more" in " ".join(called.err.split())
