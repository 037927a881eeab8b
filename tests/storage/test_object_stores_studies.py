"""Whole studies on object stores: with no more rights than needed, read by the usual readers, moved elsewhere."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import duckdb
import msgspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pytest
from s3fs import S3FileSystem

from pipeline.cli import run as pairlog
from pipeline.clock import SystemClock
from pipeline.errors import ConfigError, StoreError
from pipeline.ids import ExperimentName
from pipeline.notebook import open_study
from pipeline.operations.moving import Copied, copy_store, usage
from pipeline.operations.plans import plan
from pipeline.operations.resuming import resume
from pipeline.operations.studies import freeze, open_runs
from pipeline.operations.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from pipeline.storage import Store, keys
from pipeline.storage.gcs import GcsStore
from pipeline.storage.local import LocalStore
from pipeline.storage.memory import MemoryStore
from pipeline.storage.probe import StoreMark
from pipeline.storage.s3 import S3Store
from pipeline.tasks import tasks
from tests.conftest import environment
from tests.flows.studies import check_against_ledger, finished, problems, rows, submitted
from tests.storage.proxy import Call, Proxy
from tests.storage.servers import READER, WORKER, S3Server

POLICIES = Path(__file__).parents[2] / "infra" / "policies"
Simulate = Callable[..., Simulator]
ExperimentFile = Callable[..., Path]
WorkerOn = Callable[[Store, Simulator], Worker]


@pytest.fixture
def worker_on() -> Iterator[WorkerOn]:
    """Build workers on any store; they close with the test."""
    with ExitStack() as stack:
        yield lambda store, simulator: stack.enter_context(
            Worker(store, clock=SystemClock(), settings=Settings(environment(simulator)))
        )


def proven(store: Store) -> Store:
    """Mark the store as proven; that SeaweedFS is, is tested elsewhere and takes it seconds."""
    store.put_new(keys.STORE, msgspec.json.encode(StoreMark()))
    return store


def a_policy(name: str, store: S3Store) -> list[dict[str, object]]:
    bucket, _, prefix = store.url.removeprefix("s3://").partition("/")
    text = (POLICIES / name).read_text().replace("BUCKET", bucket).replace("PREFIX", prefix)
    statements: list[dict[str, object]] = json.loads(text)["Statement"]
    return statements


def _all_of(value: object) -> list[str]:
    return [value] if isinstance(value, str) else list(value)  # type: ignore[call-overload] # JSON: text or a list


def _action(call: Call) -> str:
    """Return the permission that AWS asks for this request."""
    match call.method:
        case "GET" if call.kind == "LIST":
            return "s3:ListBucket"
        case "GET" if "uploads" in call.query:
            return "s3:ListBucketMultipartUploads"
        case "GET" | "HEAD":
            return "s3:GetObject"
        case "DELETE":
            return "s3:AbortMultipartUpload" if "uploadId" in call.query else "s3:DeleteObject"
        case _:
            return "s3:PutObject"


def _denied_by(statements: list[dict[str, object]]) -> Callable[[Call], bool]:
    """Return whether the bucket's policy forbids a call, as AWS would decide."""

    def denied(call: Call) -> bool:
        resource = f"arn:aws:s3:::{call.path.removeprefix('/')}"
        return any(
            _action(call) in _all_of(statement["Action"])
            and any(resource.startswith(each.removesuffix("*")) for each in _all_of(statement["Resource"]))
            and ("Condition" not in statement or "if-none-match" not in call.headers)
            for statement in statements
        )

    return denied


def test_a_study_needs_no_right_to_delete_or_overwrite_the_log(
    s3_proxy: Proxy, s3_store: S3Store, simulate: Simulate, worker_on: WorkerOn, experiment_file: ExperimentFile
) -> None:
    store = proven(S3Store(s3_store.url, client=s3_proxy.s3_client))
    denied = _denied_by(a_policy("s3-bucket.json", s3_store))
    s3_proxy.spoil(denied, (403, b"<Error><Code>AccessDenied</Code></Error>"), 1000)
    simulator = simulate()
    worker = worker_on(store, simulator)
    finished(worker, experiment_file(more="batch: {max_requests: 5}"))
    assert not any(map(denied, s3_proxy.calls))
    allowed = {action for each in a_policy("s3-worker-role.json", s3_store) for action in _all_of(each["Action"])}
    assert {_action(call) for call in s3_proxy.calls} <= allowed
    check_against_ledger(worker, simulator.ledger)

    log = s3_store.list_from("log")
    for forbidden in ("delete_object", "put_object"):
        with pytest.raises(PermissionError):
            s3_proxy.s3_client.send(forbidden, Key=s3_store._place.name(log[0]))  # type: ignore[union-attr] # it is set


