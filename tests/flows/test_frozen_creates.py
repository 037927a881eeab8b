"""A worker that is really frozen on its way to a create, at a provider that cannot tell our batches apart by a key."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pipeline.clock import SystemClock
from pipeline.operations.resuming import resume, submit
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator, environment, parse_faults
from pipeline.storage.local import LocalStore
from tests.flows.studies import check_against_ledger, counts, submitted

ANTHROPIC = "[{provider: anthropic, model: claude-haiku-5-5}]"
PACE = {"PAIRLOG_LEASE_SECONDS": "0.3", "PAIRLOG_QUIET_SECONDS": "600"}


class Freezing(LocalStore):
    """A way to the store on which the process stops, once, around the commit that announces an attempt."""

    def __init__(self, root: Path, moment: str) -> None:
        super().__init__(root)
        self._moment = moment

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        body = b"".join(chunks)
        announces = key.startswith("log/") and b'"attempt-opened"' in body
        self._freeze("before announcing", announces)
        super().put_stream(key, (body,))
        self._freeze("after announcing", announces)

    def _freeze(self, moment: str, announces: bool) -> None:
        if announces and moment == self._moment:
            self._moment = "never"
            os.kill(os.getpid(), signal.SIGSTOP)


def a_worker(store: LocalStore, url: str) -> Worker:
    return Worker(store, clock=SystemClock(), settings=Settings({**environment(url), **PACE}))


def submits(root: Path, url: str, file: Path, moment: str) -> None:
    with a_worker(Freezing(root, moment), url) as worker:
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
@pytest.mark.parametrize(("moment", "other"), [("before announcing", "uncertain"), ("after announcing", "prepared")])
def test_who_wakes_up_beside_an_unsettled_create_of_another_does_not_create(
    simulate: Callable[..., Simulator],
    store: LocalStore,
    experiment_file: Callable[..., Path],
    tmp_path: Path,
    moment: str,
    other: str,
) -> None:
    simulator = simulate(faults=parse_faults("create.lost=1"))
    first = (tmp_path / "store", simulator.url, experiment_file(name="first", judges=ANTHROPIC), moment)
    frozen = multiprocessing.get_context("spawn").Process(target=submits, args=first)
    frozen.start()
    assert frozen.pid is not None
    assert os.WIFSTOPPED(os.waitpid(frozen.pid, os.WUNTRACED)[1])
    with a_worker(store, simulator.url) as worker:
        (run,) = submitted(worker, experiment_file(name="second", judges=ANTHROPIC))
        _try_for(10 if other == "uncertain" else 1, run)
        assert _phase(run) == other
        os.kill(frozen.pid, signal.SIGCONT)
        frozen.join(30)
        assert len(simulator.ledger.creates) == 1
        runs = [run, *worker.runs(worker.experiment_names()[0])]
        assert not resume(worker, runs, interval=0.05).is_open
        assert len(simulator.ledger.creates) == 2
        for name in ("first", "second"):
            assert counts(worker, name)["ok"] == 15
            check_against_ledger(worker, simulator.ledger, name)
