"""A worker that is really killed, at many moments, and another that goes on from another directory."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ExperimentFile, Simulate, WorkerFor, environment
from tests.flows.listening import listening
from tests.flows.studies import check_against_ledger, column, rows


def pairlog(*arguments: str, env: dict[str, str], cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pipeline.cli", *arguments]
    return subprocess.Popen(
        command,
        env={**os.environ, **env},
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=listening,  # noqa: PLW1509 - nothing else of this process is touched
    )


def _wait_for_the_experiment(root: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the study is asked for: what dies before that has promised nothing."""
    until = time.monotonic() + 60
    while not list(root.glob("log/*/*.json")):
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.2, 0.4, 0.8])
def test_a_killed_worker_is_followed_by_one_that_finishes_the_same_table(
    simulate: Simulate,
    worker_for: WorkerFor,
    experiment_file: ExperimentFile,
    tmp_path: Path,
    delay: float,
) -> None:
    simulator = simulate(seed=2)
    file = experiment_file(
        samples=40,
        judges="[{provider: openai, model: gpt-6-luna, reasoning: [none, low]}]",
        more="pairs: {design: random, count: 500}\nbatch: {max_requests: 90}",
    )
    root = tmp_path / "store"
    env = environment(simulator, PAIRLOG_STORE=str(root), PAIRLOG_QUIET_SECONDS="0.3")
    first = pairlog("run", str(file), "--interval", "0.1", env=env, cwd=tmp_path)
    _wait_for_the_experiment(root, first)
    time.sleep(delay)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file.unlink()
    second = pairlog("resume", "--interval", "0.1", env=env, cwd=elsewhere)
    _, said = second.communicate(timeout=90)
    assert second.returncode == 0, said
    worker = worker_for(simulator)
    table = rows(worker)
    assert table.num_rows == len(set(column(table, "request_id"))) == 1000
    assert simulator.ledger.totals.requests == 1000
    check_against_ledger(worker, simulator.ledger)


def test_two_workers_at_once_pay_no_more_than_one(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    simulator = simulate(latency_seconds=0.5)
    file = experiment_file(samples=40, more="pairs: {design: random, count: 400}\nbatch: {max_requests: 50}")
    env = environment(simulator, PAIRLOG_STORE=str(tmp_path / "store"), PAIRLOG_QUIET_SECONDS="0.5")
    both = [pairlog("run", str(file), "--interval", "0.1", env=env, cwd=tmp_path) for _ in range(2)]
    ends = [process.communicate(timeout=100) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert simulator.ledger.totals.requests == 400
    check_against_ledger(worker_for(simulator), simulator.ledger)


Interrupted = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def interrupted(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> Iterator[Interrupted]:
    """Send signals to a worker and return how it ended; whatever that was, another one must finish the study."""
    simulator = simulate(latency_seconds=5)
    root = tmp_path / "store"
    env = environment(simulator, PAIRLOG_STORE=str(root), PAIRLOG_QUIET_SECONDS="0.3")

    def interrupt(*signals: signal.Signals) -> subprocess.CompletedProcess[str]:
        process = pairlog("run", str(experiment_file()), "--interval", "0.1", env=env, cwd=tmp_path)
        _wait_for_the_experiment(root, process)
        time.sleep(0.5)
        for number in signals:
            process.send_signal(number)
        out, said = process.communicate(timeout=30)
        return subprocess.CompletedProcess(process.args, process.returncode, out, said)

    yield interrupt
    second = pairlog("resume", "--interval", "0.1", env=env, cwd=tmp_path)
    _, said = second.communicate(timeout=60)
    assert second.returncode == 0, said
    check_against_ledger(worker_for(simulator), simulator.ledger)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["interrupted", "terminated"])
def test_a_worker_that_is_stopped_says_how_to_go_on(interrupted: Interrupted, number: signal.Signals) -> None:
    ended = interrupted(number)
    assert ended.returncode == 1
    assert "pairlog resume" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_who_interrupts_twice_is_obeyed_at_once_and_loses_nothing(interrupted: Interrupted) -> None:
    ended = interrupted(signal.SIGTERM, signal.SIGINT)
    assert ended.returncode in {1, -signal.SIGINT}
    assert "Traceback" not in ended.stderr
