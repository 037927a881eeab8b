"""One conformance suite for the commit primitive, run on every backend: disk, memory, SeaweedFS, fake-gcs-server."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.clock import SystemClock
from pipeline.errors import ConfigError, ConflictError, CorruptObjectError, MissingError, StoreError
from pipeline.ids import RunId
from pipeline.storage import Store, keys, open_store
from pipeline.storage.local import LocalStore
from pipeline.storage.memory import MemoryStore
from pipeline.storage.origin import origin_of
from pipeline.storage.probe import ensure_proven, prove
from pipeline.storage.readonly import ReadOnlyStore


@pytest.fixture(params=["local", "memory", "s3", "gcs"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    match request.param:
        case "local":
            return LocalStore(tmp_path / "store")
        case "memory":
            return MemoryStore()
        case kind:
            store: Store = request.getfixturevalue(f"{kind}_store")
            return store


def test_what_is_put_is_what_is_got(any_store: Store) -> None:
    any_store.put_new("log/r/a.json", b"\x00bytes\n")
    assert any_store.get("log/r/a.json") == b"\x00bytes\n"
    with any_store.open("log/r/a.json") as file:
        file.seek(1)
        assert file.read() == b"bytes\n"


def test_a_taken_key_is_refused_and_keeps_its_bytes(any_store: Store) -> None:
    any_store.put_new("log/r/a.json", b"one")
    with pytest.raises(ConflictError, match=r"log/r/a\.json"):
        any_store.put_new("log/r/a.json", b"two")
    assert any_store.get("log/r/a.json") == b"one"


def test_an_empty_object_is_an_object(any_store: Store) -> None:
    any_store.put_new("log/r/a.json", b"")
    with pytest.raises(ConflictError):
        any_store.put_new("log/r/a.json", b"two")
    assert any_store.get("log/r/a.json") == b""


def test_one_of_many_racing_writers_wins(any_store: Store) -> None:
    rounds = 40 if isinstance(any_store, LocalStore | MemoryStore) else 6  # SeaweedFS lets losers wait for seconds
    won: dict[str, list[int]] = {f"log/r/{round_}.json": [] for round_ in range(rounds)}

    def race(key: str, number: int, start: threading.Barrier) -> None:
        start.wait()
        try:
            any_store.put_new(key, b"%d" % number)
            won[key].append(number)
        except ConflictError:
            pass

    starts = {key: threading.Barrier(5) for key in won}
    threads = [threading.Thread(target=race, args=(key, number, starts[key])) for key in won for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(numbers) for numbers in won.values()] == [1] * rounds
    assert {key: any_store.get(key) for key in won} == {key: b"%d" % numbers[0] for key, numbers in won.items()}


def test_a_stream_that_breaks_leaves_nothing_behind(any_store: Store, tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("the download broke off")

    with pytest.raises(RuntimeError):
        any_store.put_stream("outputs/r/b/1.output.jsonl.zst", chunks())
    assert not any_store.exists("outputs/r/b/1.output.jsonl.zst")
    assert any_store.list_from("outputs") == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_listing_is_in_order_and_starts_behind_a_key(any_store: Store) -> None:
    for seq in (2, 0, 1, 10):
        any_store.put_new(keys.commit(_RUN, seq), b"{}")
    found = any_store.list_from(keys.log(_RUN), after=keys.commit(_RUN, 1))
    assert [keys.commit_seq(key) for key in found] == [2, 10]
    assert any_store.list_from("nothing") == []


_RUN = RunId("e--t--p--m--r--forward")


def test_a_missing_object_is_named(any_store: Store) -> None:
    with pytest.raises(MissingError, match=r"log/r/none\.json"):
        any_store.get("log/r/none.json")


@pytest.mark.parametrize(
    "key",
    ["../x", "/x", "a//b", "a/../b", "a/./b", "~/x", "C:\\x", "a/%2e%2e/b", "a/\x00b", "a/\nb", "a/ü", "a/\x1b[0m", ""],
    ids=repr,
)
def test_a_key_that_could_leave_the_store_is_refused(any_store: Store, key: str) -> None:
    with pytest.raises(StoreError):
        any_store.put_new(key, b"x")


def test_a_proven_store_is_proven_once(any_store: Store) -> None:
    ensure_proven(any_store, SystemClock())
    probes = any_store.list_from("probe")
    ensure_proven(any_store, SystemClock())
    assert any_store.list_from("probe") == probes


def test_all_who_meet_in_a_new_store_get_one_id_that_stays(any_store: Store) -> None:
    start = threading.Barrier(8)

    def meet(_: int) -> str:
        start.wait(timeout=30)
        return origin_of(any_store, SystemClock())

    with ThreadPoolExecutor(8) as pool:
        (made,) = set(pool.map(meet, range(8)))
    assert origin_of(any_store, SystemClock()) == made
    assert origin_of(ReadOnlyStore(any_store), SystemClock()) == made


@pytest.mark.parametrize("body", [b"", b"{}", b'{"origin":""}', b'{"origin":"../../x"}', b'{"origin":7}'])
def test_an_id_that_cannot_be_read_is_named_and_not_replaced(body: bytes) -> None:
    store = MemoryStore()
    store.put_new(keys.ORIGIN, body)
    with pytest.raises(CorruptObjectError, match=r"origin\.json .*restore it from a backup"):
        origin_of(store, SystemClock())
    assert store.get(keys.ORIGIN) == body


class _Lies(MemoryStore):
    """A store that says yes to everybody, and cannot give back what they left."""

    def put_new(self, key: str, body: bytes) -> None:
        self._objects[key] = body

    def get(self, key: str) -> bytes:
        raise StoreError(f"cannot read {key}: what was read does not match its checksum")


class _Forgets(MemoryStore):
    """A store that lets one create and keeps something else."""

    def get(self, key: str) -> bytes:
        return super().get(key)[:-1]


def test_the_probe_refuses_a_store_where_every_writer_wins() -> None:
    with pytest.raises(ConfigError, match=r"let 8 of 8 writers create the same object.*conditional"):
        prove(_Lies(), SystemClock())


def test_the_probe_refuses_a_store_that_keeps_other_bytes() -> None:
    with pytest.raises(ConfigError, match="kept other bytes"):
        prove(_Forgets(), SystemClock())


def test_a_symbolic_link_out_of_the_store_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "log").symlink_to(outside)
    with pytest.raises(StoreError, match="symbolic link"):
        LocalStore(tmp_path / "store").put_new("log/r.json", b"x")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664), (0o000, 0o664)])
def test_files_are_as_private_as_the_umask_says(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        LocalStore(tmp_path / "store").put_new("log/r/a.json", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "store/log/r/a.json").stat().st_mode & 0o777 == mode


@pytest.fixture
def of_another_user(tmp_path: Path) -> Iterator[LocalStore]:
    """A store with one object, in a folder that this user may not enter."""
    store = LocalStore(tmp_path / "store")
    store.put_new("log/r/a.json", b"one")
    (tmp_path / "store").chmod(0)
    user = os.geteuid()
    os.seteuid(user or 65534)  # nothing is closed to root
    yield store
    os.seteuid(user)
    (tmp_path / "store").chmod(0o755)


def test_what_may_not_be_looked_at_is_not_taken_for_empty(of_another_user: LocalStore) -> None:
    for look in (
        lambda: of_another_user.list_from("log"),
        lambda: of_another_user.exists("log/r/a.json"),
        lambda: of_another_user.get("log/r/a.json"),
    ):
        with pytest.raises(StoreError, match=r"cannot (list|find|read) log.* the store cannot be read by this user"):
            look()


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    assert store.list_from("log") == []
    assert not store.exists("log/r/a.json")


def test_a_reader_never_sees_a_part_of_an_object(tmp_path: Path) -> None:
    store, body, seen = LocalStore(tmp_path), os.urandom(1 << 20), set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            for number in range(30):
                try:
                    seen.add(len(store.get(f"log/{number}.json")))
                except MissingError:
                    break

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(30):
        store.put_stream(f"log/{number}.json", (body[at : at + 65536] for at in range(0, len(body), 65536)))
    done.set()
    reader.join()
    assert seen <= {len(body)}


def test_an_unknown_kind_of_store_is_refused_without_its_credentials() -> None:
    with pytest.raises(ConfigError) as caught:
        open_store("ftp://user:hunter2@host/x")
    assert "hunter2" not in str(caught.value)


def test_a_store_can_be_named_by_path_or_url(tmp_path: Path) -> None:
    open_store(str(tmp_path)).put_new("log/a.json", b"1")
    assert open_store(f"file://{tmp_path}").get("log/a.json") == b"1"


def test_a_folder_with_half_an_object_holds_nothing(tmp_path: Path) -> None:
    """What a writer leaves that was killed while it wrote the first object of a folder."""
    place = tmp_path / "experiments" / "essays"
    place.mkdir(parents=True)
    (place / ".pairlog-abc.tmp").write_bytes(b"half")
    store = LocalStore(tmp_path)
    assert store.list_from("experiments") == []