def test_a_server_that_denies_deletion_lets_a_study_pass(
    s3_environment: S3Server,
    s3_store: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    simulate: Simulate,
    worker_on: WorkerOn,
    experiment_file: ExperimentFile,
) -> None:
    statements = [each for each in a_policy("s3-bucket.json", s3_store) if "Condition" not in each]
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    s3_store._client.send("put_bucket_policy", Policy=policy)
    try:
        for name, value in s3_environment.environment(WORKER).items():
            monkeypatch.setenv(name, value)
        store, simulator = S3Store(s3_store.url), simulate()
        worker = worker_on(proven(store), simulator)
        finished(worker, experiment_file(more="batch: {max_requests: 5}"))
        check_against_ledger(worker, simulator.ledger)
        commit = s3_store._place.name(s3_store.list_from("log")[0])
        with pytest.raises(PermissionError):
            store._client.send("delete_object", Key=commit)
        with pytest.raises(PermissionError):
            s3_store._client.send("delete_object", Key=commit)
    finally:
        s3_store._client.send("delete_bucket_policy")


def test_a_log_that_cannot_be_written_sends_nothing_and_names_the_object(
    s3_proxy: Proxy, s3_store: S3Store, simulate: Simulate, worker_on: WorkerOn, experiment_file: ExperimentFile
) -> None:
    store = proven(S3Store(s3_store.url, client=s3_proxy.s3_client))
    simulator, file = simulate(), experiment_file(more="batch: {max_requests: 5}")
    planned, opener = plan(str(file)), worker_on(store, simulator)
    open_runs(opener, planned, experiment_digest=freeze(opener, planned))
    s3_proxy.spoil(
        lambda call: call.method == "PUT" and "/log/" in call.path,
        (403, b"<Error><Code>AccessDenied</Code></Error>"),
        1000,
    )
    with pytest.raises(StoreError, match=r"cannot create log/.*not permitted"):
        finished(worker_on(store, simulator), file)
    assert (simulator.ledger.creates, simulator.ledger.files) == ([], [])
    s3_proxy.forget()
    worker = worker_on(store, simulator)
    assert not finished(worker, file).is_open
    check_against_ledger(worker, simulator.ledger)


def test_who_may_only_read_sees_everything_and_sends_nothing(
    s3_environment: S3Server,
    s3_store: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    simulate: Simulate,
    worker_on: WorkerOn,
    experiment_file: ExperimentFile,
) -> None:
    simulator = simulate()
    finished(worker_on(proven(s3_store), simulator), experiment_file())
    for name, value in s3_environment.environment(READER).items():
        monkeypatch.setenv(name, value)
    reader = worker_on(S3Store(s3_store.url), simulator)
    assert rows(reader).num_rows == 15
    assert problems(reader) == []
    assert asyncio.run(_in_a_notebook(s3_store.url)) == ("15 requests: 15 ok", rows(reader))
    made = len(simulator.ledger.creates)
    with pytest.raises(StoreError, match="not permitted"):
        finished(reader, experiment_file(name="more"))
    assert len(simulator.ledger.creates) == made


@pytest.mark.parametrize("more", ["", "task: generation"])
def test_who_may_only_read_can_have_a_report(
    more: str,
    s3_environment: S3Server,
    s3_store: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    simulate: Simulate,
    worker_on: WorkerOn,
    experiment_file: ExperimentFile,
    tmp_path: Path,
) -> None:
    finished(worker_on(proven(s3_store), simulate()), experiment_file(more=more))
    for name, value in s3_environment.environment(READER).items():
        monkeypatch.setenv(name, value)
    before, page = _keys(s3_store), tmp_path / "page.html"
    code = pairlog(["report", "essays", "--store", s3_store.url, "--out", str(page)])
    told = capsys.readouterr().err
    assert code == 0, told
    assert page.read_text().startswith("<!doctype html>")
    (refused,) = (line for line in told.splitlines() if line.startswith("not kept in the store: cannot create r"))
    assert "not permitted" in refused
    assert _keys(s3_store) == before


