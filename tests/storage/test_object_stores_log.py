"""The log on object stores: races, damage, rights, and how many requests a state costs."""

import hashlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline.clock import SystemClock
from pipeline.errors import ConflictError, CorruptObjectError, StoreError
from pipeline.events import AnyEvent, StatusChanged
from pipeline.ids import BatchId, RunId
from pipeline.storage import keys
from pipeline.storage._s3_client import S3Client
from pipeline.storage.gcs import GcsStore
from pipeline.storage.log import RunLog, current_state, read_commits, state_as_of
from pipeline.storage.s3 import S3Store
from pipeline.storage.states import current_states
from tests.storage.logs import RUN, a_batch, a_log, with_four_batches
from tests.storage.proxy import Proxy
from tests.storage.servers import READER, S3Server


@pytest.fixture
def written(s3_store: S3Store) -> S3Store:
    return with_four_batches(s3_store)


def _overwrite(store: S3Store, key: str, body: bytes) -> None:
    store._client.send("put_object", Key=store._place.name(key), Body=body)


def _delete(store: S3Store, key: str) -> None:
    store._client.send("delete_object", Key=store._place.name(key))


@pytest.mark.parametrize("size", [0, 1, 40, 200])
def test_a_half_written_commit_is_named(written: S3Store, size: int) -> None:
    key = keys.commit(RUN, 2)
    _overwrite(written, key, written.get(key)[:size])
    with pytest.raises(CorruptObjectError, match=key):
        current_state(written, RUN)


def test_a_flipped_bit_is_found_and_its_object_named(written: S3Store) -> None:
    key = keys.commit(RUN, 1)
    body = bytearray(written.get(key))
    body[30] ^= 1
    _overwrite(written, key, bytes(body))
    with pytest.raises(CorruptObjectError, match=key):
        current_state(written, RUN)


def test_a_deleted_commit_is_named(written: S3Store) -> None:
    _delete(written, keys.commit(RUN, 1))
    with pytest.raises(CorruptObjectError, match=f"{keys.commit(RUN, 1)} is missing"):
        current_state(written, RUN)


def test_a_commit_that_was_overwritten_by_another_is_noticed(written: S3Store, gcs_store: GcsStore) -> None:
    other = a_log(gcs_store, writer="other")
    for number in range(4):
        other.append(a_batch(number))
    _overwrite(written, keys.commit(RUN, 2), gcs_store.get(keys.commit(RUN, 2)))
    with pytest.raises(CorruptObjectError, match="does not follow"):
        current_state(written, RUN)


@pytest.mark.parametrize(
    ("old", "new"), [(b'"batch-planned"', b'"batch-blessed"'), (b'"schema":2', b'"schema":3')], ids=["type", "schema"]
)
def test_what_a_newer_version_wrote_stops_the_reader(written: S3Store, old: bytes, new: bytes) -> None:
    key = keys.commit(RUN, 3)
    body = written.get(key)[:-74].replace(old, new)
    _overwrite(written, key, body + b',"sum":"' + hashlib.sha256(body).hexdigest().encode() + b'"}')
    with pytest.raises(CorruptObjectError, match=f"{key}.*newer version"):
        current_state(written, RUN)


def test_strays_in_the_folder_are_no_commits(written: S3Store) -> None:
    for name in (
        "00000000000000000001.json~",
        "00000000000000000004.json.tmp",
        "notes.txt",
        "4.json",
        f"old/{9:020d}.json",
    ):
        _overwrite(written, f"{keys.log(RUN)}/{name}", b"stray")
    assert len(current_state(written, RUN).batches) == 4


@pytest.mark.parametrize("damage", [lambda body: b"", lambda body: body[:-9], lambda body: b"\0" + body[1:]])
def test_a_damaged_checkpoint_is_ignored_and_another_is_made(
    s3_store: S3Store, damage: Callable[[bytes], bytes]
) -> None:
    log = a_log(s3_store)
    for number in range(12):
        log.append(a_batch(number))
    log.refresh()
    (key,) = s3_store.list_from(keys.checkpoints(RUN))
    _overwrite(s3_store, key, damage(s3_store.get(key)))
    assert current_state(s3_store, RUN) == log.state == state_as_of(s3_store, RUN)
    again = a_log(s3_store, writer="again")
    again.refresh()
    again.append(a_batch(12))
    for number in range(13, 22):
        again.append(a_batch(number))
    again.refresh()
    assert s3_store.list_from(keys.checkpoints(RUN))[-1] == keys.checkpoint(RUN, 21)
    assert current_state(s3_store, RUN) == again.state


def test_a_checkpoint_ahead_of_its_log_is_ignored(s3_store: S3Store) -> None:
    log = a_log(s3_store)
    for number in range(12):
        log.append(a_batch(number))
    log.refresh()
    _delete(s3_store, keys.commit(RUN, 11))
    assert len(current_state(s3_store, RUN).batches) == 11


class _LaggingListing(S3Store):
    """Leaves commits out of every listing, as a lagging index would, or a folder that is read while others write."""

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        return [key for key in super().list_from(folder, after=after) if key not in map(_commit, (0, 2))]


def _commit(seq: int) -> str:
    return keys.commit(RUN, seq)


def test_a_gap_in_a_listing_is_no_gap_in_the_log(written: S3Store) -> None:
    store = _LaggingListing(written.url, client=written._client)
    assert len(current_state(store, RUN).batches) == 4
    _delete(written, _commit(2))
    with pytest.raises(CorruptObjectError, match=f"{_commit(2)} is missing"):
        current_state(store, RUN)


