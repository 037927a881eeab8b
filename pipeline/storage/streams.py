"""Streams of bytes: compressed, measured and cut into lines, in small blocks whatever the size."""

import hashlib
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np

from pipeline.errors import CorruptObjectError
from pipeline.ids import Digest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LONGEST_LINE = 16 * 2**20
_TOO_LONG = b"\0"  # no line that anything can read
_BLOCK = 1 << 20
_WINDOW: dict[int, int] = {zstd.CompressionParameter.compression_level: 3}
_LONG_WINDOW: dict[int, int] = {  # requests repeat the same samples far apart: 25 times smaller instead of 4
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.enable_long_distance_matching: 1,
    zstd.CompressionParameter.window_log: 27,
}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OPENING, _CLOSING, _NEWLINE = b"{}\n"


class Measured:
    """Chunks that are hashed and counted as they pass."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._hash = hashlib.sha256()
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._hash.update(chunk)
            self.size += len(chunk)
            yield chunk

    def digest(self) -> Digest:
        """Return the digest of what passed so far."""
        return Digest(self._hash.hexdigest())

    def drained(self) -> "Measured":
        """Let everything pass."""
        for _ in self:
            pass
        return self


def compressed(chunks: Iterable[bytes], *, repetitive: bool = False) -> Iterator[bytes]:
    """Yield the chunks as one zstd stream; what repeats itself far apart is worth 128 MiB of memory, on either side."""
    compressor = zstd.ZstdCompressor(options=_LONG_WINDOW if repetitive else _WINDOW)
    for chunk in chunks:
        if squeezed := compressor.compress(chunk):
            yield squeezed
    yield compressor.flush()


def decompressed(file: BinaryIO, *, key: str) -> Iterator[bytes]:
    """Yield the bytes of a zstd stream in blocks; raises CorruptObjectError if it is damaged, cut short or added to.

    `compressed` writes one frame: whatever stands behind it is not ours, be it a frame that would be passed over.
    """
    decompressor = zstd.ZstdDecompressor()
    try:
        while not decompressor.eof:
            block = file.read(_BLOCK) if decompressor.needs_input else b""
            if decompressor.needs_input and not block:
                raise CorruptObjectError(f"{key} is cut short; restore it from a backup")
            if plain := decompressor.decompress(block, max_length=_BLOCK):
                yield plain
        if decompressor.unused_data or file.read(1):
            raise CorruptObjectError(f"{key} goes on after its end; restore it from a backup")
    except zstd.ZstdError as error:
        raise CorruptObjectError(f"{key} does not decompress; restore it from a backup ({error})") from error


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines one by one, without blank ones; an empty one stands for one that is too long."""
    for block in blocks_of_lines(chunks):
        yield from lines_of(block)


def lines_of(block: bytes) -> list[bytes]:
    r"""Return the lines of a block, split at the byte `\n` only, as `lines` yields them."""
    whole = filter(None, (line.strip(b" \t\r") for line in block.split(b"\n")))
    return [b"" if line == _TOO_LONG or len(line) > LONGEST_LINE else line for line in whole]


def blocks_of_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks cut anew: each ends where a line ends, and a line that is too long is one that says so."""
    begun = b""
    for chunk in _without_mark(chunks):
        start = chunk.find(b"\n") if begun == _TOO_LONG else 0
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join((begun, memoryview(chunk)[start:end]))
            begun = chunk[end:]
        elif begun != _TOO_LONG:
            begun += chunk
        begun = begun if len(begun) <= LONGEST_LINE else _TOO_LONG
    if begun.strip(b" \t\r"):
        yield begun


def objects_in(block: bytes) -> int | None:
    """Return how many lines a block has if each of them begins and ends as one JSON object does, else None.

    Where no more than so many objects are read in such a block, each line is one: what stands between two lines here
    can stand nowhere inside an object.
    """
    if len(block) > LONGEST_LINE or not (block.startswith(b"{") and block.endswith(b"}\n")):
        return None
    letters = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(letters == _NEWLINE)
    are_objects = (letters[ends - 1] == _CLOSING).all() and (letters[ends[:-1] + 1] == _OPENING).all()
    return len(ends) if are_objects else None


def _without_mark(chunks: Iterable[bytes]) -> Iterator[bytes]:
    started = False
    for chunk in chunks:
        yield chunk if started else chunk.removeprefix(_BYTE_ORDER_MARK)
        started = True
