"""Runs so large that what is known of them fills many commits: none is too large, and each may be the last."""

from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import httpx
import msgspec
import pytest

from pipeline.clock import FixedClock, SystemClock
from pipeline.events import BatchPlanned, RunPlanned, Segment
from pipeline.ids import Digest, ExperimentName, RunId, digest
from pipeline.operations.batches.submitting import ask_for
from pipeline.operations.cancelling import cancel
from pipeline.operations.resuming import resume
from pipeline.operations.studies.opening import freeze, open_runs
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.worker import Worker
from pipeline.planning import first_batches
from pipeline.settings import Settings
from pipeline.storage.local import LocalStore
from pipeline.storage.log import RunLog, in_commits
from tests.conftest import ExperimentFile, Simulate, WorkerFor, environment
from tests.flows.studies import counts, problems, submitted

NOTHING: Digest = digest(b"")


class _Failed(httpx.HTTPTransport):
    """A way to the provider on which every batch but the first one asked after failed, for reasons on 200 lines."""

    good = ""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if request.method != "GET" or "/batches/" not in request.url.path:
            return response
        batch = msgspec.json.decode(response.read())
        self.good = self.good or batch["id"]
        if batch["id"] == self.good:
            return httpx.Response(200, json=batch)
        reasons = [{"code": "\x00" * 30, "line": line, "message": "\x00" * 5_000} for line in range(1, 201)]
        return httpx.Response(
            200, json={**batch, "status": "failed", "output_file_id": None, "errors": {"data": reasons}}
        )


def test_batches_that_fail_at_once_for_many_reasons_stop_no_other(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    settings = Settings(environment(simulate()))
    with Worker(store, clock=SystemClock(), settings=settings, transport=_Failed()) as worker:
        runs = submitted(worker, experiment_file(samples=50, more="batch: {max_requests: 200}"))
        assert not resume(worker, runs, interval=0.01).is_open
        assert (counts(worker)["ok"], counts(worker)["errored"]) == (200, 1_025)


def test_the_largest_plan_and_its_first_batches_fit_into_commits(store: LocalStore) -> None:
    segments = tuple(Segment(start=n * 1_000_000, requests=1_000_000, bytes=2_000_000_000) for n in range(4_000))
    planned = RunPlanned(
        experiment=ExperimentName("e" * 40),
        experiment_digest=NOTHING,
        run_digest=NOTHING,
        requests=4_000_000_000,
        attempts=3,
        segments=segments,
    )
    log = RunLog(store, RunId("e" * 200), clock=FixedClock(datetime(2026, 11, 16, tzinfo=UTC)), writer="w" * 200)
    written = list(in_commits([planned, *first_batches(enumerate(segments))], most=1_000))
    for together in written:
        log.append(*together)
    assert len(log.state.batches) == len(log.state.segments) == 4_000
    assert all(isinstance(event, BatchPlanned) for together in written for event in together[1:])


@pytest.fixture
def many(experiment_file: ExperimentFile) -> Path:
    """An experiment of nearly as many segments as there may be."""
    return experiment_file(samples=89, more="batch: {max_requests: 1}")


def test_a_run_of_thousands_of_segments_is_opened_whole(simulate: Simulate, worker_for: WorkerFor, many: Path) -> None:
    worker = worker_for(simulate())
    planned = plan(str(many), worker=worker)
    (run,) = open_runs(worker, planned, experiment_digest=freeze(worker, planned))
    assert len(run.refresh().batches) == 3_916


class _Interrupted(LocalStore):
    """A store whose user has had enough when the first rows are to be written."""

    def put_new(self, key: str, body: bytes) -> None:
        if key.startswith("comparisons/"):
            raise KeyboardInterrupt
        super().put_new(key, body)


class _Watched(LocalStore):
    """A store that notes which rows are read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: list[str] = []

    def open(self, key: str) -> BinaryIO:
        self.read += [key] if key.startswith("comparisons/") else []
        return super().open(key)


def test_rows_that_were_just_written_are_not_read_back(
    simulate: Simulate, tmp_path: Path, experiment_file: ExperimentFile
) -> None:
    store = _Watched(tmp_path / "store")
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulate()))) as worker:
        planned = plan(str(experiment_file(more="batch: {max_requests: 1}")))
        (run,) = open_runs(worker, planned, experiment_digest=freeze(worker, planned))
        assert cancel(run) == 15
        assert store.read == []
        assert (counts(worker)["cancelled"], problems(worker)) == (15, [])


def test_a_run_of_thousands_of_segments_that_nobody_asked_for_can_be_cancelled(
    simulate: Simulate, tmp_path: Path, many: Path
) -> None:
    settings = Settings(environment(simulate(latency_seconds=600)))
    with Worker(_Interrupted(tmp_path / "store"), clock=SystemClock(), settings=settings) as worker:
        planned = plan(str(many), worker=worker)
        (run,) = open_runs(worker, planned, experiment_digest=freeze(worker, planned), asked="segments")
        ask_for(run, [0, 1])
        with pytest.raises(KeyboardInterrupt):
            cancel(run)
        assert len(run.refresh().batches) == 3_916
        assert {batch.phase for batch in run.state.batches.values()} == {"cancelled"}
