"""Streams of any size: a small one is one request, a large one an upload in parts of one size."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

from pipeline.errors import ConflictError
from pipeline.storage import keys

PART = 8 * 2**20


class TakesParts(Protocol):
    """As much of a store as a stream needs to become an object."""

    @property
    def url(self) -> str:
        """Where the store is."""
        ...

    def exists(self, key: str) -> bool:
        """Say whether there is such an object now."""
        ...

    def put_new(self, key: str, body: bytes) -> None:
        """Create the object whole, or raise ConflictError if the key is taken."""
        ...

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        """Create the object of its parts, or raise ConflictError; nothing is visible before the end."""
        ...


def put_stream(store: TakesParts, key: str, chunks: Iterable[bytes]) -> None:
    """Create an object of any size whole, or raise ConflictError; a taken key is refused before parts are sent."""
    parts = parts_of(chunks)
    first = next(parts, b"")
    if len(first) < PART:
        store.put_new(key, first)
    elif store.exists(keys.checked(key)):
        raise ConflictError(f"cannot create {key} in {store.url}: it exists already")
    else:
        store.put_parts(key, chain((first,), parts))


def parts_of(chunks: Iterable[bytes], size: int = PART) -> Iterator[bytes]:
    """Yield the bytes in parts of exactly `size`; only the last may be shorter, and none is empty."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)
