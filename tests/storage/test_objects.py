"""What is done with whole objects: put one that may be there, and measure what lies there or is packed into it."""

import pytest

from pipeline.errors import ConflictError, CorruptObjectError
from pipeline.ids import digest
from pipeline.storage.memory import MemoryStore
from pipeline.storage.objects import blocks, measured, measured_inside, put_once
from pipeline.storage.streams import compressed

KEY = "reports/experiment=e/a.html"
LONG = b"a line\n" * 500_000


def never() -> bytes:
    raise AssertionError("an object that is there is not made again")


class _Overtaken(MemoryStore):
    """Somebody else puts the object between our look and our put."""

    def put_new(self, key: str, body: bytes) -> None:
        super().put_new(key, body)
        raise ConflictError(f"{key} exists")


def test_an_object_is_put_once_and_not_made_again() -> None:
    store = MemoryStore()
    assert put_once(store, KEY, lambda: b"page")
    assert not put_once(store, KEY, never)
    assert store.get(KEY) == b"page"


def test_an_object_that_another_puts_meanwhile_was_missing_and_is_there() -> None:
    store = _Overtaken()
    assert put_once(store, KEY, lambda: b"page")
    assert store.get(KEY) == b"page"


def test_an_object_is_measured_as_it_lies_there_and_as_what_is_packed_into_it() -> None:
    store, packed = MemoryStore(), b"".join(compressed([LONG]))
    store.put_new(KEY, packed)
    assert b"".join(blocks(store, KEY)) == packed
    as_it_lies, inside = measured(store, KEY), measured_inside(store, KEY)
    assert (as_it_lies.digest(), as_it_lies.size) == (digest(packed), len(packed))
    assert (inside.digest(), inside.size) == (digest(LONG), len(LONG))


def test_what_is_damaged_cannot_be_measured_inside() -> None:
    store = MemoryStore()
    store.put_new(KEY, b"".join(compressed([LONG]))[:-4])
    with pytest.raises(CorruptObjectError, match="restore it from a backup"):
        measured_inside(store, KEY)
