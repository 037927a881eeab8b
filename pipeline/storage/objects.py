"""What is done with whole objects, whatever the backend: put one that may be there, read it in blocks, measure it."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from pipeline.errors import ConflictError
from pipeline.storage import Store
from pipeline.storage.streams import Measured, decompressed

_BLOCK = 1 << 20


def put_once(store: Store, key: str, made: Callable[[], bytes]) -> bool:
    """Put an object that is the same whoever puts it, or of which any will do; made only if it is missing.

    Return whether it was missing. That somebody else puts it meanwhile is success as well.
    """
    if store.exists(key):
        return False
    with suppress(ConflictError):
        store.put_new(key, made())
    return True


def blocks(store: Store, key: str) -> Iterator[bytes]:
    """Yield the object's bytes, a block at a time."""
    with store.open(key) as file:
        while block := file.read(_BLOCK):
            yield block


def measured(store: Store, key: str) -> Measured:
    """Return digest and size of the object as it lies there."""
    return Measured(blocks(store, key)).drained()


def measured_inside(store: Store, key: str) -> Measured:
    """Return digest and size of what is compressed in the object; raises CorruptObjectError if it is damaged."""
    with store.open(key) as file:
        return Measured(decompressed(file, key=key)).drained()
