"""A damaged log beside others, at a provider that cannot tell our batches apart by a key: nothing is sent there."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.clock import SystemClock
from pipeline.ids import ExperimentName
from pipeline.operations.resuming import Headway, resume, submit
from pipeline.operations.studies.opening import freeze, open_runs
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator, environment
from pipeline.storage.local import LocalStore
from tests.flows.studies import counts, problems, submitted

ANTHROPIC = "[{provider: anthropic, model: [claude-haiku-5-5, claude-sonnet-5-5]}]"
DAMAGED = "alpha--default--anthropic--claude-haiku-5-5--default--forward"
ZETA = ExperimentName("zeta")


def a_worker(store: LocalStore, simulator: Simulator) -> Worker:
    return Worker(store, clock=SystemClock(), settings=Settings(environment(simulator.url)))


@pytest.fixture
def damaged(
    store: LocalStore, simulate: Callable[..., Simulator], experiment_file: Callable[..., Path], tmp_path: Path
) -> Simulator:
    """A store with a damaged log, and beside it a study of which the first segment of each run is sent."""
    simulator = simulate()
    with a_worker(store, simulator) as worker:
        submitted(worker, experiment_file(name="alpha", judges=ANTHROPIC))
        zeta = plan(str(experiment_file(name="zeta", judges=ANTHROPIC, more="batch: {max_requests: 8}")))
        for run in open_runs(worker, zeta, experiment_digest=freeze(worker, zeta)):
            assert submit(run, only={0}) == 1
    (tmp_path / "store" / "log" / DAMAGED / f"{0:020d}.json").write_bytes(b"{}")
    return simulator


def resumed(worker: Worker) -> Headway:
    return resume(worker, worker.runs(ZETA), interval=0.01)


def test_who_may_not_send_says_whose_log_it_is_and_how_to_get_out_and_keeps_what_comes_back(
    store: LocalStore, damaged: Simulator
) -> None:
    with a_worker(store, damaged) as worker:
        ends = [resumed(worker) for _ in range(5)]
        assert counts(worker, "zeta")["ok"] == 16
        assert len(damaged.ledger.creates) == 4
    (reason,) = ends[-1].reasons
    assert reason.startswith("zeta--default--anthropic--claude-haiku-5-5--default--forward and 1 more: ")
    for words in (
        f"nothing is sent to anthropic until the log of {DAMAGED} can be read",
        "restore it from a backup, or give alpha up by moving experiments/alpha out of the store",
        f"log/{DAMAGED}/{0:020d}.json: its bytes were changed or cut",
    ):
        assert words in reason


def test_the_others_go_on_when_the_experiment_is_moved_away(
    store: LocalStore, damaged: Simulator, tmp_path: Path
) -> None:
    shutil.move(tmp_path / "store" / "experiments" / "alpha", tmp_path / "alpha")
    with a_worker(store, damaged) as worker:
        assert not resumed(worker).is_open
        assert counts(worker, "zeta")["ok"] == 30
        assert damaged.ledger.paid_twice() == []
        assert [problem for problem in problems(worker) if "alpha" not in problem] == []
