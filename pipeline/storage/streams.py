"""Streams of bytes: compressed, measured and cut into lines, in small blocks whatever the size."""

import hashlib
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from pipeline.errors import CorruptObjectError
from pipeline.ids import Digest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LONGEST_LINE = 16 * 2**20
_TOO_LONG = b""
_BLOCK = 1 << 20
_WINDOW: dict[int, int] = {zstd.CompressionParameter.compression_level: 3}
_LONG_WINDOW: dict[int, int] = {  # requests repeat the same samples far apart: 25 times smaller instead of 4
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.enable_long_distance_matching: 1,
    zstd.CompressionParameter.window_log: 27,
}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
            raise CorruptObjectError(f"{key} goes on behind its end; restore it from a backup")
    except zstd.ZstdError as error:
        raise CorruptObjectError(f"{key} does not decompress; restore it from a backup ({error})") from error


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines one by one, as `blocks_of_lines` finds them."""
    for block in blocks_of_lines(chunks):
        yield from block


def blocks_of_lines(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    r"""Yield the lines that end in each chunk, split at the byte `\n` only, without blank ones.

    An empty one stands for one that is too long.
    """
    rest = b""
    overlong = False
    for chunk in _without_mark(chunks):
        block = (rest + chunk).split(b"\n")
        rest = block.pop()
        begun = [_TOO_LONG] if overlong and block else []
        yield begun + [
            line if len(line) <= LONGEST_LINE else _TOO_LONG
            for each in block[len(begun) :]
            if (line := each.strip(b" \t\r"))
        ]
        overlong = (overlong and not block) or len(rest) > LONGEST_LINE
        rest = b"" if overlong else rest
    if overlong:
        yield [_TOO_LONG]
    elif last := rest.strip(b" \t\r"):
        yield [last]


def _without_mark(chunks: Iterable[bytes]) -> Iterator[bytes]:
    started = False
    for chunk in chunks:
        yield chunk if started else chunk.removeprefix(_BYTE_ORDER_MARK)
        started = True
