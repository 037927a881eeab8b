"""The audit: clean on a clean store, and exact about what was damaged."""

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.domain import Counts
from pipeline.errors import CorruptObjectError
from pipeline.events import AnyEvent, AttemptOpened, BatchPlanned, RemoteCleaned, RowsPublished
from pipeline.ids import BatchId, ExperimentName
from pipeline.operations.workers.worker import Worker
from tests.conftest import ExperimentFile, Simulate, WorkerFor
from tests.flows.studies import finished, problems

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SKIPPED = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"  # a frame that zstd passes over


@pytest.fixture
def study(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> Callable[[], Worker]:
    """A finished study; each call gives a worker that has read nothing yet."""
    simulator = simulate()
    finished(worker_for(simulator), experiment_file(more="directions: [forward, reverse]\nbatch: {max_requests: 8}"))
    return lambda: worker_for(simulator)


def _objects(tmp_path: Path, folder: str) -> list[Path]:
    return sorted(path for path in (tmp_path / "store" / folder).rglob("*") if path.is_file())


# Named after their content, which a flip in Parquet's own footer may leave as it is.
_PLACES = {"samples": (0, 40)}


@pytest.mark.parametrize("folder", ["log", "experiments", "samples", "pairs", "requests", "outputs", "comparisons"])
def test_one_flipped_byte_anywhere_is_found_and_its_object_named(
    study: Callable[[], Worker], tmp_path: Path, folder: str
) -> None:
    assert problems(study()) == []
    for path in _objects(tmp_path, folder)[:4]:
        body = path.read_bytes()
        for at in _PLACES.get(folder, (0, len(body) // 2, len(body) - 1)):
            path.write_bytes(body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :])
            found = problems(study())
            name = path.parent.name if folder in {"log", "samples", "experiments"} else path.name
            assert any(name in problem for problem in found), (path, at, found)
        path.write_bytes(body)
    assert problems(study()) == []


@pytest.mark.parametrize("folder", ["log", "experiments", "samples", "pairs", "requests", "outputs", "comparisons"])
@pytest.mark.parametrize("behind", [b"x", zstd.compress(b"{}\n"), zstd.compress(b""), SKIPPED])
def test_what_was_written_behind_an_object_is_found_and_the_object_named(
    study: Callable[[], Worker], tmp_path: Path, folder: str, behind: bytes
) -> None:
    path = _objects(tmp_path, folder)[0]
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + behind)
    name = path.parent.name if folder in {"log", "samples", "experiments"} else path.name
    assert any(name in problem for problem in problems(study()))


@pytest.mark.parametrize("folder", ["log", "samples", "pairs", "requests", "outputs", "comparisons"])
def test_one_deleted_object_is_named(study: Callable[[], Worker], tmp_path: Path, folder: str) -> None:
    path = _objects(tmp_path, folder)[0]
    path.unlink()
    assert any(path.name in problem for problem in problems(study()))


@pytest.mark.parametrize(
    "name",
    [
        "log/{run}/notes.txt",
        "log/{run}/00000000000000000001.json~",
        "comparisons/experiment=essays/run={run}/copy.parquet",
        "requests/{run}/s099-1.jsonl.zst",
        "samples/essays/old.csv",
        "outputs/stranger/x",
    ],
)
def test_a_stray_file_is_named(study: Callable[[], Worker], tmp_path: Path, name: str) -> None:
    run = "essays--default--openai--gpt-6-luna--default--forward"
    path = tmp_path / "store" / name.format(run=run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("stray")
    found = problems(study())
    assert any(path.name in problem for problem in found), found


def test_what_a_dead_worker_left_is_no_damage(study: Callable[[], Worker], tmp_path: Path) -> None:
    place = tmp_path / "store" / "log" / "essays--default--openai--gpt-6-luna--default--forward"
    (place / ".pairlog-abc.tmp").write_text("half a commit")
    assert problems(study()) == []


FIRST, NEW = BatchId("s000-1"), BatchId("s009-1")
PLANNED = BatchPlanned(batch_id=NEW, segment=0, send=1, requests=3)


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        ([AttemptOpened(batch_id=FIRST, attempt=2, batch_key="pl-2")], "opens attempt 2 of s000-1 out of turn"),
        ([AttemptOpened(batch_id=FIRST, attempt=1, batch_key="pl-2")], "opens attempt 1 of s000-1 out of turn"),
        ([AttemptOpened(batch_id=NEW, attempt=1, batch_key="pl-2")], "opens attempt 1 of s009-1 out of turn"),
        ([PLANNED, RemoteCleaned(batch_id=NEW)], "removes the input of s009-1 at the provider before"),
        ([RowsPublished(batch_id=FIRST, key=None, digest=None, counts=Counts())], "publishes s000-1 a second time"),
        (
            [PLANNED, RowsPublished(batch_id=NEW, key=None, digest=None, counts=Counts(planned=2, ok=2))],
            "s009-1 has 3 requests, but 2 ended and 0 to be sent again",
        ),
    ],
)
def test_a_log_that_breaks_the_protocol_is_named(
    study: Callable[[], Worker], forged: list[AnyEvent], said: str
) -> None:
    run = study().run("essays--default--openai--gpt-6-luna--default--forward")
    run.refresh()
    for event in forged:
        run.record(event)
    assert any(said in problem for problem in problems(study()))


