"""The whole way through Dagster, in process: files, pairs, batches, outputs, comparisons, answers."""

from collections.abc import Callable

import pytest

from pipeline.ids import ExperimentName
from pipeline.operations.reading import answers
from pipeline.ranking import RankingOptions, verdict
from tests.assets.dagster_home import Home, shown, with_pairs
from tests.flows.studies import check_against_ledger


def test_a_study_goes_from_a_file_to_a_ranking(home: Callable[..., Home]) -> None:
    here = home(more="batch: {segments: 3}\ndirections: [forward, reverse]")
    here.tick("experiment_files")
    assert here.materialize("samples", "pairs", keys=["essays"]).success
    assert len(here.segments()) == 6
    assert list(here.simulator.ledger.billed()) == []
    assert here.materialize("submitted_batches", keys=here.segments()).success
    data = here.tick("batch_status")
    assert [request.job_name for request in data.run_requests or []] == ["collect"]
    assert all(run.success for run in here.launch(data))
    assert here.green("submitted_batches") == here.green("provider_outputs") == here.green("comparisons")
    assert len(here.green("comparisons")) == 6
    assert all(run.success for run in here.launch(here.tick("finished_experiments")))
    assert here.green("rankings") == {"essays"}
    assert here.materialize("diagnostics", keys=["essays"]).success
    check_against_ledger(here.worker, here.simulator.ledger)


@pytest.mark.parametrize(("samples", "is_known"), [(2, False), (3, True)])
def test_a_reliability_nobody_knows_is_left_out(home: Callable[..., Home], samples: int, is_known: bool) -> None:
    here = with_pairs(home(samples=samples))
    assert here.materialize("submitted_batches", keys=here.segments()).success
    assert here.materialize("provider_outputs", "comparisons", keys=here.segments()).success
    ranked = here.materialize("rankings", keys=["essays"])
    (shown,) = [event.materialization.metadata for event in ranked.get_asset_materialization_events()]
    assert ("reliability" in shown) == is_known


def test_an_answer_of_a_part_says_that_it_is_one(home: Callable[..., Home]) -> None:
    here = with_pairs(home(more="batch: {segments: 3}", samples=11))
    told: list[dict[str, object]] = []
    for keys in (here.segments()[:2], here.segments()):
        here.materialize("submitted_batches", keys=keys)
        here.materialize("provider_outputs", "comparisons", keys=keys)
        ranked = here.materialize("rankings", "diagnostics", keys=["essays"])
        told += [shown(ranked, asset)["essays"] for asset in ("rankings", "diagnostics")]
    part = "38 of 55 requests have ended; the rest is open"
    assert [each.get("provisional") for each in told] == [part, part, None, None]
    assert str(told[2]["ranking"]).endswith("1 more is in the report")
    ranking = answers.answers_of(here.worker, ExperimentName("essays"), RankingOptions()).ranking
    assert str(told[0]["in short"]).startswith("So far, ")
    assert told[2]["in short"] == verdict(ranking, unfinished=False)
    assert str(told[3]["in short"]).startswith("No pair was judged in both orders")
