"""What a person sees at a terminal of 80 columns."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.cli.app import IN_ORDER_OF_USE
from pipeline.cli.screen import people, safe
from pipeline.cli.widths import fitted
from pipeline.simulator import Simulator, parse_faults
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile, Simulate

JUDGES = "[{provider: openai, model: a-model-with-quite-a-long-name, reasoning: [none, low]}]"
RUNS = [f"essays--default--openai--a-model-with-quite-a-long-name--{level}--forward" for level in ("none", "low")]


@pytest.fixture(autouse=True)
def _narrow(pairlog: Pairlog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(people, "width", 80)


def test_help_lists_every_command_in_the_order_of_use_and_cuts_no_line_off(pairlog: Pairlog) -> None:
    called = pairlog("-h")
    lines = called.out.partition("Commands:\n")[2].splitlines()
    assert called.code == 0
    assert [line.split()[0] for line in lines] == list(IN_ORDER_OF_USE)
    assert [line for line in lines if line.endswith("...")] == []


def test_help_waits_for_no_heavy_import() -> None:
    loaded = "import sys, pipeline.cli; pipeline.cli.run(['--help']); print(*sys.modules, file=sys.stderr)"
    called = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    heavy = {"dagster", "pandas", "scipy", "starlette", "uvicorn"}
    assert "pipeline.cli.app" in called.stderr.split()
    assert heavy & set(called.stderr.split()) == set()


@pytest.mark.parametrize("command", ["resume", "status", "audit"])
def test_names_that_may_be_left_out_are_in_one_pair_of_brackets(pairlog: Pairlog, command: str) -> None:
    assert f" {command} [OPTIONS] [EXPERIMENT]...\n" in pairlog(command, "--help").out


@pytest.mark.parametrize("command", [["plan"], ["store", "usage"], ["import", "speceval"]])
def test_every_command_knows_both_names_of_help(pairlog: Pairlog, command: list[str]) -> None:
    short, long = pairlog(*command, "-h"), pairlog(*command, "--help")
    assert (short.code, short.out) == (long.code, long.out)
    assert short.code == 0


EVERY = [*(set(IN_ORDER_OF_USE) - {"store", "import"}), "store copy", "store usage", "import speceval"]


@pytest.mark.parametrize("command", sorted(EVERY))
def test_help_names_no_type_of_python(pairlog: Pairlog, command: str) -> None:
    shown = pairlog(*command.split(), "-h").out
    assert re.findall(r"<[\w\[\] ]+>|[{}]", shown) == []


def test_shells_can_complete_commands_and_values() -> None:
    asked = {"_PAIRLOG_COMPLETE": "complete_bash", "COMP_WORDS": "pairlog rank --method ", "COMP_CWORD": "3"}
    program = [sys.executable, "-c", "import sys, pipeline.cli; sys.argv[0] = 'pairlog'; pipeline.cli.main()"]
    called = subprocess.run(program, capture_output=True, text=True, check=True, env={**os.environ, **asked})
    assert called.stdout.split() == ["bradley-terry", "elo", "win-rate"]


def test_the_version_is_told(pairlog: Pairlog) -> None:
    called = pairlog("--version")
    assert (called.code, called.out.split()[0]) == (0, "pairlog")


def test_ids_of_runs_can_be_copied_whole_and_their_numbers_are_summed(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    file = experiment_file(judges=JUDGES)
    planned = pairlog("plan", file).err.splitlines()
    assert [line for line in planned if line.startswith("essays")] == RUNS
    assert planned[planned.index("all") + 1].split()[:2] == ["30", "2"]
    pairlog("submit", file)
    told = pairlog("status").err.splitlines()
    assert [line for line in told if line.startswith("essays")] == RUNS
    assert told[told.index("all") + 1].split() == ["2", "30", "0", "30"]


def test_a_wide_terminal_has_a_table(
    pairlog: Pairlog, monkeypatch: pytest.MonkeyPatch, experiment_file: ExperimentFile
) -> None:
    monkeypatch.setattr(people, "width", 150)
    lines = pairlog("plan", experiment_file(judges=JUDGES)).err.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("│")] == [*RUNS, "all"]


MODELS = ["gpt-6-luna-2026-10-01", "claude-sonnet-5-5-20260901", "meta-llama/Llama-4-Maverick-17B-128E"]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")]


def test_names_in_a_ranking_are_broken_behind_hyphens_and_slashes(
    pairlog: Pairlog, simulator: Simulator, tmp_path: Path
) -> None:
    samples = "".join(f"s{at},Text {at}.,{MODELS[at]}\n" for at in range(3))
    (tmp_path / "s.csv").write_text(f"id,text,contestant\n{samples}")
    judges = f"[{{provider: openai, model: [{', '.join(MODELS)}]}}]"
    (tmp_path / "e.yaml").write_text(f"name: essays\nsamples: s.csv\njudges: {judges}\nrepeats: 4\n")
    assert pairlog("run", tmp_path / "e.yaml", "--interval", "0").code == 0
    told = pairlog("rank", "essays", "--per", "judge").err
    ranking, ranks = (part.splitlines() for part in told.partition("\nranks\n")[::2])
    names = "".join(cells(line)[1] for line in (*ranking, *ranks) if line.startswith("│"))
    assert [names.count(model) for model in MODELS] == [2, 2, 2]
    headings = [cells(line)[2:] for line in ranks if line.startswith("┃")]
    assert {"".join(column) for column in zip(*headings, strict=True)} == {f"openai/{model}" for model in MODELS}
    assert {len(line) for line in (*ranking, *ranks) if line.startswith("│")} <= set(range(81))
    ends = [cell[-1] for column in zip(*headings, strict=True) for cell in column[:-1] if cell]
    assert set(ends) <= {"-", "/"}
    begun = [cells(line)[1] for line in (*ranking, *ranks) if line.startswith("│") and cells(line)[0]]
    assert [name for name in begun if name[-1] not in "-/*" and name not in MODELS] == []


@pytest.mark.parametrize(
    ("room", "names"),
    [
        (20, ["a-long/name", "short"]),
        (19, ["a-long/\nname", "short"]),
        (14, ["a-\nlong/\nname", "short"]),
        (13, ["a-long/name", "short"]),
    ],
)
def test_a_name_is_broken_only_where_it_helps(room: int, names: list[str]) -> None:
    lines = [["name", "n"], ["a-long/name", "12"], ["short", "-3"]]
    assert [line[0] for line in fitted(lines, right=1, room=room)[1:]] == names


def test_a_table_without_lines_has_its_headings() -> None:
    assert fitted([["a-long/name", "n"]], right=1, room=14) == [["a-\nlong/\nname", "n"]]


def test_headings_over_numbers_give_way_before_names() -> None:
    lines = [["name", "a-long/name"], ["a-long/name", "-1.5"]]
    assert fitted(lines, right=1, room=23) == [["name", "a-\nlong/\nname"], ["a-long/name", "-1.5"]]


def test_status_tells_what_was_sent_from_what_was_not(
    pairlog: Pairlog,
    provide: Simulate,
    experiment_file: ExperimentFile,
) -> None:
    provide(latency_seconds=60, faults=parse_faults("create.401=2"))
    file = experiment_file(judges=JUDGES)
    pairlog("submit", file)
    refused = pairlog("status").err
    assert "30 requests are open: 30 not sent yet" in refused
    assert "unsent" in refused
    pairlog("submit", file)
    sent = pairlog("status").err
    assert "30 requests are open: 30 at the provider" in sent
    assert "unsent" not in sent


def test_status_says_what_needs_a_person_and_what_helps(
    pairlog: Pairlog,
    provide: Simulate,
    experiment_file: ExperimentFile,
) -> None:
    provide(faults=parse_faults("create.401=1"))
    pairlog("submit", experiment_file())
    (batch,) = json.loads(pairlog("status", "--json").out)["experiments"][0]["runs"][0]["batches"]
    remedy = "mend the account; `pairlog resume` then sends it at once"
    assert batch["attention"] == {"reason": batch["note"], "remedies": [remedy], "needs_person": True}
    told = pairlog("status").err.splitlines()[-2:]
    run_id = "essays--default--openai--gpt-6-luna--default--forward"
    assert told == [f"look: {run_id} s000-1 refused: {batch['note']}", f"      {remedy}"]


def test_a_time_before_the_start_is_answered_in_words(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    pairlog("submit", experiment_file())
    called = pairlog("status", "--as-of", "2020-01-01")
    assert (called.code, called.err) == (0, "essays was not planned yet at 2020-01-01 00:00:00+00:00\n")


@pytest.mark.parametrize("command", [["resume"], ["status"], ["rank", "essays"], ["cancel", "essays"]])
def test_whoever_finds_nothing_is_told_where_it_was_looked_for_and_how_to_name_another_store(
    pairlog: Pairlog, tmp_path: Path, command: list[str]
) -> None:
    called = pairlog(*command)
    assert f"{tmp_path}/.pairlog (--store or PAIRLOG_STORE names another store)" in called.err


def test_where_there_is_no_terminal_progress_comes_in_lines(
    pairlog: Pairlog,
    provide: Simulate,
    experiment_file: ExperimentFile,
) -> None:
    provide(latency_seconds=0.5)
    called = pairlog("run", experiment_file(), "--interval", "0.1")
    told = [line for line in called.err.splitlines() if "have ended" in line]
    assert told == ["0 of 15 requests have ended; asks every 0.1 s", "15 of 15 requests have ended"]


def test_who_waits_at_a_terminal_sees_how_often_the_providers_are_asked(
    provide: Simulate, experiment_file: ExperimentFile
) -> None:
    provide(latency_seconds=0.5)
    at_a_terminal = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])"]
    call = [sys.executable, "-m", "pipeline.cli", "run", str(experiment_file()), "--interval", "0.4"]
    seen = subprocess.run([*at_a_terminal, *call], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert "requests; asks every 0.4 s" in seen.stdout


def test_a_folder_is_made_for_what_is_written_and_told_of(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    pairlog("run", experiment_file(), "--interval", "0")
    calls = {"results": "one/rows.csv", "rank": "two/ranking.csv", "report": "three/page.html"}
    for command, out in calls.items():
        called = pairlog(command, "essays", "--out", out)
        assert (called.code, f"{out} (a new folder)" in called.err) == (0, True)
        assert "a new folder" not in pairlog(command, "essays", "--out", out).err
        assert (tmp_path / out).is_file()


def test_explain_shows_prompt_and_answer_as_texts_under_headings_of_their_own(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    pairlog("run", experiment_file(), "--interval", "0")
    pairlog("results", "essays", "--out", "rows.jsonl")
    row = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])
    lines = pairlog("explain", row["request_id"]).err.splitlines()
    prompt, answer, raw = (
        next(at for at, line in enumerate(lines) if line.startswith(f"{heading} ─"))
        for heading in ("prompt", "answer", "raw line of the output")
    )
    assert "<SAMPLE_1>" in lines[prompt:answer]
    assert "\n".join(lines[answer + 1 : raw]) == row["content"]


def test_words_of_others_neither_steer_a_terminal_nor_turn_its_lines_round() -> None:
    assert safe("a\x1b[31mb\x07c\x9bd\u202ee\u2066f") == "a·[31mb·c·d·e·f"
    assert safe("עברית, 日本語\tand 👩‍🔬") == "עברית, 日本語\tand 👩‍🔬"
