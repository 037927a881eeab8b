"""Ten thousand open batches in one store: how long a tick takes, how long registering them takes."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.operations.watching import Watch
from tests.assets.dagster_home import Home
from tests.flows.studies import submitted

JUDGES = "[{provider: openai, model: [gpt-6-luna, gpt-6-sol], reasoning: [none, low, medium, high, xhigh]}]"


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_tick_over_ten_thousand_open_batches_is_bounded(home: Callable[..., Home], tmp_path: Path) -> None:
    more = "pairs: {design: random, count: 20}\nbatch: {segments: 20}\nrepeats: 50"
    here = home(judges=JUDGES, more=more, samples=7, latency_seconds=100_000)
    runs = submitted(here.worker, tmp_path / "essays.yaml")
    assert len(runs) == 500
    here.tick("experiment_files")
    taken, cursor = [], None
    for _ in range(3):
        started = time.monotonic()
        data = here.tick("batch_status", cursor=cursor)
        cursor = data.cursor
        taken.append(time.monotonic() - started)
        print(f"tick: {taken[-1]:.1f} s, {data.skip_message}")
    assert len(here.segments()) == 10_000
    assert max(taken) < 30


def test_old_batches_are_asked_after_less_often(home: Callable[..., Home], tmp_path: Path) -> None:
    here = home(latency_seconds=100_000)
    submitted(here.worker, tmp_path / "essays.yaml")
    watch = Watch(here.worker)
    assert watch.round(watch.runs(), seconds=5).polled == 1
    (run,) = watch.runs()
    (batch,) = run.state.batches.values()
    assert not watch.round([run], seconds=0).polled, "no time, no question"
    assert batch.phase in {"submitted", "running"}
