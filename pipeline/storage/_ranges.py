"""A stored object as a seekable file that fetches byte ranges: few requests, small blocks, bounded memory."""

import io
from collections.abc import Callable
from typing import BinaryIO

import msgspec

BLOCK = 4 * 2**20


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Some bytes of an object, and how many it has in all."""

    body: bytes
    size: int


def range_file(fetch: Callable[[int, int], Range]) -> BinaryIO:
    """Return the object as a buffered file; `fetch(start, stop)` is called at once for its first block."""
    return io.BufferedReader(_RangeReader(fetch), BLOCK)


class _RangeReader(io.RawIOBase):
    """Reads one object by ranges; the first block, which also tells the size, is kept."""

    def __init__(self, fetch: Callable[[int, int], Range]) -> None:
        super().__init__()
        self._fetch = fetch
        head = fetch(0, BLOCK)
        self._head = head.body
        self._size = head.size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"there is no position {start + offset} in a file")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: "memoryview | bytearray", /) -> int:  # type: ignore[override] # Buffer has no len()
        stop = min(self._at + len(buffer), self._size)
        if stop <= self._at:
            return 0
        body = self._head[self._at : stop] if stop <= len(self._head) else self._fetch(self._at, stop).body
        buffer[: len(body)] = body
        self._at += len(body)
        return len(body)
