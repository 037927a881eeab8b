"""Sending, fetching and reading segments by hand, and what a person is told when something is not so."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import duckdb
import pandas as pd
import polars as pl
import pytest

from assets.definitions import build_defs
from assets.resources import Workers
from pipeline.ids import ExperimentName
from pipeline.operations.by_segment import all_segments
from pipeline.simulator import parse_faults
from tests.assets.dagster_home import Home, failure, shown, with_pairs
from tests.flows.studies import check_against_ledger

BOTH = "[{provider: openai, model: [gpt-6, gpt-6-luna]}]"
RUN = "essays--default--openai--gpt-6-luna--default--forward"
OTHER = "essays--default--openai--gpt-6--default--forward"


def submit(here: Home, most: int, **more: object) -> dg.ExecuteInProcessResult:
    """Run the job `submit` as the launchpad does."""
    job = here.defs.get_repository_def().get_job("submit")
    config = {"ops": {"submit_experiment": {"config": {"experiment": "essays", "most_requests": most, **more}}}}
    return job.execute_in_process(run_config=config, instance=here.instance, raise_on_error=False)


def damage(folder: Path, run_id: str) -> None:
    (folder / "store" / "log" / run_id / f"{0:020d}.json").write_bytes(b"{}")


def test_a_budget_too_small_sends_nothing(home: Callable[..., Home]) -> None:
    here = with_pairs(home())
    result = here.materialize("submitted_batches", keys=here.segments(), raises=False, most_requests=14)
    assert failure(result).startswith("15 requests would be sent, but most_requests allows 14; nothing was sent.")
    assert list(here.simulator.ledger.billed()) == []
    assert here.materialize("submitted_batches", keys=here.segments(), most_requests=15).success
    assert here.materialize("submitted_batches", keys=here.segments(), most_requests=0).success, (
        "nothing is left to send"
    )


def test_what_may_cost_too_much_is_not_sent(home: Callable[..., Home]) -> None:
    here = home(judges="[{provider: openai, model: gpt-6-luna, reasoning: none}]", more="batch: {segments: 3}")
    told = failure(submit(here, 15, most_cost=0.0004))
    assert told.startswith(
        "it may cost $0.00040 to $0.0024, but most_cost allows $0.0004; nothing was sent. Raise it, "
    )
    assert here.worker.experiment_names() == []
    first, *others = with_pairs(here).segments()
    told = failure(here.materialize("submitted_batches", keys=[first], raises=False, most_cost=0.0007))
    assert told.startswith(
        "it may cost $0.00013 to $0.00079, but most_cost allows $0.0007; nothing was sent. Raise it, "
    )
    assert list(here.simulator.ledger.billed()) == []
    assert here.materialize("submitted_batches", keys=[first], most_cost=0.0008).success
    assert here.materialize("submitted_batches", keys=[first], most_cost=0).success, "nothing is left to send"
    assert not here.materialize("submitted_batches", keys=[first, *others], raises=False, most_cost=0.001).success
    assert len(here.simulator.ledger.creates) == 1
    assert submit(here, 10, most_cost=1).success
    assert len(here.simulator.ledger.creates) == 3


def test_what_nobody_knows_the_cost_of_is_not_sent_where_a_cost_is_agreed_to(
    home: Callable[..., Home], experiment_file: Callable[..., Path]
) -> None:
    luna, new = "{provider: openai, model: gpt-6-luna}", "{provider: openai, model: of-next-year}"
    here = with_pairs(home(judges=f"[{luna}, {new}]"))
    told = failure(here.materialize("submitted_batches", keys=here.segments(), raises=False, most_cost=100))
    assert told.startswith(
        "most_cost needs prices, and none is known for openai of-next-year (batch); nothing was sent"
    )
    file = experiment_file(judges=f"[{luna}]")
    told = failure(here.materialize("submitted_batches", keys=here.segments(), raises=False, most_cost=100))
    assert told.startswith(
        "most_cost needs a file that names essays--default--openai--of-next-year--default--forward; "
    )
    file.unlink()
    told = failure(here.materialize("submitted_batches", keys=here.segments(), raises=False, most_cost=100))
    assert told == "most_cost needs the file of essays, which is not here; nothing was sent"
    assert list(here.simulator.ledger.billed()) == []


def test_the_submit_job_sends_nothing_that_its_file_no_longer_names(
    home: Callable[..., Home], experiment_file: Callable[..., Path]
) -> None:
    here = with_pairs(home(judges="[{provider: openai, model: gpt-5-mini}, {provider: openai, model: gpt-6-luna}]"))
    experiment_file(judges="[{provider: openai, model: gpt-6-luna}]")
    assert submit(here, 15).success
    assert [each.split("--")[3] for each in here.green("submitted_batches")] == ["gpt-6-luna"]
    assert len(here.simulator.ledger.creates) == 1


def test_the_submit_job_sends_a_whole_experiment_within_its_budget(home: Callable[..., Home]) -> None:
    here = home(more="batch: {segments: 3}")
    assert not submit(here, 3).success
    assert list(here.simulator.ledger.billed()) == []
    assert submit(here, 15, most_cost=None).success, "as the launchpad's template has it"
    assert here.green("submitted_batches") == set(here.segments())
    assert len(here.segments()) == 3
    here.launch(here.tick("batch_status"))
    check_against_ledger(here.worker, here.simulator.ledger)


def test_materializing_twice_pays_once(home: Callable[..., Home]) -> None:
    here = with_pairs(home(more="batch: {segments: 2}"))
    for _ in range(2):
        here.materialize("submitted_batches", keys=here.segments())
        here.materialize("provider_outputs", "comparisons", keys=here.segments())
    assert here.simulator.ledger.totals.requests == 15
    check_against_ledger(here.worker, here.simulator.ledger)


def test_a_cell_tells_of_its_own_segment_also_where_one_dagster_run_did_several(home: Callable[..., Home]) -> None:
    here = with_pairs(home(more="batch: {segments: 3}"))
    sent = here.materialize("submitted_batches", keys=here.segments())
    read = here.materialize("provider_outputs", "comparisons", keys=here.segments())
    for result, asset in ((sent, "submitted_batches"), (read, "provider_outputs"), (read, "comparisons")):
        cells = shown(result, asset)
        assert {key: cell["planned"] for key, cell in cells.items()} == dict.fromkeys(here.segments(), 5)
        assert {str(cell["batches"]).splitlines()[0] for cell in cells.values()} == {
            "| batch | send | at the provider | phase | requests | took | note |"
        }


def test_a_cell_that_is_not_back_says_so(home: Callable[..., Home]) -> None:
    here = with_pairs(home(latency_seconds=600))
    here.materialize("submitted_batches", keys=here.segments())
    told = failure(here.materialize("provider_outputs", keys=here.segments(), raises=False))
    assert told == f"the segment is not back from its provider yet: {RUN}--s000: submitted (validating)"


def test_a_reason_names_the_segments_it_holds_for_and_those_with_the_same_one_together(
    home: Callable[..., Home],
) -> None:
    here = with_pairs(home(judges=BOTH, more="batch: {segments: 2}", latency_seconds=600))
    here.materialize("submitted_batches", keys=here.segments()[:3])
    told = failure(here.materialize("provider_outputs", keys=here.segments(), raises=False))
    first, _, _, last = here.segments()
    assert told == (
        f"4 of 4 segments are not back from their providers yet: {first} and 2 more: submitted (validating); "
        f"{last}: not asked for; materialize submitted_batches first"
    )


@pytest.mark.parametrize("asset", ["provider_outputs", "comparisons"])
def test_a_cell_that_nobody_sent_says_what_to_do_whether_there_is_a_key_or_not(
    home: Callable[..., Home], asset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = with_pairs(home())
    monkeypatch.delenv("OPENAI_API_KEY")
    told = failure(here.materialize(asset, keys=here.segments(), raises=False))
    assert told.endswith(f": {RUN}--s000: not asked for; materialize submitted_batches first")


def test_a_cell_that_is_read_too_early_says_so(home: Callable[..., Home]) -> None:
    here = with_pairs(home(latency_seconds=600))
    here.materialize("submitted_batches", keys=here.segments())
    told = failure(here.materialize("comparisons", keys=here.segments(), raises=False))
    assert told.startswith(f"the segment is not finished: {RUN}--s000: submitted")


def test_an_account_without_credit_is_said_in_words_and_goes_on_when_mended(home: Callable[..., Home]) -> None:
    here = with_pairs(home(faults=parse_faults("create.quota=1"), more="batch: {segments: 2}"))
    told = failure(here.materialize("submitted_batches", keys=here.segments(), raises=False))
    assert "not at their providers yet" in told
    assert "refused" in told
    (told_of,) = here.tick("stuck_batches").asset_events
    assert "mend the account" in str(told_of.metadata["batches"].value), "a person is told what helps"
    assert here.materialize("submitted_batches", keys=here.segments()).success
    here.launch(here.tick("batch_status"))
    check_against_ledger(here.worker, here.simulator.ledger)


def test_a_missing_key_is_said_before_anything_is_sent(
    home: Callable[..., Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = with_pairs(home())
    monkeypatch.delenv("OPENAI_API_KEY")
    told = failure(here.materialize("submitted_batches", keys=here.segments(), raises=False))
    assert told.startswith(f"the segment is not at its provider yet: {RUN}: OPENAI_API_KEY is not set; export")
    assert list(here.simulator.ledger.billed()) == []


def test_a_missing_key_keeps_no_other_run_from_being_sent(home: Callable[..., Home]) -> None:
    here = with_pairs(home(judges="[{provider: groq, model: llama-9}, {provider: openai, model: gpt-6-luna}]"))
    told = failure(here.materialize("submitted_batches", keys=here.segments(), raises=False))
    assert told.startswith("1 of 2 segments is not at its provider yet, the other is: essays--default--groq--llama-9--")
    assert "GROQ_API_KEY is not set" in told
    assert here.green("submitted_batches") == {f"{RUN}--s000"}
    here.launch(here.tick("batch_status"))
    assert here.green("comparisons") == {f"{RUN}--s000"}


def test_a_damaged_log_keeps_no_other_run_from_being_sent_fetched_and_read(
    home: Callable[..., Home], tmp_path: Path
) -> None:
    here = with_pairs(home(judges=BOTH))
    damage(tmp_path, OTHER)
    for asset in ("submitted_batches", "provider_outputs", "comparisons"):
        told = failure(here.materialize(asset, keys=here.segments(), raises=False))
        assert told.startswith("1 of 2 segments is not ")
        assert "its bytes were changed or cut" in told
        assert here.green(asset) == {f"{RUN}--s000"}


def test_the_submit_job_goes_on_with_the_others_where_a_run_cannot_be_opened_and_names_it(
    home: Callable[..., Home], tmp_path: Path
) -> None:
    here = with_pairs(home(judges=BOTH))
    damage(tmp_path, OTHER)
    told = failure(submit(here, 30))
    assert told.startswith(f"1 run could not be opened: {OTHER}: ")
    assert here.green("submitted_batches") == {f"{RUN}--s000"}


def test_the_submit_job_goes_on_with_the_others_where_a_run_cannot_be_sent_and_names_it(
    home: Callable[..., Home], tmp_path: Path
) -> None:
    here = with_pairs(home(judges=BOTH))
    (tmp_path / "store" / "requests").mkdir()
    (tmp_path / "store" / "requests" / OTHER).write_text("no folder")
    told = failure(submit(here, 30))
    assert told.startswith(f"1 segment is not at its provider yet: {OTHER}: ")
    assert here.green("submitted_batches") == {f"{RUN}--s000"}


def test_the_submit_job_fixes_nothing_that_is_over_its_budget_or_has_no_key(
    home: Callable[..., Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = home()
    told = failure(submit(here, 3))
    assert told == (
        "15 requests would be sent, but most_requests allows 3; nothing was sent. Raise it, or ask for less in the file"
    )
    monkeypatch.delenv("OPENAI_API_KEY")
    assert failure(submit(here, 15)).startswith("OPENAI_API_KEY is not set")
    assert here.worker.experiment_names() == []


def test_a_provider_that_asks_for_patience_gets_no_batch_of_a_further_run(home: Callable[..., Home]) -> None:
    here = with_pairs(home(judges=BOTH, faults=parse_faults("create.429:600=1")))
    told = failure(here.materialize("submitted_batches", keys=here.segments(), raises=False))
    assert here.green("submitted_batches") == set()
    assert list(here.simulator.ledger.billed()) == [], "the second run would have been taken"
    assert "openai asked for patience" in told
    assert [each.is_asked for each in all_segments(here.worker, ExperimentName("essays"))] == [True, True]
    assert here.tick("batch_status").run_requests in ([], None), "nor does a sensor ask before it is time"


def test_submitting_again_tells_dagster_nothing_new_and_says_so(
    home: Callable[..., Home], capfd: pytest.CaptureFixture[str]
) -> None:
    here = home(more="batch: {segments: 3}")
    assert len(submit(here, 15).get_asset_materialization_events()) == 3
    again = submit(here, 0)
    assert again.success
    assert again.get_asset_materialization_events() == []
    assert "nothing was new: 3 segments of essays had been sent before" in capfd.readouterr().err


def test_a_live_judge_is_called_when_its_cell_is_materialized(home: Callable[..., Home]) -> None:
    judges = "[{provider: openai, model: gpt-6-luna, mode: live, requests_per_second: 500}]"
    here = with_pairs(home(judges=judges))
    assert here.materialize("submitted_batches", keys=here.segments()).success
    here.launch(here.tick("batch_status"))
    assert here.green("comparisons") == set(here.segments())
    assert here.simulator.ledger.totals.requests == 15


def test_a_live_judge_whose_caller_died_is_called_on(home: Callable[..., Home]) -> None:
    judges = "[{provider: openai, model: gpt-6-luna, mode: live, requests_per_second: 500}]"
    here = with_pairs(home(judges=judges, faults=parse_faults("live.401=1")))
    assert not here.materialize("submitted_batches", keys=here.segments(), raises=False).success
    asked = here.tick("batch_status")
    assert [request.job_name for request in asked.run_requests or []] == ["send"]
    assert all(run.success for run in here.launch(asked))
    here.launch(here.tick("batch_status"))
    assert here.green("comparisons") == set(here.segments())


def test_a_second_code_location_on_the_same_store_does_no_harm(home: Callable[..., Home], tmp_path: Path) -> None:
    here = with_pairs(home(more="batch: {segments: 3}"))
    with ExitStack() as stack:
        instance = stack.enter_context(dg.DagsterInstance.ephemeral())
        workers = Workers(store=str(tmp_path / "store"))
        there = Home(
            defs=build_defs(workers), workers=workers, worker=here.worker, simulator=here.simulator, instance=instance
        )
        there.tick("experiment_files")
        there.tick("batch_status")
        here.materialize("submitted_batches", keys=here.segments())
        there.materialize("submitted_batches", keys=there.segments())
        asked = [here.tick("batch_status"), there.tick("batch_status")]
        here.launch(asked[0])
        there.launch(asked[1])
        assert here.green("comparisons") == there.green("comparisons") == set(here.segments())
    check_against_ledger(here.worker, here.simulator.ledger)


def test_duckdb_polars_and_pandas_read_what_dagster_made(home: Callable[..., Home], tmp_path: Path) -> None:
    here = with_pairs(home(more="batch: {segments: 3}\ndirections: [forward, reverse]"))
    here.materialize("submitted_batches", keys=here.segments())
    here.launch(here.tick("batch_status"))
    folder = tmp_path / "store" / "comparisons"
    by_duckdb = duckdb.sql(f"SELECT * FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true)")
    assert by_duckdb is not None
    assert by_duckdb.aggregate("count(*), count(DISTINCT request_id)").fetchall() == [(30, 30)]
    types = dict(zip(by_duckdb.columns, map(str, by_duckdb.types), strict=True))
    assert types["judged_at"] == "TIMESTAMP WITH TIME ZONE"
    assert types["input_tokens"] == "INTEGER"
    assert types["attempt"] == "SMALLINT"
    by_polars = pl.read_parquet(folder / "**" / "*.parquet", hive_partitioning=True)
    assert by_polars.height == 30
    assert by_polars.schema["judged_at"] == pl.Datetime("us", "UTC")
    by_pandas = pd.read_parquet(folder)
    assert len(by_pandas) == 30
    assert str(by_pandas.dtypes["judged_at"]) == "datetime64[us, UTC]"
