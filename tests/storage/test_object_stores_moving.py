"""Stores copied elsewhere, measured and cleaned."""

import json
from pathlib import Path

import pytest

from pipeline.cli import run as pairlog
from pipeline.clock import SystemClock
from pipeline.errors import ConfigError, StoreError
from pipeline.ids import ExperimentName
from pipeline.operations.cancelling import cancel
from pipeline.operations.moving import Copied, copy_store, usage
from pipeline.operations.resuming import resume
from pipeline.simulator import Simulator
from pipeline.storage import Store, keys
from pipeline.storage.local import LocalStore
from pipeline.storage.memory import MemoryStore
from pipeline.storage.origin import origin_of
from pipeline.storage.s3 import S3Store
from tests.conftest import ExperimentFile, Simulate
from tests.flows.studies import finished, problems, submitted
from tests.storage.servers import S3Server
from tests.storage.studying import WorkerOn, keys_of, proven


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
    own = ("probe/", "checkpoints/", keys.STORE, keys.ORIGIN)
    assert keys_of(target) == {key for key in files if not key.startswith(own)}
    assert copied.objects == len(keys_of(target))
    again = copy_store(source, target, clock=SystemClock())
    assert again == Copied(present=copied.objects)

    worker = worker_on(target, simulator)
    assert not resume(worker, worker.runs(ExperimentName("open")), interval=0.02).is_open
    assert simulator.ledger.paid_twice() == []
    assert problems(worker) == []


def test_a_copy_has_an_id_of_its_own_and_leaves_the_runs_it_got_alone(
    study: tuple[LocalStore, Simulator], worker_on: WorkerOn, experiment_file: ExperimentFile
) -> None:
    source, simulator = study
    target = MemoryStore()
    copy_store(source, target, clock=SystemClock())
    workers = [worker_on(store, simulator) for store in (source, target)]
    grown = experiment_file(name="open", more="repeats: 2")
    origins = [[run.config.origin for run in submitted(worker, grown)] for worker in workers]
    own = [origin_of(store, SystemClock()) for store in (source, target)]
    assert own[0] != own[1]
    assert origins == [[own[0], own[0]], [own[0], own[1]]]


def test_a_copy_tells_how_far_it_is_behind_a_source_that_somebody_works_on(
    study: tuple[LocalStore, Simulator], worker_on: WorkerOn
) -> None:
    source, simulator = study
    worker = worker_on(source, simulator)
    (run,) = worker.runs(ExperimentName("open"))
    before, target = run.refresh().commits, MemoryStore()

    def somebody_works(_done: int, _all: int) -> None:
        cancel(run)

    copied = copy_store(source, target, clock=SystemClock(), tell=somebody_works)
    assert copied.behind == run.refresh().commits - before > 0
    assert copy_store(source, target, clock=SystemClock()).behind == 0
    assert keys_of(target) == keys_of(source)


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
    begun = len(keys_of(target))
    target.left = 10_000
    copied = copy_store(source, target, clock=SystemClock())
    assert (copied.present, keys_of(target)) == (begun, keys_of(source))
    assert all(target.get(key) == source.get(key) for key in keys_of(source))


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
    assert f"copied {len(keys_of(source))} objects" in capsys.readouterr().err
    s3_store._client.send("create_multipart_upload", Key=s3_store._place.name("outputs/r/b/left.zst"))
    assert pairlog(["store", "usage", "--store", s3_store.url, "--hours", "0"]) == 0
    assert "1 upload broke off" in capsys.readouterr().err
    assert pairlog(["store", "usage", "--store", s3_store.url, "--hours", "0", "--clean", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["abandoned_uploads"], told["removed_uploads"]) == (1, 1)
    assert {each["folder"] for each in told["folders"]} >= {"log", "experiments", "comparisons"}
    assert s3_store.uploads() == []
