"""Listings: every page to the last, and their entries one by one.

A listing whose end was not reached proves nothing, and what cannot be read of somebody else's batch must not hide ours.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from pipeline.errors import UnavailableError
from pipeline.providers import RemoteBatch
from pipeline.providers._lenient import lenient

B = TypeVar("B")
P = TypeVar("P")


class Entry(msgspec.Struct, Generic[B], frozen=True):
    """One entry: its bytes, and what was read of them, None if that is nothing."""

    raw: bytes
    batch: B | None


def pages(
    path: str, page_at: Callable[[str | None], P], token_of: Callable[[P], str | None], *, most: int = 1_000
) -> Iterator[P]:
    """Yield the pages of a listing, each after the first by the token of the one before it.

    Raises:
        UnavailableError: tokens come again or never end, so that what was shown may not be all.
    """
    token: str | None = None
    seen: set[str] = set()
    for _ in range(most):
        page = page_at(token)
        yield page
        token = token_of(page)
        if not token:
            return
        if token in seen:
            break
        seen.add(token)
    raise cut_short(path)


def cut_short(path: str) -> UnavailableError:
    """Return the error of a listing that announces more but shows nothing new: it proves nothing."""
    return UnavailableError(f"GET {path} announces more than it shows; its end was not reached")


def entries(rows: Iterable[msgspec.Raw], kind: type[B]) -> list[Entry[B]]:
    """Return the entries of a page in their order."""
    return [Entry(bytes(row), _batch(row, kind)) for row in rows]


def raw(rows: Iterable[object]) -> Iterator[msgspec.Raw]:
    """Yield the bytes of entries that somebody else decoded."""
    return (msgspec.Raw(msgspec.json.encode(row)) for row in rows)


def _batch(row: msgspec.Raw, kind: type[B]) -> B | None:
    try:
        return lenient(row, kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def remotes(found: Iterable[Entry[B]], remote: Callable[[B], RemoteBatch]) -> Iterator[Entry[RemoteBatch]]:
    """Yield the entries as batches."""
    for entry in found:
        yield Entry(entry.raw, None if entry.batch is None else remote(entry.batch))


def carrying(
    found: Iterable[Entry[RemoteBatch]], is_ours: Callable[[RemoteBatch], bool], batch_key: str
) -> list[RemoteBatch]:
    """Return the batches that are ours; raises UnavailableError for one that has our key where it cannot be read."""
    ours: list[RemoteBatch] = []
    key = re.compile(rb"(?<![\w-])" + re.escape(batch_key.encode()) + rb"(?![\w-])")
    for entry in found:
        if entry.batch is not None and is_ours(entry.batch):
            ours.append(entry.batch)
        elif key.search(entry.raw):
            raise UnavailableError(f"a listing has {batch_key} in an entry that cannot be read, which may be ours")
    return ours
