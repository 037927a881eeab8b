"""The whole path on the simulator, in one process."""

import csv
import html
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest

from pipeline.errors import ConfigError
from pipeline.ids import ExperimentName
from pipeline.operations.reading.answers import answers_of, report, rows_digest, store_answers
from pipeline.ranking import RankingOptions
from pipeline.simulator import parse_faults
from pipeline.storage import keys
from pipeline.storage.tables import stream
from tests.conftest import ExperimentFile, Simulate, WorkerFor
from tests.flows.studies import check_against_ledger, column, counts, finished, problems, rows, submitted


def test_two_thousand_pairs_give_two_thousand_rows_with_the_ledgers_winners(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(seed=5)
    worker = worker_for(simulator)
    file = experiment_file(samples=80, more="pairs: {design: random, count: 2000, seed: 3}\nbatch: {max_requests: 300}")
    assert not finished(worker, file).is_open
    table = rows(worker)
    assert table.num_rows == len(set(column(table, "pair_id"))) == 2000
    assert set(column(table, "status")) == {"ok"}
    assert simulator.ledger.totals.requests == 2000
    check_against_ledger(worker, simulator.ledger)


def test_both_directions_and_repeats_are_runs_of_their_own(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    worker = worker_for(simulator)
    finished(worker, experiment_file(more="directions: [forward, reverse]\nrepeats: 2\nreverse_share: 0.4"))
    table = rows(worker)
    assert table.num_rows == 2 * 15 + 2 * 6
    forward = {(row["first_id"], row["second_id"]) for row in table.to_pylist() if row["direction"] == "forward"}
    for row in table.to_pylist():
        if row["direction"] == "reverse":
            assert (row["second_id"], row["first_id"]) in forward
    check_against_ledger(worker, simulator.ledger)


def test_a_second_submit_and_a_second_resume_do_nothing(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    file = experiment_file()
    finished(worker_for(simulator), file)
    before = sorted(worker_for(simulator).store.list_from("log"))
    finished(worker_for(simulator), file)
    assert sorted(worker_for(simulator).store.list_from("log")) == before
    assert len(simulator.ledger.creates) == 1


ODD_IDS = [
    "with_under_scores", "with spaces", "a_vs_b", "_vs_", "ünï – 日本 😀", "x" * 200, "=1+1", "a/b:c@d", "é", "e\u0301",
    "'\"\\", "A", "a",
]  # fmt: skip


def test_odd_ids_survive_the_round_trip_byte_for_byte(
    simulate: Simulate, worker_for: WorkerFor, tmp_path: Path
) -> None:
    with (tmp_path / "odd.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "text"], *([each, f"text of {each}"] for each in ODD_IDS)])
    path = tmp_path / "odd.yaml"
    path.write_text("name: odd\nsamples: odd.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n")
    worker = worker_for(simulate())
    finished(worker, path)
    table = rows(worker, "odd")
    assert {*column(table, "first_id"), *column(table, "second_id")} == set(ODD_IDS)
    assert table.num_rows == len(ODD_IDS) * (len(ODD_IDS) - 1) // 2


def test_shuffled_output_gives_the_same_table(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    tables = []
    for shuffle in (False, True):
        simulator = simulate(shuffle=shuffle)
        worker = worker_for(simulator)
        name = f"shuffled-{str(shuffle).lower()}"
        finished(worker, experiment_file(name=name, samples=12))
        tables.append(rows(worker, name).select(["pair_id", "first_id", "second_id", "outcome"]).sort_by("pair_id"))
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("faults", "statuses", "paid"),
    [
        ("create.lost=1", {"ok": 15}, 15),
        ("create.504_applied=1", {"ok": 15}, 15),
        ("create.500=1", {"ok": 15}, 15),
        ("create.html=1", {"ok": 15}, 15),
        ("create.no_id=1", {"ok": 15}, 15),
        ("create.unknown_status=1", {"ok": 15}, 15),
        ("create.dropped=1", {"ok": 15}, 15),
        ("create.429=2", {"ok": 15}, 15),
        ("upload.500=1", {"ok": 15}, 15),
        ("upload.lost=1", {"ok": 15}, 15),
        ("poll.500=2", {"ok": 15}, 15),
        ("download.cut=1", {"ok": 15}, 15),
        ("download.404=1", {"ok": 15}, 15),
        ("run.token_limit=1", {"ok": 15}, 15),
        ("output.crlf", {"ok": 15}, 15),
        ("output.bom", {"ok": 15}, 15),
        ("output.blank", {"ok": 15}, 15),
        ("output.no_newline", {"ok": 15}, 15),
        ("output.empty_error_id", {"ok": 15}, 15),
        ("answer.u2028", {"ok": 15}, 15),
        ("answer.refusal", {"refused": 15}, 15),
        ("answer.filter", {"refused": 15}, 15),
        ("answer.length", {"truncated": 15}, 15),
        ("answer.unparseable", {"unparsed": 15}, 15),
        ("answer.both", {"unparsed": 15}, 15),
        ("line.400", {"errored": 15}, 0),
        ("line.500", {"errored": 15}, 0),
        ("line.429*1", {"ok": 15}, 15),
        ("output.missing=0.4*1", {"ok": 15}, 21),
        ("output.damaged=0.4*1", {"ok": 15}, 21),
        ("output.bad_utf8=0.4*1", {"ok": 15}, 21),
        ("output.doubled", {"ok": 15}, 15),
        ("output.differing*1", {"ok": 15}, 30),
        ("output.foreign", {"ok": 15}, 15),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_every_fault_ends_as_the_contract_says_and_nothing_is_paid_twice(
    simulate: Simulate,
    worker_for: WorkerFor,
    experiment_file: ExperimentFile,
    faults: str,
    statuses: dict[str, int],
    paid: int,
) -> None:
    simulator = simulate(faults=parse_faults(faults))
    worker = worker_for(simulator, PAIRLOG_QUIET_SECONDS="0.2", PAIRLOG_PAUSE_SECONDS="0.05")
    end = finished(worker, experiment_file())
    assert not end.is_open
    found = counts(worker)
    assert {name: count for name, count in found.items() if count} == {"planned": 15, **statuses}
    assert simulator.ledger.totals.requests == paid
    check_against_ledger(worker, simulator.ledger)


def test_what_stays_missing_ends_as_missing_after_the_last_send(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("output.damaged=0.4"))
    worker = worker_for(simulator)
    finished(worker, experiment_file(more="attempts: 2"))
    found = counts(worker)
    sent_again = simulator.ledger.totals.requests - 15
    assert 0 < found["missing"] <= sent_again < 15
    assert {row["attempt"] for row in rows(worker).to_pylist() if row["status"] == "missing"} == {2}
    assert found["ok"] + found["missing"] == 15


def test_outputs_of_which_no_line_can_be_read_are_held_and_bought_once(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("output.damaged"))
    worker = worker_for(simulator)
    assert finished(worker, experiment_file(more="attempts: 2")).is_open
    assert counts(worker)["open"] == 15
    assert simulator.ledger.totals.requests == 15


def test_expired_with_nine_of_ten_answered_sends_one_again(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("expire.share=0.1*1"))
    worker = worker_for(simulator)
    finished(worker, experiment_file(samples=5))
    assert counts(worker)["ok"] == 10
    assert simulator.ledger.totals.requests == 10
    assert sorted(column(rows(worker), "attempt")) == [1] * 9 + [2]


def test_completed_without_any_file_is_held_for_a_person(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("output.absent"))
    worker = worker_for(simulator, PAIRLOG_QUIET_SECONDS="0.1")
    end = finished(worker, experiment_file())
    assert end.is_open
    assert not end.moves_by_itself
    assert "neither answers nor errors" in end.reasons[0]
    assert simulator.ledger.totals.requests == 15


def test_an_account_without_credit_pauses_and_burns_nothing(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("create.quota=2"))
    worker = worker_for(simulator)
    end = finished(worker, experiment_file())
    assert end.is_open
    assert not end.moves_by_itself
    assert "credit" in end.reasons[0] or "quota" in end.reasons[0]
    assert not finished(worker_for(simulator), experiment_file()).is_open
    assert set(column(rows(worker), "attempt")) == {1}
    check_against_ledger(worker, simulator.ledger)


def test_a_changed_experiment_is_refused_and_a_grown_one_adds_runs(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    worker = worker_for(simulator)
    finished(worker, experiment_file())
    with pytest.raises(ConfigError, match="criterion"):
        finished(worker_for(simulator), experiment_file(more="criterion: organization"))
    with pytest.raises(ConfigError, match="samples"):
        finished(worker_for(simulator), experiment_file(samples=7))
    judges = "[{provider: openai, model: [gpt-6-luna, gpt-6-sol]}]"
    finished(worker_for(simulator), experiment_file(judges=judges, more="directions: [forward, reverse]"))
    assert rows(worker).num_rows == 4 * 15
    assert simulator.ledger.totals.requests == 4 * 15
    assert problems(worker) == []


def test_structured_answers_and_ties_are_read(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(tie_rate=0.5)
    worker = worker_for(simulator)
    finished(worker, experiment_file(samples=12, more="answer: json\nties: true"))
    outcomes = column(rows(worker), "outcome")
    assert set(outcomes) == {"first", "second", "tie"}
    check_against_ledger(worker, simulator.ledger)


def test_the_responses_endpoint_gives_thoughts(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    worker = worker_for(simulate())
    judges = "[{provider: openai, model: gpt-6-luna, reasoning: low, endpoint: responses}]"
    finished(worker, experiment_file(judges=judges))
    table = rows(worker)
    assert set(column(table, "status")) == {"ok"}
    assert all(column(table, "thoughts"))
    assert all(tokens > 0 for tokens in column(table, "reasoning_tokens"))


def test_the_dataset_opens_with_types_in_duckdb_polars_and_pandas(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    worker = worker_for(simulate())
    finished(worker, experiment_file(more="directions: [forward, reverse]\nbatch: {max_requests: 4}"))
    root = worker.store.url.removeprefix("file://") + "/comparisons"
    found = duckdb.execute(
        "select count(*), count(distinct request_id), any_value(typeof(judged_at))"
        f" from read_parquet('{root}/**/*.parquet', hive_partitioning=true)"
    ).fetchall()
    assert found == [(30, 30, "TIMESTAMP WITH TIME ZONE")]
    assert pl.read_parquet(f"{root}/**/*.parquet").schema["judged_at"] == pl.Datetime("us", "UTC")
    frame = pd.read_parquet(root)
    assert str(frame["repeat"].dtype) == "int16"
    assert set(frame["run"].astype(str)) == set(frame["run_id"].astype(str))


def test_a_batch_refused_for_named_lines_spares_the_others(
    simulate: Simulate, worker_for: WorkerFor, tmp_path: Path
) -> None:
    """A template can make one request's line differ: here none is wrong, so a limit of the simulator names them."""
    simulator = simulate(max_requests=10)
    path = tmp_path / "many.yaml"
    with (tmp_path / "many.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *([f"s{n}", f"text {n}"] for n in range(6))])
    path.write_text("name: many\nsamples: many.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n")
    worker = worker_for(simulator)
    finished(worker, path)
    assert counts(worker, "many")["errored"] + counts(worker, "many")["ok"] == 15
    assert problems(worker) == []


def test_submitting_alone_polls_nothing(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    worker = worker_for(simulate())
    runs = submitted(worker, experiment_file())
    assert {batch.phase for run in runs for batch in run.state.batches.values()} == {"submitted"}
    assert counts(worker)["open"] == 15


def test_answers_are_named_after_the_rows_they_were_made_of_though_others_came_meanwhile(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    essays, simulator = ExperimentName("essays"), simulate()
    worker = worker_for(simulator)
    finished(worker, experiment_file())
    before = answers_of(worker, essays, RankingOptions())
    finished(worker, experiment_file(more="directions: [forward, reverse]"))
    stored = [store_answers(worker, essays, each) for each in (before, answers_of(worker, essays, RankingOptions()))]
    assert stored[1].ranking == keys.ranking(essays, rows_digest(worker, essays))
    rests_on = [
        {row["rows"] for batch in stream(worker.store, [each.ranking]) for row in batch.to_pylist()} for each in stored
    ]
    assert rests_on == [{15}, {30}]


def test_a_ranking_holds_no_texts_and_the_report_shows_those_that_nobody_could_read(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    worker = worker_for(simulate(faults=parse_faults("answer.both")))
    finished(worker, experiment_file(samples=6))
    found = answers_of(worker, ExperimentName("essays"), RankingOptions())
    assert not {"content", "thoughts", "request_id"} & set(found.rows.column_names)
    page = html.unescape(report(worker, ExperimentName("essays"), found))
    unread = [
        text
        for text, status in zip(*(column(rows(worker), name) for name in ("content", "status")), strict=True)
        if status == "unparsed"
    ]
    assert len(unread) == 15
    _, shown = page.split("Answers that could not be read")
    assert [text.split("</pre>")[0] for text in shown.split("<pre>")[1:]] == unread[:5]
