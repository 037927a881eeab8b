"""A stream cut into parts of one size, as uploads in parts want them."""

from collections.abc import Iterable, Iterator

PART = 8 * 2**20


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