async def _in_a_notebook(url: str) -> tuple[str, pa.Table]:
    """Read the study while a loop is running, as it always is in a notebook."""
    study = open_study("essays", store=url)
    return repr(study).splitlines()[1], study.rows()


def test_the_usual_readers_read_comparisons_from_s3(
    s3_environment: S3Server,
    s3_store: S3Store,
    simulate: Simulate,
    worker_on: WorkerOn,
    experiment_file: ExperimentFile,
) -> None:
    simulator = simulate()
    worker = worker_on(proven(s3_store), simulator)
    finished(worker, experiment_file(more="directions: [forward, reverse]\nbatch: {max_requests: 4}"))
    expected = sorted(rows(worker).column("request_id").to_pylist())
    folder = f"{s3_store.url.removeprefix('s3://')}/comparisons"
    files = S3FileSystem(use_listings_cache=False, skip_instance_cache=True)
    handed = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(files))

    folders = ds.HivePartitioning.discover(infer_dictionary=True)
    dataset = ds.dataset(folder, filesystem=handed, partitioning=folders)
    assert sorted(dataset.to_table(columns=["request_id"]).column(0).to_pylist()) == expected

    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        table = f"read_parquet('s3://{folder}/**/*.parquet', hive_partitioning=true)"
        found = connection.sql(f"select request_id from {table} order by 1").fetchall()
        assert [row[0] for row in found] == expected
        connection.register("comparisons", dataset)
        found = connection.sql("select request_id from comparisons order by 1").fetchall()
        assert [row[0] for row in found] == expected

    frame = pd.read_parquet(folder, filesystem=files)
    assert sorted(frame["request_id"]) == expected
    assert set(frame["direction"]) == {"forward", "reverse"}

    lazy = pl.scan_pyarrow_dataset(dataset).filter(pl.col("direction") == "reverse").select("request_id")
    assert len(lazy.collect()) == len(expected) // 2
    own = pl.scan_parquet(f"s3://{folder}/**/*.parquet", storage_options={"aws_allow_http": "true"})
    assert sorted(own.select("request_id").collect()["request_id"]) == expected


@pytest.fixture
def study(
    tmp_path: Path, simulate: Simulate, worker_on: WorkerOn, experiment_file: ExperimentFile
) -> tuple[LocalStore, Simulator]:
    """A finished study on disk, and one whose batches are still open."""
    store, simulator = LocalStore(tmp_path / "store"), simulate()
    worker = worker_on(store, simulator)
    finished(worker, experiment_file(more="batch: {max_requests: 5}"))
    submitted(worker, experiment_file(name="open"))
    return store, simulator


def _keys(store: Store) -> set[str]:
    tables = [task.TABLE for task in tasks().values()]
    return {key for folder in (*keys.DATA, *tables, keys.LOG, keys.EXPERIMENTS) for key in store.list_from(folder)}


@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_a_copied_store_is_the_same_and_goes_on(
    kind: str, study: tuple[LocalStore, Simulator], request: pytest.FixtureRequest, worker_on: WorkerOn, tmp_path: Path
) -> None:
    source, simulator = study
    target: Store = proven(request.getfixturevalue(f"{kind}_store"))
    copied = copy_store(source, target, clock=SystemClock())
    files = {
        path.relative_to(tmp_path / "store").as_posix() for path in (tmp_path / "store").rglob("*") if path.is_file()
    }
    assert _keys(target) == {key for key in files if not key.startswith(("probe/", "checkpoints/", "pairlog.json"))}
    assert copied.objects == len(_keys(target))
    again = copy_store(source, target, clock=SystemClock())
    assert again == Copied(present=copied.objects)

    worker = worker_on(target, simulator)
    assert not resume(worker, worker.runs(ExperimentName("open")), interval=0.02).is_open
    assert simulator.ledger.paid_twice() == []
    assert problems(worker) == []


class _Breaks(MemoryStore):
    """Takes some objects, then no more."""

    left = 9

    def put_new(self, key: str, body: bytes) -> None:
        if key != keys.STORE and not key.startswith("probe/"):
            self.left -= 1
            if self.left < 0:
                raise StoreError("the disk is full")
        super().put_new(key, body)


