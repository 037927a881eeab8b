"""The log: contiguous, chained, and explicit about every way it can be damaged."""

import hashlib
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.clock import FixedClock
from pipeline.errors import ConflictError, CorruptObjectError, StoreError
from pipeline.events import CancelAsked, StatusChanged, encode_commit
from pipeline.ids import BatchId
from pipeline.storage import keys
from pipeline.storage.local import LocalStore
from pipeline.storage.log import read_commits, state_as_of
from tests.storage.logs import RUN, a_batch, a_log, with_four_batches


@pytest.fixture
def written(store: LocalStore) -> LocalStore:
    return with_four_batches(store)


def test_what_one_worker_appends_another_folds(written: LocalStore) -> None:
    assert list(a_log(written).refresh().batches) == ["s000-1", "s001-1", "s002-1", "s003-1"]


def test_append_refuses_a_taken_position(written: LocalStore) -> None:
    one, other = a_log(written, writer="one"), a_log(written, writer="other")
    one.refresh()
    other.refresh()
    one.append(a_batch(4))
    with pytest.raises(ConflictError):
        other.append(a_batch(5))
    assert "s004-1" in other.refresh().batches


class _LostAcknowledgement(LocalStore):
    """Writes, then says that somebody else had: what a retried conditional put looks like."""

    def put_new(self, key: str, body: bytes) -> None:
        super().put_new(key, body)
        raise ConflictError(f"{key} exists already")


def test_a_lost_acknowledgement_is_recognised_as_success(tmp_path: Path) -> None:
    log = a_log(_LostAcknowledgement(tmp_path))
    log.append(a_batch(0))
    log.append(a_batch(1))
    assert [commit.seq for commit, _ in read_commits(LocalStore(tmp_path), RUN)] == [0, 1]


def test_racing_writers_lose_nothing_and_fork_nothing(store: LocalStore) -> None:
    def write(writer: int) -> None:
        log = a_log(store, writer=str(writer))
        for number in range(15):
            event = CancelAsked(batch_ids=(BatchId(f"{writer}-{number}"),))
            while True:
                try:
                    log.refresh()
                    log.append(event)
                    break
                except ConflictError:
                    continue

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    commits = [commit for commit, _ in read_commits(store, RUN)]
    assert [commit.seq for commit in commits] == list(range(90))
    asked = [event for commit in commits for event in commit.events if isinstance(event, CancelAsked)]
    assert len(asked) == 90
    assert {event.batch_ids[0] for event in asked} == {
        f"{writer}-{number}" for writer in range(6) for number in range(15)
    }


def _file(store: LocalStore, seq: int) -> Path:
    return Path(store.url.removeprefix("file://")) / keys.commit(RUN, seq)


@pytest.mark.parametrize("seq", [0, 1, 3])
def test_any_flipped_byte_is_found_and_its_object_named(written: LocalStore, seq: int) -> None:
    path = _file(written, seq)
    body = path.read_bytes()
    for at in range(len(body)):
        path.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        with pytest.raises(CorruptObjectError, match=f"{seq:020d}"):
            list(read_commits(written, RUN))


def test_a_commit_changed_together_with_its_sum_is_noticed(written: LocalStore) -> None:
    path = _file(written, 1)
    body = path.read_bytes()[:-74].replace(b'"requests":3', b'"requests":4')
    path.write_bytes(body + b',"sum":"' + hashlib.sha256(body).hexdigest().encode() + b'"}')
    with pytest.raises(CorruptObjectError, match=f"{2:020d}.json does not follow"):
        list(read_commits(written, RUN))


@pytest.mark.parametrize("size", [0, 1, 40, 200])
def test_a_half_written_commit_is_named(written: LocalStore, size: int) -> None:
    _file(written, 2).write_bytes(_file(written, 2).read_bytes()[:size])
    with pytest.raises(CorruptObjectError, match=f"{2:020d}"):
        list(read_commits(written, RUN))


def test_a_deleted_commit_is_named(written: LocalStore) -> None:
    _file(written, 1).unlink()
    with pytest.raises(CorruptObjectError, match=f"{1:020d}.json is missing"):
        list(read_commits(written, RUN))


def test_a_commit_of_another_history_is_noticed(written: LocalStore, tmp_path: Path) -> None:
    other = LocalStore(tmp_path / "other")
    log = a_log(other, writer="other")
    for number in range(4):
        log.append(a_batch(number))
    _file(written, 2).write_bytes(_file(other, 2).read_bytes())
    with pytest.raises(CorruptObjectError, match="does not follow"):
        list(read_commits(written, RUN))


def test_swapped_commits_are_noticed(written: LocalStore) -> None:
    one, two = _file(written, 1), _file(written, 2)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    with pytest.raises(CorruptObjectError, match="holds commit 2"):
        list(read_commits(written, RUN))


def test_strays_in_the_folder_are_no_commits(written: LocalStore) -> None:
    for name in ("00000000000000000001.json~", "00000000000000000004.json.tmp", "notes.txt", "4.json"):
        (_file(written, 0).parent / name).write_text("stray")
    assert len(list(read_commits(written, RUN))) == 4


@pytest.mark.parametrize(
    ("old", "new"), [(b'"batch-planned"', b'"batch-blessed"'), (b'"schema":2', b'"schema":3')], ids=["type", "schema"]
)
def test_what_a_newer_version_wrote_stops_the_reader(written: LocalStore, old: bytes, new: bytes) -> None:
    path = _file(written, 3)
    body = path.read_bytes()[:-74].replace(old, new)
    path.write_bytes(body + b',"sum":"' + hashlib.sha256(body).hexdigest().encode() + b'"}')
    with pytest.raises(CorruptObjectError, match="newer version"):
        list(read_commits(written, RUN))


def test_the_order_is_the_sequence_whatever_the_clocks_say(store: LocalStore) -> None:
    late = FixedClock(datetime(2030, 1, 1, tzinfo=UTC))
    early = FixedClock(datetime(2020, 1, 1, tzinfo=UTC), seed=9)
    a_log(store, clock=late).append(a_batch(0))
    log = a_log(store, clock=early)
    log.refresh()
    log.append(a_batch(1))
    assert list(a_log(store).refresh().batches) == ["s000-1", "s001-1"]


def test_a_state_can_be_had_as_it_was(store: LocalStore, clock: FixedClock) -> None:
    log = a_log(store, clock=clock)
    log.append(a_batch(0))
    moment = clock.now()
    clock.sleep(60)
    log.append(a_batch(1))
    assert list(state_as_of(store, RUN, moment).batches) == ["s000-1"]
    assert list(state_as_of(store, RUN).batches) == ["s000-1", "s001-1"]


def test_a_commit_that_is_too_large_is_refused_by_its_writer(store: LocalStore) -> None:
    with pytest.raises(StoreError, match="too large"):
        a_log(store).append(StatusChanged(batch_id=BatchId("b"), status="x" * 300_000))
    assert list(read_commits(store, RUN)) == []


def test_the_same_commit_has_the_same_bytes(written: LocalStore) -> None:
    for commit, _ in read_commits(written, RUN):
        assert encode_commit(commit) == written.get(keys.commit(RUN, commit.seq))
