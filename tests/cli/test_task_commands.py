"""The commands on tasks other than pairs, as a person calls them."""

import csv
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.simulator import Simulator
from pipeline.simulator.faults import parse_faults
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile, Simulate

SKILLS = {"first-rate": 2.0, "second-rate": 0.0, "third-rate": -2.0}


@pytest.fixture
def talented(provide: Simulate) -> Simulator:
    return provide(skills=SKILLS, sharpness=2.0)


@pytest.fixture
def chain(tmp_path: Path) -> tuple[Path, Path]:
    """Two files: one that lets three models write, one that lets two judges compare what they wrote."""
    prompts = [{"id": f"p{number}", "text": f"Explain matter {number}."} for number in range(10)]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in prompts))
    answers, judged = tmp_path / "answers.yaml", tmp_path / "judged.yaml"
    models = ", ".join(SKILLS)
    answers.write_text(
        f"name: answers\ntask: generation\nsamples: prompts.jsonl\njudges: [{{provider: openai, model: [{models}]}}]\n"
    )
    judged.write_text(
        "name: judged\nsamples: generations://answers\npairs: {design: groups}\n"
        "judges: [{provider: openai, model: [judge-a, judge-b]}]\n"
    )
    return answers, judged


def test_two_commands_generate_judge_and_find_the_hidden_order(
    pairlog: Pairlog, talented: Simulator, chain: tuple[Path, Path], tmp_path: Path
) -> None:
    answers, judged = chain
    assert pairlog("run", answers, "--interval", "0").code == 0
    assert pairlog("run", judged, "--interval", "0").code == 0
    found = json.loads(pairlog("rank", "judged", "--json").out)
    assert [each["contestant"] for each in found["contestants"]] == list(SKILLS)
    assert pairlog("audit").code == 0
    assert pairlog("results", "answers", "--out", tmp_path / "g.parquet", "--with-samples").code == 0
    table = pq.read_table(tmp_path / "g.parquet")
    assert (table.num_rows, table.column_names[-1]) == (30, "sample_text")
    assert set(table.column("sample_text").to_pylist()) == {f"Explain matter {number}." for number in range(10)}


def test_rank_says_in_words_that_nothing_was_compared_and_report_shows_what_was_found(
    pairlog: Pairlog, talented: Simulator, chain: tuple[Path, Path], tmp_path: Path
) -> None:
    pairlog("run", chain[0], "--interval", "0")
    called = pairlog("rank", "answers")
    assert (called.code, "compares nothing; `pairlog report answers`" in called.last_line) == (1, True)
    page = tmp_path / "answers.html"
    called = pairlog("report", "answers", "--out", page)
    assert called.code == 0
    assert "30 texts were written" in page.read_text()
    assert "characters of content" in called.err


def test_a_chain_to_an_unfinished_or_unknown_experiment_is_refused_before_anything_is_written(
    pairlog: Pairlog, talented: Simulator, chain: tuple[Path, Path]
) -> None:
    answers, judged = chain
    assert "there is no experiment 'answers'" in pairlog("run", judged).last_line
    pairlog("submit", answers)
    called = pairlog("plan", judged)
    assert called.code == 2
    assert "30 requests of answers have not ended; run `pairlog resume answers`" in called.last_line
    pairlog("resume", "--interval", "0")
    judged.write_text(judged.read_text().replace("generations://", "comparisons://"))
    assert "is a generation experiment; write generations://answers" in pairlog("plan", judged).last_line


@pytest.mark.parametrize("task", ["compliance", "grading\nscale: {low: 1, high: 5}"])
def test_a_report_of_nothing_readable_says_so_and_exits_with_1(
    pairlog: Pairlog,
    provide: Simulate,
    tmp_path: Path,
    task: str,
) -> None:
    provide(faults=parse_faults("answer.unparseable"))
    (tmp_path / "samples.jsonl").write_text('{"id": "a", "text": "One."}\n{"id": "b", "text": "Two."}\n')
    (tmp_path / "mute.yaml").write_text(
        f"name: mute\ntask: {task}\nsamples: samples.jsonl\njudges: [{{provider: openai, model: m}}]\n"
    )
    assert pairlog("run", tmp_path / "mute.yaml", "--interval", "0").code == 0
    called = pairlog("report", "mute", "--out", tmp_path / "page.html")
    assert called.code == 1
    words = "nothing to report: no answer of 2 requests could be read (2 unparsed): nothing can be said"
    assert called.last_line == words
    assert (tmp_path / "page.html").exists()


def test_speceval_outputs_are_imported_by_a_command(pairlog: Pairlog, tmp_path: Path) -> None:
    for candidate in ("model-a", "model-b"):
        folder = tmp_path / "outputs" / candidate
        folder.mkdir(parents=True)
        entries = [{"input_text": "Why?", "output_text": f"{candidate} says so."}]
        (folder / "rule_1.json").write_text(json.dumps(entries))
    (tmp_path / "spec.jsonl").write_text(
        '{"id": "rule_1", "text": "Give reasons."}\n{"id": "rule_2", "text": "Other."}\n'
    )
    called = pairlog("import", "speceval", "outputs", "--spec", "spec.jsonl", "--out", "samples.jsonl", "--json")
    assert called.code == 0
    found = json.loads(called.out)
    assert (found["samples"], found["candidates"]) == (2, ["model-a", "model-b"])
    assert "1 statement has no answers: rule_2" in called.err
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [line["contestant"] for line in lines] == ["model-a", "model-b"]
    assert pairlog("import", "speceval", "outputs", "--spec", "spec.jsonl", "--out", "samples.csv").code == 2
    assert pairlog("import", "speceval", "nowhere", "--spec", "spec.jsonl", "--out", "s.jsonl").code == 2


def test_confidences_are_written_as_the_judge_said_them(
    pairlog: Pairlog, talented: Simulator, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    assert pairlog("run", experiment_file(samples=30, more="task: compliance"), "--interval", "0").code == 0
    assert pairlog("results", "essays", "--out", tmp_path / "rows.csv").code == 0
    assert pairlog("results", "essays", "--out", tmp_path / "rows.jsonl").code == 0
    with (tmp_path / "rows.csv").open(newline="", encoding="utf-8") as file:
        written = [row["confidence"] for row in csv.DictReader(file)]
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [float(each) for each in written] == [json.loads(row["content"])["confidence"] for row in lines]
    assert max(map(len, written)) <= 4


def test_the_guides_table_of_outputs_that_are_there_already_gives_a_leaderboard(
    pairlog: Pairlog, simulator: Simulator, tmp_path: Path
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "tasks.md").read_text(encoding="utf-8")
    told = re.search(r"already have: a table\n.*?```\n(.*?)```.*?```yaml\n(.*?)```", guide, re.DOTALL)
    assert told is not None
    (tmp_path / "outputs.csv").write_text(told[1], encoding="utf-8")
    (tmp_path / "board.yaml").write_text(told[2], encoding="utf-8")
    assert pairlog("run", "board.yaml", "--interval", 0).code == 0
    found = json.loads(pairlog("rank", "board", "--json").out)
    assert {each["contestant"] for each in found["contestants"]} == {"gpt-6-luna", "gpt-6-sol"}
    assert found["comparisons"] == 4
