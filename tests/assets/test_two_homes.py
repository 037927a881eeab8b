"""Two Dagster installations over one store, by mistake or on purpose: they tick and run at the same time."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import dagster as dg
import pytest

from assets.definitions import build_defs
from assets.resources import Workers
from pipeline.ids import ExperimentName
from pipeline.operations.by_segment import all_segments
from pipeline.simulator import parse_faults
from tests.assets.dagster_home import Home
from tests.flows.studies import check_against_ledger, column, counts, rows

SENSORS = ("experiment_files", "batch_status", "finished_experiments")
_MOST_ROUNDS = 40


def is_finished(here: Home) -> bool:
    segments = all_segments(here.worker, ExperimentName("essays"))
    return bool(segments) and all(each.is_finished for each in segments)


def drives(here: Home, both: Barrier) -> None:
    """Ask for everything, then tick and launch what the ticks ask for, each round beside the other's."""
    here.tick("experiment_files")
    here.materialize("samples", "pairs", keys=["essays"])
    both.wait(60)
    here.materialize("submitted_batches", keys=here.segments(), raises=False)
    for _ in range(_MOST_ROUNDS):
        both.wait(60)
        for sensor in SENSORS:
            here.launch(here.tick(sensor))
        both.wait(60)
        if is_finished(here):
            return


@pytest.mark.timeout(240)
def test_two_homes_whose_ticks_overlap_pay_no_more_than_one(
    home: Callable[..., Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAIRLOG_QUIET_SECONDS", "0.5")
    monkeypatch.setenv("PAIRLOG_LEASE_SECONDS", "1")
    one = home(more="batch: {segments: 3}", faults=parse_faults("create.lost=1,expire.share=0.4*1"))
    workers = Workers(store=one.workers.store)
    with dg.DagsterInstance.ephemeral() as instance, workers.worker(logging.getLogger(__name__)) as worker:
        other = Home(
            defs=build_defs(workers), workers=workers, worker=worker, simulator=one.simulator, instance=instance
        )
        both = Barrier(2)
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(drives, each, both) for each in (one, other)]:
                done.result()
    assert counts(one.worker)["ok"] == len(set(column(rows(one.worker), "request_id"))) == 15
    assert one.simulator.ledger.totals.requests == 15
    check_against_ledger(one.worker, one.simulator.ledger)