def test_rows_of_another_batch_are_named(study: Callable[[], Worker], tmp_path: Path) -> None:
    one, other = _objects(tmp_path, "comparisons")[:2]
    one.write_bytes(other.read_bytes())
    found = problems(study())
    assert any("rows of requests that are not in" in problem and one.name in problem for problem in found), found


def test_a_flipped_byte_anywhere_in_the_pairs_is_found(study: Callable[[], Worker], tmp_path: Path) -> None:
    (path,) = _objects(tmp_path, "pairs")
    body = path.read_bytes()
    for at in range(0, len(body), len(body) // 40):
        path.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        assert any(path.name in problem for problem in problems(study())), at


@pytest.mark.parametrize(
    "ids", [pa.array([1, 2]), pa.nulls(2), pa.array([True, False])], ids=["numbers", "nulls", "bools"]
)
def test_pairs_of_ids_that_are_no_text_are_a_damaged_object(
    study: Callable[[], Worker], tmp_path: Path, ids: pa.Array
) -> None:
    (path,) = _objects(tmp_path, "pairs")
    path.chmod(0o600)
    pq.write_table(pa.table({"first_id": ids, "second_id": ids}), path)
    assert any(f"{path.name} holds ids that are not text" in problem for problem in problems(study()))
    (run, *_) = study().runs(ExperimentName("essays"))
    with pytest.raises(CorruptObjectError, match="restore it from a backup"):
        _ = run.material


def _planted(tmp_path: Path, key: str) -> None:
    path = tmp_path / "store" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"{}")


@pytest.mark.parametrize(
    "key",
    [
        "outputs/{run}/s000-1/zzz",
        "outputs/{run}/s000-1/1.output-0123abcd.jsonl.zst",
        "leases/{run}/junk",
        "leases/{run}/99999999999999999999.json",
        "samples/essays/" + 64 * "0" + ".parquet",
        "pairs/experiment=essays/" + 64 * "0" + ".parquet",
    ],
)
def test_junk_beside_what_belongs_there_is_named(study: Callable[[], Worker], tmp_path: Path, key: str) -> None:
    run_id = _objects(tmp_path, "log")[0].parent.name
    named = key.format(run=run_id)
    _planted(tmp_path, named)
    assert [problem for problem in problems(study()) if problem.startswith(named)]


def test_damaged_live_answers_are_named(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    simulator = simulate()
    judges = "[{provider: openai, model: gpt-6-luna, mode: live, requests_per_second: 500}]"
    finished(worker_for(simulator), experiment_file(judges=judges))
    assert problems(worker_for(simulator)) == []
    path = next(path for path in _objects(tmp_path, "outputs") if ".live-" in path.name)
    body = path.read_bytes()
    for at in range(0, len(body), len(body) // 10):
        path.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        assert any(path.name in problem for problem in problems(worker_for(simulator))), at
