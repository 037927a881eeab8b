"""What a study costs on S3, in requests and seconds, with its log as the engine really writes it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from pipeline.clock import SystemClock
from pipeline.domain import Counts
from pipeline.events import (
    AnyEvent,
    AttemptOpened,
    Ended,
    FileUploaded,
    InputStored,
    OutputsStored,
    RawPart,
    RemoteCleaned,
    RowsPublished,
    Submitted,
)
from pipeline.ids import BatchId, Digest, RunId
from pipeline.operations.studies.opening import freeze, open_runs
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.storage import keys
from pipeline.storage.log import RunLog, current_state, read_commits, state_as_of
from pipeline.storage.probe import StoreMark
from pipeline.storage.s3 import S3Store
from tests.conftest import ExperimentFile, Simulate, environment
from tests.flows.studies import check_against_ledger, finished
from tests.storage.proxy import Proxy
from tests.storage.servers import S3Server

DIGEST = Digest("0" * 64)


@pytest.fixture
def studied(s3_store: S3Store, simulate: Simulate, experiment_file: ExperimentFile) -> RunId:
    """A run of 200 batches that the engine carried from its plan to its rows."""
    s3_store.put_new(keys.STORE, msgspec.json.encode(StoreMark()))
    simulator = simulate()
    with Worker(s3_store, clock=SystemClock(), settings=Settings(environment(simulator))) as worker:
        finished(
            worker, experiment_file(samples=30, more="pairs: {design: random, count: 400}\nbatch: {max_requests: 2}")
        )
        (run,) = worker.runs(worker.experiment_names()[0])
        check_against_ledger(worker, simulator.ledger)
    return run.run_id


@pytest.mark.timeout(300)
def test_the_state_of_two_hundred_batches_costs_sixty_requests_or_five_with_a_checkpoint(
    s3_store: S3Store, s3_proxy: Proxy, studied: RunId
) -> None:
    counted = S3Store(s3_store.url, client=s3_proxy.s3_client)
    whole = state_as_of(s3_store, studied)
    assert len(whole.batches) == 200
    assert sum(len(commit.events) for commit, _ in read_commits(s3_store, studied)) >= 1600

    RunLog(s3_store, studied, clock=SystemClock(), writer="w").refresh()
    s3_proxy.forget()
    assert current_state(counted, studied) == whole
    assert sum(s3_proxy.counts().values()) <= 5

    for key in s3_store.list_from(keys.checkpoints(studied)):
        s3_store._client.send("delete_object", Key=s3_store._place.name(key))
    s3_proxy.forget()
    assert current_state(counted, studied) == whole
    assert s3_proxy.counts()["LIST"] <= 2
    assert s3_proxy.counts()["GET"] <= 60
    assert set(s3_proxy.counts()) == {"LIST", "GET"}


def _commits(batches: list[BatchId]) -> Iterator[list[AnyEvent]]:
    """What the engine writes about batches that it sends, fetches and publishes as one group."""
    part = RawPart(name="output", key="outputs/k", digest=DIGEST, bytes=3)
    yield [InputStored(batch_id=each, key="requests/k", digest=DIGEST, bytes=3, requests=3) for each in batches]
    yield [AttemptOpened(batch_id=each, attempt=1, batch_key=f"pl-{each}") for each in batches]
    yield [FileUploaded(batch_id=each, attempt=1, file_id=f"file-{each}") for each in batches]
    yield [Submitted(batch_id=each, attempt=1, remote_id=f"batch_{each}") for each in batches]
    yield [Ended(batch_id=each, end="completed", status="completed", parts={"output": "f"}) for each in batches]
    yield [OutputsStored(batch_id=each, attempt=1, parts=(part,)) for each in batches]
    rows = Counts(planned=1, ok=1)
    yield [RowsPublished(batch_id=each, key="c", digest=DIGEST, counts=rows) for each in batches]
    yield [RemoteCleaned(batch_id=each) for each in batches]


@pytest.fixture
def five_hundred_runs(s3_store: S3Store, experiment_file: ExperimentFile) -> S3Store:
    """Twenty-five experiments of twenty runs of twenty batches."""
    s3_store.put_new(keys.STORE, msgspec.json.encode(StoreMark()))
    models = ", ".join(f"m{number}" for number in range(20))
    more = "pairs: {design: random, count: 20}\nbatch: {segments: 20}"

    judges = f"[{{provider: openai, model: [{models}]}}]"
    files = [experiment_file(name=f"e{number:02d}", samples=8, judges=judges, more=more) for number in range(25)]

    def write(file: Path) -> None:
        planned = plan(str(file))
        with Worker(s3_store, clock=SystemClock(), settings=Settings({})) as worker:
            for run in open_runs(worker, planned, experiment_digest=freeze(worker, planned)):
                for events in _commits(list(run.refresh().batches)):
                    run.record(*events)
                run.refresh()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, files))
    return s3_store


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_status_of_five_hundred_runs_of_twenty_batches_takes_less_than_ten_seconds(
    five_hundred_runs: S3Store, s3_server: S3Server
) -> None:
    env = {"PATH": os.environ["PATH"], "PAIRLOG_STORE": five_hundred_runs.url, **s3_server.environment()}
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", "status", "--json"], env=env, capture_output=True, check=True
    )
    took = time.monotonic() - started
    told = json.loads(done.stdout)
    runs = [run for experiment in told["experiments"] for run in experiment["runs"]]
    assert len(runs) == 500
    assert {len(run["batches"]) for run in runs} == {20}
    assert {run["counts"]["ok"] for run in runs} == {20}
    assert took < 10, f"{took:.1f} s"
