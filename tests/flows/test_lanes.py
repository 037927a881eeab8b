"""Lanes: live judges are called beside the batches and beside those of other providers, and end in good order."""

import os
import signal
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event, Timer

import pytest

from pipeline.clock import SystemClock
from pipeline.errors import StoreError
from pipeline.operations.lanes import side_by_side
from pipeline.operations.resuming import Headway, resume
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import HaltedError, Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from pipeline.simulator.faults import Fault
from pipeline.simulator.ledger import Billed
from pipeline.state import RunState
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile, Simulate, WorkerFor, environment
from tests.flows.slow_way import slow_way
from tests.flows.studies import counts, problems, submitted

BATCH = "{provider: anthropic, model: claude-haiku-5-5}"
LIVE = "{provider: openai, model: gpt-6-luna, mode: live, requests_per_second: 20}"
BESIDE = "{provider: mistral, model: mistral-small, mode: live, requests_per_second: 20}"
LIVE_BESIDE_BATCH = "{provider: anthropic, model: claude-sonnet-5-5, mode: live, requests_per_second: 50}"
OF_THE_SAME = "{provider: openai, model: gpt-6-sol, mode: live, requests_per_second: 20}"


@pytest.fixture
def busy_worker(store: LocalStore) -> Iterator[WorkerFor]:
    """Build a worker that does several things at once, as the command line has one."""
    made: list[Worker] = []

    def build(simulator: Simulator, **more: str) -> Worker:
        known = environment(simulator, **more) | {
            "ANTHROPIC_API_KEY": "sk-ant-canary",
            "ANTHROPIC_BASE_URL": simulator.anthropic_base_url,
            "MISTRAL_API_KEY": "canary",
            "MISTRAL_BASE_URL": simulator.mistral_base_url,
        }
        made.append(Worker(store, clock=SystemClock(), settings=Settings(known), at_once=8))
        return made[-1]

    yield build
    for worker in made:
        worker.close()


class _SlowToAnswer(LocalStore):
    """Takes its time to say that a commit of the live run is written."""

    def put_new(self, key: str, body: bytes) -> None:
        super().put_new(key, body)
        if key.startswith("log/") and "sonnet" in key:
            time.sleep(0.3)


def calls(simulator: Simulator, model: str) -> list[Billed]:
    return [entry for entry in simulator.ledger.billed() if entry.model == model and entry.batch_id is None]


