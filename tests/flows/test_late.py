"""Creates that land after they were given up, at a provider that shows no key of ours: found by their ids."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.clock import FixedClock
from pipeline.operations.auditing import audit_ledger
from pipeline.operations.cancelling import cancel
from pipeline.operations.resuming import resume
from pipeline.operations.worker import Run, Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator, SimulatorSettings, environment, parse_faults
from pipeline.storage.local import LocalStore
from pipeline.storage.log import read_commits
from tests.flows.studies import column, counts, problems, rows, submitted

ANTHROPIC = "[{provider: anthropic, model: claude-haiku-5-5}]"
ExperimentFile = Callable[..., Path]


class World:
    """A worker and a simulator that live in the same time, which passes only when the worker sleeps."""

    def __init__(self, store: LocalStore, faults: str, latency: float) -> None:
        clock = FixedClock(datetime(2026, 11, 16, 9, tzinfo=UTC))
        settings = SimulatorSettings(faults=parse_faults(faults), latency_seconds=latency)
        self.simulator = Simulator(settings, clock)
        self.simulator.__enter__()
        self.worker = Worker(store, clock=clock, settings=Settings(environment(self.simulator.url)))

    def close(self) -> None:
        self.worker.close()
        self.simulator.__exit__(None, None, None)

    def kinds(self, run: Run) -> list[str]:
        commits = read_commits(self.worker.store, run.run_id)
        return [event.__struct_config__.tag for commit, _ in commits for event in commit.events]

    def check(self) -> None:
        """Whatever was billed is in the table, and the log knows every batch that was made."""
        ledger = self.simulator.ledger
        table = rows(self.worker)
        answered = {row["request_id"] for row in table.to_pylist() if row["status"] == "ok"}
        assert {entry.custom_id for entry in ledger.billed() if entry.delivered} == answered
        assert [finding.problem for finding in audit_ledger(self.worker, ledger.path.read_bytes())] == []
        assert problems(self.worker) == []


@pytest.fixture
def world(store: LocalStore) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def build(faults: str, latency: float = 0.0) -> World:
        made.append(World(store, faults, latency))
        return made[-1]

    yield build
    for each in made:
        each.close()


@pytest.mark.parametrize("latency", [0.0, 900.0])
def test_a_create_that_lands_after_it_was_given_up_and_cancelled_is_found(
    world: Callable[..., World], experiment_file: ExperimentFile, latency: float
) -> None:
    here = world("create.late:900=1", latency)
    (run,) = submitted(here.worker, experiment_file(judges=ANTHROPIC))
    cancel(run)
    assert not resume(here.worker, [run], interval=30).is_open
    assert here.kinds(run).index("voided") < here.kinds(run).index("adopted")
    assert len(here.simulator.ledger.creates) == 1
    here.check()


def test_a_cancelled_attempt_that_never_lands_ends_after_two_quiet_periods(
    world: Callable[..., World], experiment_file: ExperimentFile
) -> None:
    here = world("create.dropped=1")
    started = here.worker.clock.monotonic()
    (run,) = submitted(here.worker, experiment_file(judges=ANTHROPIC))
    cancel(run)
    assert not resume(here.worker, [run], interval=30).is_open
    assert column(rows(here.worker), "status") == ["cancelled"] * 15
    assert 1200 <= here.worker.clock.monotonic() - started <= 1400
    here.check()


def test_a_batch_that_lands_beside_its_successor_is_waited_for_and_its_bill_is_shown(
    world: Callable[..., World], experiment_file: ExperimentFile
) -> None:
    """Nothing on this wire can stop the second payment; but it does not go unseen."""
    here = world("create.late:900=1", 1000.0)
    (run,) = submitted(here.worker, experiment_file(judges=ANTHROPIC))
    assert not resume(here.worker, [run], interval=30).is_open
    assert counts(here.worker)["ok"] == 15
    (batch,) = run.state.batches.values()
    assert {batch.remote_id, *batch.superseded} == {each.batch_id for each in here.simulator.ledger.batches}
    found = {finding.problem for finding in audit_ledger(here.worker, here.simulator.ledger.path.read_bytes())}
    assert found == {"was paid for again after its answer had been delivered"}
