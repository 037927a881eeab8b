"""A worker that is really frozen on its way to a create, at a provider that cannot tell our batches apart by a key."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.clock import SystemClock
from pipeline.operations.resuming import resume, submit
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator, environment, parse_faults
from pipeline.storage.local import LocalStore
from tests.flows.striking import StruckStore, struck
from tests.flows.studies import check_against_ledger, counts, submitted

ANTHROPIC = "[{provider: anthropic, model: claude-haiku-5-5}]"
PACE = {"PAIRLOG_LEASE_SECONDS": "0.3", "PAIRLOG_QUIET_SECONDS": "600"}


def a_worker(store: LocalStore, url: str) -> Worker:
    return Worker(store, clock=SystemClock(), settings=Settings({**environment(url), **PACE}))


def submits(store: StruckStore, url: str, file: Path) -> None:
    with a_worker(store, url) as worker:
        submitted(worker, file)


def _phase(run: Run) -> str:
    (batch,) = run.refresh().batches.values()
    return batch.phase


def _try_for(seconds: float, run: Run) -> None:
    """Submit the run again and again, until something was sent or the time is over."""
    until = time.monotonic() + seconds
    while _phase(run) not in {"uncertain", "submitted"} and time.monotonic() < until:
        time.sleep(0.05)
        submit(run)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("announced", "other", "created"),
    [(False, "uncertain", 1), (True, "prepared", 0)],  # what was announced is doubted by who waits, and so not sent
    ids=["before announcing", "after announcing"],
)
def test_who_wakes_up_beside_an_unsettled_create_of_another_does_not_create(
    simulate: Callable[..., Simulator],
    store: LocalStore,
    experiment_file: Callable[..., Path],
    tmp_path: Path,
    announced: bool,
    other: str,
    created: int,
) -> None:
    simulator = simulate(faults=parse_faults("create.lost=1"))
    freezing = StruckStore(tmp_path / "store", "attempt-opened", signal.SIGSTOP, after=announced)
    first = struck(submits, freezing, simulator.url, experiment_file(name="first", judges=ANTHROPIC))
    with first as frozen, a_worker(store, simulator.url) as worker:
        assert frozen.is_frozen
        (run,) = submitted(worker, experiment_file(name="second", judges=ANTHROPIC))
        _try_for(10 if other == "uncertain" else 1, run)
        assert _phase(run) == other
        assert frozen.woken() == 0
        assert len(simulator.ledger.creates) == created
        runs = [run, *worker.runs(worker.experiment_names()[0])]
        assert not resume(worker, runs, interval=0.05).is_open
        assert len(simulator.ledger.creates) == 2
        for name in ("first", "second"):
            assert counts(worker, name)["ok"] == 15
            check_against_ledger(worker, simulator.ledger, name)
