"""Frozen processes, full and read-only disks, clocks that are a day off, keys of other accounts."""

import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from pipeline.clock import FixedClock, SystemClock
from pipeline.errors import StoreError
from pipeline.ids import BatchId, ExperimentName
from pipeline.operations.reading.reporting import status
from pipeline.operations.resuming import resume
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import environment as everywhere
from pipeline.simulator import parse_faults
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile, Simulate, WorkerFor, environment
from tests.flows.small_disks import a_disk_of, needs_a_small_disk
from tests.flows.striking import StruckStore, struck
from tests.flows.studies import check_against_ledger, column, counts, finished, problems, rows, submitted

MANY = "pairs: {design: random, count: 300}\nbatch: {max_requests: 30}"


def finishes(store: StruckStore, env: dict[str, str], file: Path) -> None:
    with Worker(store, clock=SystemClock(), settings=Settings(env)) as worker:
        assert not finished(worker, file, interval=0.05).is_open


@pytest.mark.timeout(120)
@pytest.mark.parametrize("after", [False, True], ids=["before telling", "after telling"])
@pytest.mark.parametrize("event", ["attempt-opened", "submitted", "ended", "outputs-stored", "rows-published"])
def test_a_worker_frozen_for_longer_than_its_lease_changes_nothing_when_it_wakes(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path, event: str, after: bool
) -> None:
    simulator = simulate()
    file = experiment_file(samples=40, more=MANY)
    pace = {"PAIRLOG_LEASE_SECONDS": "0.5", "PAIRLOG_QUIET_SECONDS": "0.5"}
    store = StruckStore(tmp_path / "store", event, signal.SIGSTOP, after=after)
    with struck(finishes, store, environment(simulator, **pace), file) as frozen:
        assert frozen.is_frozen
        worker = worker_for(simulator, **pace)
        runs = [run for name in worker.experiment_names() for run in worker.runs(name)]
        assert not resume(worker, runs, interval=0.05).is_open
        assert frozen.woken() == 0
    assert len(simulator.ledger.batches) == 10
    assert rows(worker).num_rows == 300
    assert simulator.ledger.totals.requests == 300
    check_against_ledger(worker_for(simulator), simulator.ledger)


def test_a_worker_that_died_at_work_is_followed_within_ninety_seconds_whatever_the_interval(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    settings = Settings(environment(simulator))
    with Worker(store, clock=SystemClock(), settings=settings) as dead:
        (run,) = submitted(dead, experiment_file())
        assert run.keep(), "it dies with the lease in its hands, somewhere else: nobody here can tell"
    with Worker(store, clock=FixedClock(datetime.now(UTC)), settings=settings) as other:
        runs = other.runs(run.experiment.name)
        assert not resume(other, runs, interval=3600).is_open
        assert 60 <= other.clock.monotonic() <= 90
        check_against_ledger(other, simulator.ledger)


@needs_a_small_disk
def test_a_full_disk_stops_the_study_and_loses_nothing(
    simulate: Simulate, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    simulator = simulate()
    file = experiment_file(samples=40, more=MANY)
    with a_disk_of(300, tmp_path / "small") as place:
        settings = Settings(environment(simulator, PAIRLOG_LEASE_SECONDS="1"))
        with Worker(LocalStore(place / "store"), clock=SystemClock(), settings=settings) as worker:
            end = finished(worker, file)
            assert (end.is_open, end.moves_by_itself) == (True, False)
            assert any("space" in reason for reason in end.reasons)
        subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
        quick = Settings(environment(simulator, PAIRLOG_QUIET_SECONDS="0.3", PAIRLOG_LEASE_SECONDS="0.3"))
        with Worker(LocalStore(place / "store"), clock=SystemClock(), settings=quick) as worker:
            assert not finished(worker, file).is_open
            assert rows(worker).num_rows == 300
            assert simulator.ledger.totals.requests == 300
            check_against_ledger(worker, simulator.ledger)


class _ReadOnly(LocalStore):
    """A store that this user may read."""

    def put_stream(self, key: str, chunks: object) -> None:
        raise StoreError(f"cannot create {key}: the store cannot be written by this user")


def test_a_read_only_store_can_be_read_and_sends_nothing(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    simulator = simulate()
    finished(worker_for(simulator), experiment_file())
    settings = Settings(environment(simulator))
    with Worker(_ReadOnly(tmp_path / "store"), clock=SystemClock(), settings=settings) as reader:
        assert counts(reader)["ok"] == 15
        assert rows(reader).num_rows == 15
        assert problems(reader) == []
        with pytest.raises(StoreError, match="cannot be written"):
            finished(reader, experiment_file(name="more"))
    assert len(simulator.ledger.creates) == 1


class _OffClock(SystemClock):
    """A machine whose clock is wrong."""

    def __init__(self, off: timedelta) -> None:
        self._off = off

    def now(self) -> datetime:
        return datetime.now(UTC) + self._off


@pytest.mark.parametrize(
    "model", ["openai, model: gpt-6-luna", "anthropic, model: claude-haiku-5-5", "mistral, model: m"]
)
@pytest.mark.parametrize(("days", "later"), [(-1, 0), (1, 0), (3, 0), (3, 3), (400, 0)])
def test_a_clock_that_is_off_by_days_neither_pays_twice_nor_waits_for_ever(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, days: int, later: int, model: str
) -> None:
    simulator = simulate(faults=parse_faults("create.lost=1"))
    quick = {"PAIRLOG_QUIET_SECONDS": "0.3", "PAIRLOG_LEASE_SECONDS": "0.3"}
    settings = Settings({**everywhere(simulator.url), **quick})
    with Worker(store, clock=_OffClock(timedelta(days=days)), settings=settings) as off:
        submitted(off, experiment_file(judges=f"[{{provider: {model}}}]"))
    with Worker(store, clock=_OffClock(timedelta(days=later)), settings=settings) as other:
        runs = [run for name in other.experiment_names() for run in other.runs(name)]
        end = resume(other, runs, interval=0.05)
        assert not end.is_open
        assert simulator.ledger.totals.requests == 15
        assert len(simulator.ledger.batches) == 1
        check_against_ledger(other, simulator.ledger)


def test_the_key_of_another_account_is_named_and_nothing_is_lost(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(latency_seconds=0.2)
    file = experiment_file()
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulator))) as worker:
        submitted(worker, file)
    simulator.engine.faults.replace(parse_faults("poll.404"))
    other = environment(simulator) | {"OPENAI_API_KEY": "sk-another"}
    with Worker(store, clock=SystemClock(), settings=Settings(other)) as stranger:
        runs = [run for name in stranger.experiment_names() for run in stranger.runs(name)]
        end = resume(stranger, runs, interval=0.05)
        assert end.is_open
        assert not end.moves_by_itself
        assert "another key" in end.reasons[0]
        assert "sk-" not in str(end.reasons)
    simulator.engine.faults.replace({})
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulator))) as worker:
        assert not finished(worker, file).is_open
        assert column(rows(worker), "status") == ["ok"] * 15


