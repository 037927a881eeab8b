"""Every task from file to table on the simulator, and what one experiment wrote judged by another."""

import html
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ConfigError
from pipeline.ids import ExperimentName
from pipeline.operations.reading.absences import absent_in
from pipeline.operations.reading.answers import answers_of, ranking_of
from pipeline.operations.reading.answers import report as answers_report
from pipeline.operations.reading.explaining import explain
from pipeline.operations.reading.summaries import is_pairwise, measures_of, report
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.worker import Worker
from pipeline.ranking import Ranking, RankingOptions, Unrankable
from pipeline.ranking.report.markup import breakable
from pipeline.simulator.faults import Fault
from tests.conftest import ExperimentFile, Simulate, WorkerFor
from tests.flows.studies import column, counts, finished, problems, rows

SKILLS = {"fine/model-x:1": 2.0, "plain": 0.0, "poor": -2.0}
WRITERS = "[{provider: openai, model: ['fine/model-x:1', plain, poor]}]"
JUDGES = "[{provider: openai, model: [judge-one, judge-two]}]"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write prompts under two policy statements once, and experiment files beside them."""

    def file(name: str, text: str, *, prompts: int = 16) -> Path:
        lines = [
            {
                "id": f"prompt {number}",
                "text": f"What about matter number {number}?",
                "context": "Answer in one sentence." if number % 3 else None,
                "criterion": f"Statement {number % 2}: keep to it.",
                "statement": f"s{number % 2}",
            }
            for number in range(prompts)
        ]
        (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"name: {name}\n{text}")
        return path

    return file


def a_generation(write: Callable[..., Path], judges: str = WRITERS, more: str = "") -> Path:
    return write("answers", f"samples: prompts.jsonl\ntask: generation\njudges: {judges}\n{more}")


def test_what_three_models_wrote_is_ranked_in_their_hidden_order_by_statement_and_overall(
    simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path]
) -> None:
    simulator = simulate(skills=SKILLS, sharpness=2.0, seed=3)
    worker = worker_for(simulator)
    judged = write("judged", f"samples: generations://answers\npairs: {{design: groups}}\njudges: {JUDGES}\n")
    assert finished(worker, a_generation(write)).counts.ok == 48
    assert finished(worker, judged).counts.ok == 2 * 16 * 3
    found = answers_of(worker, ExperimentName("judged"), RankingOptions())
    statements = [part for part in found.parts if part.dimension == "criterion"]
    assert [part.value for part in statements] == ["s0", "s1"]
    for ranking in (found.ranking, *(part.result for part in statements)):
        assert isinstance(ranking, Ranking)
        assert [standing.contestant for standing in ranking.standings] == list(SKILLS)
    assert problems(worker) == []


def test_a_judged_text_leads_back_to_the_request_that_wrote_it(
    simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path]
) -> None:
    worker = worker_for(simulate(skills=SKILLS))
    finished(worker, a_generation(write))
    finished(worker, write("c", f"samples: generations://answers\ntask: compliance\njudges: {JUDGES}\n"))
    row = rows(worker, "c").slice(0, 1).to_pylist()[0]
    origin = explain(worker, row["sample_id"])
    assert (origin["experiment"], origin["sample_id"]) == ("answers", row["group"])
    asked = json.loads(str(explain(worker, row["request_id"])["raw_request"]))["body"]["messages"][0]["content"]
    written = json.loads(str(origin["raw_output"]))["response"]["body"]["choices"][0]["message"]["content"]
    assert f"<SAMPLE>\n{written}\n</SAMPLE>" in asked


@pytest.mark.parametrize("answer", ["json", "tag"])
@pytest.mark.parametrize(
    ("task", "values", "column_"),
    [
        ("compliance", {True, False}, "compliant"),
        ("grading\nscale: {low: 1, high: 5, labels: {'1': poor, '5': splendid}}", {1, 2, 3, 4, 5}, "score"),
        ("classification\nlabels: {a: bad, b: middling, c: good}", {"a", "b", "c"}, "label"),
    ],
)
def test_single_samples_are_judged_with_a_schema_and_with_tags(
    simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path],
    answer: str, task: str, values: set[object], column_: str,
) -> None:  # fmt: skip
    worker = worker_for(simulate(skills=SKILLS, sharpness=1.0))
    finished(worker, a_generation(write))
    file = write("judged", f"samples: generations://answers\ntask: {task}\nanswer: {answer}\njudges: {JUDGES}\n")
    assert finished(worker, file).counts.ok == 96
    table = rows(worker, "judged")
    assert set(column(table, column_)) == values
    best = list(zip(column(table, "contestant"), column(table, column_), strict=True))
    assert best.count(("fine/model-x:1", max(values))) > best.count(("poor", max(values)))  # type: ignore[type-var]
    assert all(column(table, "explanation"))
    assert problems(worker) == []


def test_a_refused_or_failed_generation_is_not_judged_and_the_plan_says_so(
    simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path]
) -> None:
    faults = {"answer.refusal": Fault(value=0.25, times=1), "answer.length": Fault(value=0.125, times=1)}
    worker = worker_for(simulate(skills=SKILLS, faults=faults))
    assert finished(worker, a_generation(write)).counts.as_dict() == {
        "planned": 48, "ok": 42, "unparsed": 0, "refused": 4, "truncated": 2, "errored": 0, "expired": 0, "missing": 0,
        "cancelled": 0, "open": 0,
    }  # fmt: skip
    file = write("judged", f"samples: generations://answers\npairs: {{design: groups}}\njudges: {JUDGES}\n")
    planned = plan(str(file), worker=worker)
    assert planned.left_out == {"refused (refusal)": 4, "truncated (length)": 2}
    assert len(planned.samples) == 42


def test_the_report_names_whose_texts_were_not_there_to_be_judged_and_why(
    simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path]
) -> None:
    faults = {"answer.refusal": Fault(value=0.25, times=1), "answer.length": Fault(value=0.125, times=1)}
    worker = worker_for(simulate(skills=SKILLS, faults=faults))
    finished(worker, a_generation(write))
    (absent,) = lost = absent_in_generation(worker)
    assert absent["reasons"] == {"refused (refusal)": 4, "truncated (length)": 2}
    who = absent["contestant"]
    said = f"{who} has no text to judge for 6 of 16 samples: 4 refused (refusal), 2 truncated (length)"
    for name, task in (("pairs", "pairwise\npairs: {design: groups}"), ("single", "compliance")):
        finished(worker, write(name, f"samples: generations://answers\ntask: {task}\njudges: {JUDGES}\n"))
        assert [str(each) for each in absent_in(worker, ExperimentName(name))] == [said]
        page = page_of(worker, ExperimentName(name))
        assert "Nothing was left out." not in page
        row = f"{breakable(who)}</th><td>6</td><td>16</td><td>4 refused (refusal), 2 truncated (length)</td>"
        assert row in page
    assert said in html.unescape(page_of(worker, ExperimentName("pairs")))
    later = a_generation(write, WRITERS.replace("poor", "poor, newcomer"))
    finished(worker, later)
    assert len(absent_in(worker, ExperimentName("pairs"))) == len(lost)
    assert absent_in(worker, ExperimentName("answers")) == ()


def absent_in_generation(worker: Worker) -> list[dict[str, Any]]:
    """Whose rows of the generation did not end well, counted by hand."""
    lost: dict[str, Counter[str]] = {}
    for row in rows(worker, "answers").to_pylist():
        if row["status"] != "ok":
            lost.setdefault(row["model"], Counter())[f"{row['status']} ({row['reason']})"] += 1
    return [{"contestant": model, "reasons": dict(reasons)} for model, reasons in lost.items()]


def page_of(worker: Worker, name: ExperimentName) -> str:
    if not is_pairwise(worker, name):
        return report(worker, name)
    return answers_report(worker, name, answers_of(worker, name, RankingOptions()))


def test_an_empty_generation_is_not_judged_and_never_a_tie(
    simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path]
) -> None:
    worker = worker_for(simulate(skills=SKILLS, faults={"answer.empty": Fault(value=0.25, times=1)}, tie_rate=0.0))
    finished(worker, a_generation(write))
    empty = [row for row in rows(worker, "answers").to_pylist() if row["status"] != "ok"]
    assert {(row["status"], row["reason"]) for row in empty} == {("unparsed", "empty")}
    file = write("judged", f"samples: generations://answers\npairs: {{design: groups}}\nties: true\njudges: {JUDGES}\n")
    assert plan(str(file), worker=worker).left_out == {"unparsed (empty)": 4}
    finished(worker, file)
    table = rows(worker, "judged")
    assert {row["request_id"] for row in empty}.isdisjoint({*column(table, "first_id"), *column(table, "second_id")})
    assert set(column(table, "outcome")) <= {"first", "second"}
    (absent,) = absent_in(worker, ExperimentName("judged"))
    assert (absent.contestant, absent.asked, absent.reasons) == (empty[0]["model"], 16, {"unparsed (empty)": 4})
    assert str(absent) in html.unescape(page_of(worker, ExperimentName("judged")))


def test_an_experiment_that_has_not_ended_is_not_judged(
    simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path]
) -> None:
    worker = worker_for(simulate())
    file = write("judged", f"samples: generations://answers\njudges: {JUDGES}\n")
    with pytest.raises(ConfigError, match="there is no experiment 'answers'"):
        plan(str(file), worker=worker)
    with pytest.raises(ConfigError, match="no store was given"):
        plan(str(file))


@pytest.mark.parametrize(
    "task",
    [
        "grading\nscale: {low: 1, high: 3, labels: [poor, fair, good]}",
        "grading\nscale: {low: 1, high: 3, labels: {'3': good, '1': poor}}",
        "classification\nlabels: {b: bad, a: good}",
        "conversation\nturns: ['Are you sure?', 'Really?']",
    ],
)
def test_asking_for_an_experiment_again_changes_nothing_and_sends_nothing(
    simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path], task: str
) -> None:
    simulator = simulate()
    file = write("again", f"samples: prompts.jsonl\ntask: {task}\njudges: [{{provider: openai, model: m}}]\n")
    first = finished(worker_for(simulator), file)
    billed = simulator.ledger.totals.requests
    second = finished(worker_for(simulator), file)
    assert first.counts == second.counts
    assert simulator.ledger.totals.requests == billed == first.counts.ok


def test_an_experiment_keeps_its_task(simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path]) -> None:
    worker = worker_for(simulate())
    finished(worker, a_generation(write))
    other = write("answers", "samples: prompts.jsonl\ntask: compliance\njudges: [{provider: openai, model: m}]\n")
    with pytest.raises(ConfigError, match=r"another task \(compliance and generation\); take a new name"):
        finished(worker, other)


def test_a_judge_that_says_not_applicable_is_counted_apart_and_never_as_a_tie(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(abstain_rate=0.4, tie_rate=0.2, seed=5)
    worker = worker_for(simulator)
    file = experiment_file(
        samples=8,
        judges="[{provider: openai, model: m}, {provider: openai, model: m, answer: json}]",
        more="ties: true\nnot_applicable: true",
    )
    finished(worker, file)
    table = rows(worker)
    statuses = column(table, "status")
    assert statuses.count("inapplicable") > 10
    assert counts(worker)["inapplicable"] == statuses.count("inapplicable")
    assert counts(worker)["ok"] + counts(worker)["inapplicable"] == counts(worker)["planned"]
    for row in table.select(["status", "outcome", "reason"]).to_pylist():
        if row["status"] == "inapplicable":
            assert (row["outcome"], row["reason"]) == (None, "not_applicable")
    assert "tie" in column(table, "outcome")
    assert problems(worker) == []


def test_rates_and_grades_come_with_intervals_by_contestant_and_criterion_and_with_agreement(
    simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path]
) -> None:
    worker = worker_for(simulate(skills=SKILLS, sharpness=1.0))
    finished(worker, a_generation(write))
    finished(worker, write("verdicts", f"samples: generations://answers\ntask: compliance\njudges: {JUDGES}\n"))
    finished(
        worker,
        write(
            "grades", f"samples: generations://answers\ntask: grading\nscale: {{low: 0, high: 2}}\njudges: {JUDGES}\n"
        ),
    )
    for name, column_ in (("verdicts", "compliant"), ("grades", "score")):
        (found,) = measures_of(worker, ExperimentName(name))
        table = rows(worker, name)
        overall = [cell for cell in found.cells if len(cell.names) == 1]
        assert [cell.names[0] for cell in overall] == list(SKILLS)
        assert all(cell.samples == 16 for cell in overall)
        assert all(cell.why or cell.low <= cell.value <= cell.high for cell in overall)  # type: ignore[operator]  # no reason, no None
        finer = {cell.names: cell for cell in found.cells if len(cell.names) == 2}
        assert {names[1] for names in finer} == {"s0", "s1"}
        plain = [
            float(row[column_])
            for row in table.select(["contestant", "criterion", column_]).to_pylist()
            if (row["contestant"], row["criterion"]) == ("plain", "s1")
        ]
        assert finer["plain", "s1"].value == pytest.approx(sum(plain) / len(plain))
        (concord,) = found.concord
        assert concord.judges == ("openai/judge-one", "openai/judge-two")
        assert concord.samples == 48
        assert concord.low is not None
        assert 0.3 < concord.low < (concord.beyond_chance or 0) < 1
        page = report(worker, ExperimentName(name))
        assert "Agreement between judges" in page
        assert "fine/model-x:1 stands " in page


def test_what_compares_nothing_has_no_ranking_and_says_so(
    simulate: Simulate, worker_for: WorkerFor, write: Callable[..., Path]
) -> None:
    worker = worker_for(simulate())
    finished(worker, a_generation(write))
    found = ranking_of(worker, ExperimentName("answers"), RankingOptions())
    assert isinstance(found, Unrankable)
    assert "is a generation experiment: it compares nothing; `pairlog report answers`" in found.reason
    assert "48 texts were written" in report(worker, ExperimentName("answers"))