def test_a_copy_that_broke_off_shows_no_experiment_and_goes_on_when_repeated(
    study: tuple[LocalStore, Simulator],
) -> None:
    source, _ = study
    target = _Breaks()
    with pytest.raises(StoreError, match="the disk is full"):
        copy_store(source, target, clock=SystemClock())
    assert target.list_from(keys.EXPERIMENTS) == []
    begun = len(_keys(target))
    target.left = 10_000
    copied = copy_store(source, target, clock=SystemClock())
    assert (copied.present, _keys(target)) == (begun, _keys(source))
    assert all(target.get(key) == source.get(key) for key in _keys(source))


def test_a_copy_into_a_store_with_other_bytes_names_the_object(study: tuple[LocalStore, Simulator]) -> None:
    source, _ = study
    target = MemoryStore()
    key = source.list_from("log")[0]
    target.put_new(key, b"another history")
    with pytest.raises(StoreError, match=f"{key} in memory://memory differs from the object in"):
        copy_store(source, target, clock=SystemClock())
    with pytest.raises(ConfigError, match="name two stores"):
        copy_store(source, LocalStore(Path(source.url.removeprefix("file://"))), clock=SystemClock())


@pytest.mark.parametrize("kind", ["memory", "s3", "gcs"])
def test_usage_counts_objects_and_bytes_by_folder(kind: str, request: pytest.FixtureRequest) -> None:
    store: Store = MemoryStore() if kind == "memory" else request.getfixturevalue(f"{kind}_store")
    for key, body in (("log/r/a.json", b"12"), ("log/q/b.json", b"345"), ("samples/e/d.parquet", b"")):
        store.put_new(key, body)
    assert [(each.folder, each.objects, each.bytes) for each in usage(store)] == [("log", 2, 5), ("samples", 1, 0)]


def test_the_commands_copy_a_store_and_clean_it(
    study: tuple[LocalStore, Simulator],
    s3_environment: S3Server,
    s3_store: S3Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, _ = study
    assert pairlog(["store", "copy", source.url, proven(s3_store).url]) == 0
    assert f"copied {len(_keys(source))} objects" in capsys.readouterr().err
    s3_store._client.send("create_multipart_upload", Key=s3_store._place.name("outputs/r/b/left.zst"))
    assert pairlog(["store", "usage", "--store", s3_store.url, "--hours", "0"]) == 0
    assert "1 upload broke off" in capsys.readouterr().err
    assert pairlog(["store", "usage", "--store", s3_store.url, "--hours", "0", "--clean", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["abandoned_uploads"], told["removed_uploads"]) == (1, 1)
    assert {each["folder"] for each in told["folders"]} >= {"log", "experiments", "comparisons"}
    assert s3_store.uploads() == []


def _a_machine(home: Path, server: S3Server, simulator: Simulator, store: Store) -> dict[str, str]:
    """The environment of a process on a machine of its own."""
    home.mkdir()
    pace = {"PAIRLOG_QUIET_SECONDS": "0.5", "PAIRLOG_LEASE_SECONDS": "1"}
    named = {"HOME": str(home), "PAIRLOG_STORE": store.url, "PATH": os.environ["PATH"]}
    return {**named, **pace, **server.environment(), **environment(simulator)}


def test_one_machine_submits_and_dies_and_another_finishes(
    s3_server: S3Server,
    s3_store: S3Store,
    tmp_path: Path,
    simulate: Simulate,
    worker_on: WorkerOn,
    experiment_file: ExperimentFile,
) -> None:
    file, simulator, store = experiment_file(more="batch: {max_requests: 5}"), simulate(), proven(s3_store)
    one = _a_machine(tmp_path / "one", s3_server, simulator, store)
    with subprocess.Popen([sys.executable, "-m", "pipeline.cli", "submit", str(file)], env=one, stderr=PIPE) as process:
        while not simulator.ledger.creates and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    file.unlink()
    other = _a_machine(tmp_path / "other", s3_server, simulator, store)
    resumed = [sys.executable, "-m", "pipeline.cli", "resume", "--interval", "0.1"]
    subprocess.run(resumed, env=other, check=True, stderr=PIPE, timeout=60)
    worker = worker_on(store, simulator)
    assert rows(worker).num_rows == 15
    check_against_ledger(worker, simulator.ledger)


def test_a_study_runs_on_gcs(
    gcs_store: GcsStore, simulate: Simulate, worker_on: WorkerOn, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    worker = worker_on(gcs_store, simulator)
    finished(worker, experiment_file(more="batch: {max_requests: 5}"))
    check_against_ledger(worker, simulator.ledger)