class HidesABatch(httpx.HTTPTransport):
    """Does not show one batch, as a provider does whose key was replaced meanwhile."""

    def __init__(self, remote_id: str | None) -> None:
        super().__init__()
        self._remote_id = remote_id

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(f"/batches/{self._remote_id}"):
            return httpx.Response(404, json={"error": {"message": "No such batch"}})
        return super().handle_request(request)


@pytest.mark.parametrize("hidden", ["s000-1", "s002-1"])
def test_a_batch_that_the_key_does_not_show_neither_stops_the_others_nor_is_waited_for(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, hidden: str
) -> None:
    simulator = simulate(latency_seconds=0.3)
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulator))) as worker:
        (run,) = submitted(worker, experiment_file(more="batch: {max_requests: 5}"))
        transport = HidesABatch(run.state.batches[BatchId(hidden)].remote_id)
    settings = Settings(environment(simulator) | {"OPENAI_API_KEY": "sk-another"})
    with Worker(store, clock=SystemClock(), settings=settings, transport=transport) as stranger:
        (run,) = stranger.runs(ExperimentName("essays"))
        end = resume(stranger, [run], interval=0.05)
        assert (end.counts.ok, end.counts.open) == (10, 5)
        assert len(end.reasons) == 1
        assert "another key" in end.reasons[0]


@pytest.mark.parametrize(("fault", "during"), [("create.lost=1", "list.401"), ("", "download.401")])
def test_a_key_that_is_refused_is_said_once_and_not_waited_for(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, fault: str, during: str
) -> None:
    simulator = simulate(faults=parse_faults(fault))
    worker = worker_for(simulator, PAIRLOG_QUIET_SECONDS="0.1")
    runs = submitted(worker, experiment_file())
    simulator.engine.faults.replace(parse_faults(during))
    end = resume(worker, runs, interval=0.02)
    assert end.is_open
    assert "401" in end.reasons[0]
    simulator.engine.faults.replace({})
    assert not resume(worker, runs, interval=0.02).is_open
    check_against_ledger(worker, simulator.ledger)


def test_the_status_of_a_past_moment_knows_no_later_alarm(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, clock: FixedClock
) -> None:
    settings = Settings(environment(simulate(faults=parse_faults("run.stuck"))))
    with Worker(store, clock=clock, settings=settings) as worker:
        submitted(worker, experiment_file())
        then = clock.now()
        clock.sleep(27 * 3600)

        def notes(as_of: datetime | None) -> list[str | None]:
            (study,) = status(worker, [ExperimentName("essays")], as_of=as_of).experiments
            return [batch.note for run in study.runs for batch in run.batches]

        assert notes(then) == [None]
        assert notes(None) == ["at the provider for 27 hours; it is not sent again while it is open there"]