def test_batches_are_fetched_while_a_live_judge_is_called(
    simulate: Simulate, busy_worker: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    worker = busy_worker(simulator)
    live, batch = runs = submitted(worker, experiment_file(judges=f"[{LIVE}, {BATCH}]"))
    seen: list[tuple[int, int]] = []

    def watch(_: Headway) -> None:
        seen.append((batch.state.counts.open, live.state.counts.open))

    assert not resume(worker, runs, interval=0.02, watch=watch).is_open
    assert (0, 15) in seen
    assert (simulator.ledger.totals.live, counts(worker)["ok"]) == (15, 30)
    assert simulator.ledger.paid_twice() == problems(worker) == []


def test_live_judges_of_two_providers_are_called_side_by_side(
    simulate: Simulate, busy_worker: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    worker = busy_worker(simulator)
    runs = submitted(worker, experiment_file(judges=f"[{LIVE}, {BESIDE}]"))
    assert not resume(worker, runs, interval=0.02).is_open
    one, other = calls(simulator, "gpt-6-luna"), calls(simulator, "mistral-small")
    assert len(one) == len(other) == counts(worker)["ok"] / 2 == 15
    assert max(one[0].at, other[0].at) < min(one[-1].at, other[-1].at)
    assert problems(worker) == []


def test_live_judges_of_one_provider_are_called_one_after_the_other(
    simulate: Simulate, busy_worker: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    worker = busy_worker(simulator)
    runs = submitted(worker, experiment_file(judges=f"[{LIVE}, {BATCH}, {OF_THE_SAME}]"))
    assert not resume(worker, runs, interval=0.02).is_open
    one, other = calls(simulator, "gpt-6-luna"), calls(simulator, "gpt-6-sol")
    assert len(one) == len(other) == 15
    assert one[-1].at <= other[0].at


def test_who_settles_a_batch_leaves_the_log_of_a_live_judge_of_its_provider_alone(
    simulate: Simulate, tmp_path: Path, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults={"create.dropped": Fault(times=1)})
    known = {
        "ANTHROPIC_API_KEY": "sk-ant-canary",
        "ANTHROPIC_BASE_URL": simulator.anthropic_base_url,
        "PAIRLOG_QUIET_SECONDS": "2",
    }
    with Worker(_SlowToAnswer(tmp_path / "store"), clock=SystemClock(), settings=Settings(known), at_once=8) as worker:
        runs = submitted(worker, experiment_file(judges=f"[{BATCH}, {LIVE_BESIDE_BATCH}]"))
        assert not resume(worker, runs, interval=0.01).is_open
        assert (counts(worker)["ok"], simulator.ledger.paid_twice()) == (30, [])
        assert problems(worker) == []


def test_what_fails_beside_live_calls_is_tried_again_while_they_go_on(
    simulate: Simulate, busy_worker: WorkerFor, experiment_file: ExperimentFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator = simulate()
    worker = busy_worker(simulator)
    _, batch = runs = submitted(worker, experiment_file(judges=f"[{LIVE}, {BATCH}]"))
    looks, refresh = count(), batch.refresh

    def failing_at_first() -> RunState:
        if next(looks) < 3:
            raise StoreError("the store is not there")
        return refresh()

    monkeypatch.setattr(batch, "refresh", failing_at_first)
    assert not resume(worker, runs, interval=0.02).is_open
    assert counts(worker)["ok"] == 30


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_halts_every_lane_and_loses_no_answer(
    simulate: Simulate, busy_worker: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(latency_seconds=30.0)
    with slow_way(simulator, seconds=0.7) as address:
        worker = busy_worker(simulator, OPENAI_BASE_URL=address)
        runs = submitted(worker, experiment_file(samples=10, judges=f"[{LIVE}, {BATCH}, {BESIDE}]"))
        Timer(1.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            resume(worker, runs, interval=60)
        before = simulator.ledger.totals.live
        assert 0 < before < 90
        live = [run for run in runs if run.is_live]
        assert all(worker.leases.is_free(run.run_id) for run in live)
        assert not resume(worker, live, interval=0.02).is_open
    assert simulator.ledger.totals.live == counts(worker)["ok"] == 90


@pytest.mark.usefixtures("interruptible")
def test_a_second_interrupt_leaves_the_lanes_halted_that_nobody_waits_for(
    simulate: Simulate, busy_worker: WorkerFor, experiment_file: ExperimentFile
) -> None:
    worker = busy_worker(simulate())
    runs = submitted(worker, experiment_file(judges=f"[{LIVE}, {BATCH}]"))
    waiting, ended = Event(), Event()

    def work(some: list[Run]) -> None:
        if not some[0].is_live:
            waiting.wait()
            Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()  # while the lanes are waited for
            raise KeyboardInterrupt
        waiting.set()
        ended.wait()

    try:
        with pytest.raises(KeyboardInterrupt):
            side_by_side(worker, runs, work)
        with pytest.raises(HaltedError):
            worker.check_halted()
    finally:
        ended.set()


def test_what_goes_wrong_in_one_lane_halts_the_others_and_is_raised(
    simulate: Simulate, busy_worker: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(latency_seconds=30.0)
    worker = busy_worker(simulator)
    runs = submitted(worker, experiment_file(judges=f"[{LIVE}, {BATCH}, {BESIDE}]"))

    def watch(now: Headway) -> None:
        if now.answered:
            raise RuntimeError("a fault of ours")

    with pytest.raises(RuntimeError, match="a fault of ours"):
        resume(worker, runs, interval=60, watch=watch)
    assert 0 < simulator.ledger.totals.live < 30
    live = [run for run in runs if run.is_live]
    assert not resume(worker, live, interval=0.02).is_open
    assert simulator.ledger.totals.live == counts(worker)["ok"] == 30
