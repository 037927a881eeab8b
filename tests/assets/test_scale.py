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


def test_what_one_round_leaves_the_next_one_begins_with(home: Callable[..., Home], tmp_path: Path) -> None:
    here = home(latency_seconds=100_000, more="repeats: 5")
    submitted(here.worker, tmp_path / "essays.yaml")
    watch = Watch(here.worker, questions=2)
    runs = watch.runs()
    rounds = [watch.round(runs, seconds=9)]
    for _ in range(2):
        rounds.append(watch.round(watch.runs(), seconds=9, after=rounds[-1].after))
    names = [run.run_id for run in runs]
    assert [each.polled for each in rounds[:2]] == [2, 2]
    assert [each.after for each in rounds[:2]] == [names[1], names[3]]
    assert all(batch.remote_status for run in watch.runs() for batch in run.state.batches.values())


def test_a_round_without_time_asks_nothing(home: Callable[..., Home], tmp_path: Path) -> None:
    here = home(latency_seconds=100_000)
    submitted(here.worker, tmp_path / "essays.yaml")
    watch = Watch(here.worker)
    assert watch.round(watch.runs(), seconds=0).polled == 0
