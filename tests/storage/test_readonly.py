"""A store that is only looked at gives what the store behind it gives, and takes nothing."""

import pytest

from pipeline.errors import MissingError, StoreError
from pipeline.storage.memory import MemoryStore
from pipeline.storage.readonly import ReadOnlyStore


@pytest.fixture
def behind() -> MemoryStore:
    store = MemoryStore()
    for key in ("log/a/1.json", "log/a/2.json", "log/b/1.json"):
        store.put_new(key, key.encode())
    return store


def test_what_is_there_can_be_read(behind: MemoryStore) -> None:
    store = ReadOnlyStore(behind)
    assert store.url == behind.url
    assert store.get("log/a/1.json") == b"log/a/1.json"
    with store.open("log/b/1.json") as file:
        assert file.read() == b"log/b/1.json"
    assert store.list_from("log", after="log/a/1.json") == ["log/a/2.json", "log/b/1.json"]
    assert (store.exists("log/a/1.json"), store.exists("log/a/3.json")) == (True, False)
    with pytest.raises(MissingError):
        store.get("log/a/3.json")


def test_nothing_can_be_created(behind: MemoryStore) -> None:
    store = ReadOnlyStore(behind)
    with pytest.raises(StoreError, match=r"cannot create log/a/3\.json in .*: it was opened for reading only"):
        store.put_new("log/a/3.json", b"{}")
    with pytest.raises(StoreError, match="opened for reading only"):
        store.put_stream("log/a/3.json", [b"{}"])
    assert behind.list_from("log") == ["log/a/1.json", "log/a/2.json", "log/b/1.json"]
