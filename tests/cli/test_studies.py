"""A study by its commands, from `submit` to its rows and the story behind them; the demo and its simulator."""

import csv
import json
import re
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.simulator import Simulator, parse_faults
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile, Simulate

COUNTS = ["planned", "ok", "unparsed", "refused", "truncated", "errored", "expired", "missing", "cancelled", "open"]


def test_the_faults_of_the_simulator_can_be_listed(pairlog: Pairlog) -> None:
    called = pairlog("simulate", "--faults", "help")
    assert called.code == 0
    assert "expire.share" in called.err


def test_status_counts_the_batches_that_are_done_and_names_them_to_programs(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    assert pairlog("run", experiment_file(), "--interval", "0").code == 0
    (run,) = json.loads(pairlog("status", "--json").out)["experiments"][0]["runs"]
    assert set(run) == {"run_id", "provider", "model", "reasoning", "direction", "counts", "batches"}
    shown = pairlog("status")
    assert shown.last_line == "every request has ended: 15 ok, 0 not"
    _, behind = (shown.out + shown.err).split(run["run_id"])
    numbers = [int(cell) for cell in behind.split() if cell.isdigit()]
    assert numbers[:4] == [len(run["batches"]), *(run["counts"][name] for name in ("planned", "ok", "open"))]
    (batch,) = run["batches"]
    assert batch["remote_id"] not in shown.err
    (line,) = [line for line in pairlog("status", "--batches").err.splitlines() if batch["batch_id"] in line]
    assert all(word in line for word in ("published", batch["remote_id"], str(batch["requests"])))


def test_a_study_from_plan_to_results(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
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
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    assert pairlog("run", experiment_file(), "--interval", "0").code == 0
    (published,) = (tmp_path / ".pairlog/comparisons").rglob("*.parquet")
    said = pq.read_metadata(published).metadata
    assert said[b"pairlog.schema"] == b"1"
    assert said[b"pairlog.producer"] == f"pairlog {version('pairlog')}".encode()


def test_rows_of_a_version_that_knew_fewer_columns_are_read_without_them(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
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
    pairlog: Pairlog, simulator: Simulator, tmp_path: Path
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
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
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
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
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
    pairlog: Pairlog,
    provide: Simulate,
    experiment_file: ExperimentFile,
) -> None:
    simulator = provide(latency_seconds=12, faults=parse_faults("cancel.share=0.4"))
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
    pairlog: Pairlog,
    provide: Simulate,
    experiment_file: ExperimentFile,
) -> None:
    provide(faults=parse_faults("answer.refusal=0.2"))
    file = experiment_file()
    done = pairlog("run", file, "--interval", "0")
    assert (done.code, done.last_line) == (0, "every request has ended: 12 ok, 3 not")
    assert "\n3 refused: " in done.err
    called = pairlog("run", file, "--interval", "0", "--strict")
    assert called.code == 1
    assert "3 requests did not end as ok" in called.last_line


def test_resuming_an_empty_store_is_done_at_once(pairlog: Pairlog) -> None:
    assert pairlog("resume").code == 0
    assert pairlog("status").code == 0


def test_the_help_of_the_demo_says_where_it_keeps_everything(pairlog: Pairlog) -> None:
    told = " ".join(pairlog("demo", "--help").out.split())
    assert "--store URL Where everything is kept; default a new temporary folder." in told
    assert "PAIRLOG_STORE" not in told


def test_the_demo_finds_the_true_order(pairlog: Pairlog, tmp_path: Path) -> None:
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
    pairlog: Pairlog,
    simulator: Simulator,
    experiment_file: ExperimentFile,
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
