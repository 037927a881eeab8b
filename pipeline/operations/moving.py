"""Moving and keeping a store: copying it whole, what it takes up, and what uploads left behind.

A copy is made in an order in which it is of use only when it is whole: what events point to, then the logs, commit
after commit, then the experiments by which everything is found.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import msgspec

from pipeline.clock import Clock
from pipeline.errors import ConfigError, ConflictError, StoreError
from pipeline.storage import HoldsUploads, ListsSizes, Store, Upload, keys
from pipeline.storage.objects import blocks, measured
from pipeline.storage.probe import ensure_proven
from pipeline.storage.streams import Measured
from pipeline.tasks import tasks

_AT_ONCE = 8

Tell = Callable[[int, int], None]


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy did: objects made, their bytes, and objects that were there already, with the same digest.

    It is `behind` by so many commits, which were written to the source after it had begun.
    """

    objects: int = 0
    bytes: int = 0
    present: int = 0
    behind: int = 0

    def __add__(self, other: "Copied") -> "Copied":
        return Copied(
            objects=self.objects + other.objects,
            bytes=self.bytes + other.bytes,
            present=self.present + other.present,
            behind=self.behind + other.behind,
        )


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """How much lies below one folder of a store."""

    folder: str
    objects: int
    bytes: int


def copy_store(source: Store, target: Store, *, clock: Clock, tell: Tell = lambda _done, _all: None) -> Copied:
    """Copy every object but caches, verify each by its digest, and return what was done; safe to repeat.

    Args:
        tell: called with the number of objects done and of all.
    """
    if source.url == target.url:
        raise ConfigError(f"{source.url} is both source and target; name two stores")
    logs = _logs(source)  # before everything else: what these commits point to is there already
    data = [key for folder in _data() for key in source.list_from(folder)]
    experiments = source.list_from(keys.EXPERIMENTS)
    if not experiments:
        raise ConfigError(f"{source.url} holds no experiment; check the address of the store to copy")
    ensure_proven(target, clock)
    there = {key for folder in (*_data(), keys.LOG, keys.EXPERIMENTS) for key in target.list_from(folder)}
    everything = len(data) + sum(map(len, logs)) + len(experiments)
    copied = Copied()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for steps in ([[key] for key in data], logs, [[key] for key in experiments]):
            for done in pool.map(lambda step: _copy_in_order(source, target, step, there), steps):
                copied += done
                tell(copied.objects + copied.present, everything)
    return copied + Copied(behind=sum(map(len, _logs(source))) - sum(map(len, logs)))


def _data() -> list[str]:
    """Return the folders of what events point to: those that every store has, and each task's table."""
    return [*keys.DATA, *(task.TABLE for task in tasks().values())]


def _logs(store: Store) -> list[list[str]]:
    """Return the keys of each run's commits, in order."""
    runs: dict[str, list[str]] = {}
    for key in store.list_from(keys.LOG):
        if keys.commit_seq(key) is not None:
            runs.setdefault(key.rpartition("/")[0], []).append(key)
    return list(runs.values())


def _copy_in_order(source: Store, target: Store, step: Iterable[str], there: set[str]) -> Copied:
    return sum((_copy(source, target, key, is_there=key in there) for key in step), Copied())


def _copy(source: Store, target: Store, key: str, *, is_there: bool) -> Copied:
    sent, made = Measured(blocks(source, key)), not is_there
    if made:
        try:
            target.put_stream(key, sent)
        except ConflictError:
            made = False
    if not made:
        sent = measured(source, key)
    if measured(target, key).digest() != sent.digest():
        raise StoreError(f"{key} in {target.url} differs from the object in {source.url}; copy into an empty store")
    return Copied(objects=1, bytes=sent.size) if made else Copied(present=1)


def usage(store: Store) -> list[Usage]:
    """Return what lies below every folder of the store that holds something."""
    found = []
    for folder in sorted({*_data(), *keys.CACHES, keys.LOG, keys.EXPERIMENTS}):
        sizes = store.sizes(folder) if isinstance(store, ListsSizes) else _sizes(store, folder)
        if sizes:
            found.append(Usage(folder=folder, objects=len(sizes), bytes=sum(sizes.values())))
    return found


def _sizes(store: Store, folder: str) -> dict[str, int]:
    sizes = {}
    for key in store.list_from(folder):
        with store.open(key) as file:
            sizes[key] = file.seek(0, os.SEEK_END)
    return sizes


def abandoned(store: Store, *, clock: Clock, age: timedelta) -> list[Upload]:
    """Return the uploads in parts that were begun so long ago that nobody will end them."""
    if not isinstance(store, HoldsUploads):
        return []
    return [upload for upload in store.uploads() if clock.now() - upload.begun_at >= age]


def give_up(store: Store, uploads: Iterable[Upload]) -> int:
    """Remove the parts of these uploads and return how many there were."""
    given_up = 0
    for upload in uploads:
        if isinstance(store, HoldsUploads):
            store.give_up(upload)
            given_up += 1
    return given_up
