"""Studies on any store: workers, a store that counts as proven, and the keys it holds."""

from collections.abc import Callable

import msgspec

from pipeline.clock import SystemClock
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from pipeline.storage import Store, keys
from pipeline.storage.probe import StoreMark
from pipeline.tasks import tasks
from tests.conftest import environment

WorkerOn = Callable[[Store, Simulator], Worker]


def a_worker(store: Store, simulator: Simulator) -> Worker:
    return Worker(store, clock=SystemClock(), settings=Settings(environment(simulator)))


def proven(store: Store) -> Store:
    """Mark the store as proven; that SeaweedFS is, is tested elsewhere and takes it seconds."""
    store.put_new(keys.STORE, msgspec.json.encode(StoreMark()))
    return store


def keys_of(store: Store) -> set[str]:
    """Return the keys of all that a copy takes along: everything but caches and the mark."""
    tables = [task.TABLE for task in tasks().values()]
    return {key for folder in (*keys.DATA, *tables, keys.LOG, keys.EXPERIMENTS) for key in store.list_from(folder)}
