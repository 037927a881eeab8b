"""Live runs: the same table as a batch, at a real rate, and nothing asked twice after a kill."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pipeline.operations.worker import Worker
from pipeline.simulator import Simulator, parse_faults
from tests.conftest import environment
from tests.flows.studies import column, counts, finished, problems, rows

LIVE = "[{{provider: openai, model: gpt-6-luna, mode: live, requests_per_second: {rate}}}]"
Simulate = Callable[..., Simulator]


def test_a_live_run_gives_the_same_outcomes_as_a_batch(
    simulate: Simulate, worker_for: Callable[..., Worker], experiment_file: Callable[..., Path]
) -> None:
    simulator = simulate()
    worker = worker_for(simulator)
    finished(worker, experiment_file(name="batch"))
    finished(worker, experiment_file(name="live", judges=LIVE.format(rate=500)))
    outcomes = [
        {(row["first_id"], row["second_id"]): row["outcome"] for row in rows(worker, name).to_pylist()}
        for name in ("batch", "live")
    ]
    assert outcomes[0] == outcomes[1]
    assert simulator.ledger.totals.live == 15
    assert problems(worker) == []


def test_the_rate_is_kept(
    simulate: Simulate, worker_for: Callable[..., Worker], experiment_file: Callable[..., Path]
) -> None:
    worker = worker_for(simulate())
    start = time.monotonic()
    finished(worker, experiment_file(judges=LIVE.format(rate=10)))
    assert time.monotonic() - start >= 14 / 10


def test_limits_and_passing_faults_are_waited_out(
    simulate: Simulate, worker_for: Callable[..., Worker], experiment_file: Callable[..., Path]
) -> None:
    simulator = simulate(faults=parse_faults("live.429:1=2,live.500=1,live.dropped=1"))
    worker = worker_for(simulator)
    finished(worker, experiment_file(judges=LIVE.format(rate=500)))
    assert counts(worker)["ok"] == 15
    assert simulator.ledger.totals.live == 15


def test_refusals_and_truncation_are_told_apart_live_too(
    simulate: Simulate, worker_for: Callable[..., Worker], experiment_file: Callable[..., Path]
) -> None:
    for fault, status in (("answer.refusal", "refused"), ("answer.length", "truncated")):
        worker = worker_for(simulate(faults=parse_faults(fault)))
        finished(worker, experiment_file(name=status, judges=LIVE.format(rate=500)))
        assert counts(worker, status)[status] == 15


def test_a_key_that_is_refused_stops_the_run_and_says_so(
    simulate: Simulate, worker_for: Callable[..., Worker], experiment_file: Callable[..., Path]
) -> None:
    simulator = simulate(faults=parse_faults("live.401"))
    worker = worker_for(simulator)
    end = finished(worker, experiment_file(judges=LIVE.format(rate=500)))
    assert end.is_open
    assert not end.moves_by_itself
    assert "401" in end.reasons[0]


def test_a_kill_loses_no_more_than_a_second(
    simulate: Simulate, worker_for: Callable[..., Worker], experiment_file: Callable[..., Path], tmp_path: Path
) -> None:
    simulator = simulate()
    file = experiment_file(samples=20, judges=LIVE.format(rate=60))
    env = {**os.environ, **environment(simulator, PAIRLOG_STORE=str(tmp_path / "store"))}
    command = [sys.executable, "-m", "pipeline.cli", "run", str(file), "--interval", "0.1"]
    first = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while simulator.ledger.totals.live < 80 and time.monotonic() < until:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    worker = worker_for(simulator)
    assert not finished(worker, file).is_open
    assert rows(worker).num_rows == len(set(column(rows(worker), "request_id"))) == 190
    asked = Counter((entry.first, entry.second) for entry in simulator.ledger.billed())
    assert len(asked) == 190
    assert sum(asked.values()) - 190 <= 75
    assert problems(worker) == []