def test_what_another_client_wrote_is_seen_at_once(written: S3Store, s3_environment: S3Server) -> None:
    other = S3Store(written.url)
    mine = a_log(written)
    for number in range(4, 8):
        assert len(mine.refresh().batches) == number
        assert not written.exists(keys.commit(RUN, number))
        theirs = a_log(other, writer="other")
        theirs.refresh()
        theirs.append(a_batch(number))
        assert written.exists(keys.commit(RUN, number))
        assert written.list_from(keys.log(RUN))[-1] == keys.commit(RUN, number)
    _delete(written, keys.commit(RUN, 7))
    assert not other.exists(keys.commit(RUN, 7))


def test_a_store_that_may_only_be_read_is_read_and_not_written(
    written: S3Store, s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_environment.environment(READER).items():
        monkeypatch.setenv(name, value)
    log = a_log(S3Store(written.url))
    assert len(log.refresh().batches) == 4
    with pytest.raises(StoreError, match=r"cannot create log/.*not permitted \(AccessDenied\)") as caught:
        log.append(a_batch(4))
    assert not isinstance(caught.value, ConflictError)
    assert READER.secret not in str(caught.value)
    assert not written.exists(keys.commit(RUN, 4))


def test_a_commit_that_is_too_large_is_refused_by_its_writer(s3_store: S3Store) -> None:
    with pytest.raises(StoreError, match="too large"):
        a_log(s3_store).append(StatusChanged(batch_id=BatchId("b"), status="x" * 300_000))
    assert s3_store.list_from("log") == []


def _events(batches: int) -> Iterator[AnyEvent]:
    """Eight events a batch."""
    for number in range(batches):
        yield a_batch(number)
    for step in range(7):
        for number in range(batches):
            yield StatusChanged(batch_id=BatchId(f"s{number:03d}-1"), status=str(step))


@pytest.fixture
def counted(s3_client: S3Client, s3_store: S3Store, s3_proxy: Proxy) -> S3Store:
    """A store with a run of 200 batches, 1,600 events in 40 commits; its requests are counted."""
    log, events = a_log(s3_store), list(_events(200))
    for start in range(0, len(events), 40):
        log.append(*events[start : start + 40])
    return S3Store(s3_store.url, client=s3_proxy.s3_client)


def test_a_state_without_a_checkpoint_costs_two_listings_and_one_get_a_commit(
    counted: S3Store, s3_proxy: Proxy
) -> None:
    state = current_state(counted, RUN)
    assert (len(state.batches), state.commits) == (200, 40)
    assert s3_proxy.counts() == {"LIST": 2, "GET": 40}


def test_a_state_with_a_checkpoint_costs_four_requests(counted: S3Store, s3_proxy: Proxy) -> None:
    whole = a_log(counted).refresh()
    s3_proxy.forget()
    assert current_state(counted, RUN) == whole == state_as_of(counted, RUN)
    state_from_checkpoint = s3_proxy.calls[:4]
    assert [call.kind for call in state_from_checkpoint] == ["LIST", "GET", "LIST", "GET"]
    assert s3_proxy.counts() == {"LIST": 3, "GET": 42}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_states_of_five_hundred_runs_are_there_in_ten_seconds(s3_store: S3Store, s3_proxy: Proxy) -> None:
    runs = [RunId(f"e--t--p--m{number:03d}--r--forward") for number in range(500)]

    def write(run_id: RunId) -> None:
        log, events = RunLog(s3_store, run_id, clock=SystemClock(), writer="w"), list(_events(20))
        for start in range(0, len(events), 16):
            log.append(*events[start : start + 16])
        log.refresh()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, runs))
    started = time.monotonic()
    states = current_states(s3_store, runs)
    assert time.monotonic() - started < 10
    assert {len(state.batches) for state in states.values()} == {20}
    current_states(S3Store(s3_store.url, client=s3_proxy.s3_client), runs)
    counts = s3_proxy.counts()
    assert (counts["GET"], counts["LIST"]) == (1000, 6)


def test_looking_again_costs_one_listing_and_an_append_one_put(counted: S3Store, s3_proxy: Proxy) -> None:
    log = a_log(counted)
    log.refresh()
    s3_proxy.forget()
    log.refresh()
    assert s3_proxy.counts() == {"LIST": 1}
    log.append(a_batch(200))
    assert s3_proxy.counts() == {"LIST": 1, "PUT": 1}


def test_who_is_far_behind_goes_on_from_a_checkpoint(counted: S3Store, s3_proxy: Proxy) -> None:
    far, near = a_log(counted, writer="far"), a_log(counted, writer="near")
    for log in (far, near):
        log.refresh()
    for number in range(200, 230):
        near.append(a_batch(number))
    near.refresh()
    s3_proxy.forget()
    assert far.refresh() == near.state
    assert s3_proxy.counts() == {"LIST": 2, "GET": 2}
    far.append(a_batch(230))
    assert len(list(read_commits(counted, RUN))) == 71


def test_reading_a_small_object_through_a_file_costs_one_get(counted: S3Store, s3_proxy: Proxy) -> None:
    counted.put_stream("requests/r/b.jsonl.zst", [b"x" * 100_000] * 20)
    s3_proxy.forget()
    with counted.open("requests/r/b.jsonl.zst") as file:
        file.seek(-8, 2)
        assert file.read() == b"x" * 8
        file.seek(0)
        assert len(file.read()) == 2_000_000
    assert s3_proxy.counts() == {"GET": 1}
