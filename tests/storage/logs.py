"""A run's log on any store, and batches to put into it."""

from typing import TypeVar

from pipeline.clock import Clock, SystemClock
from pipeline.events import BatchPlanned
from pipeline.ids import BatchId, RunId
from pipeline.storage import Store
from pipeline.storage.log import RunLog

RUN = RunId("e--t--p--m--r--forward")
S = TypeVar("S", bound=Store)


def a_log(store: Store, *, writer: str = "w", clock: Clock | None = None) -> RunLog:
    return RunLog(store, RUN, clock=clock or SystemClock(), writer=writer)


def a_batch(number: int = 0) -> BatchPlanned:
    return BatchPlanned(batch_id=BatchId(f"s{number:03d}-1"), segment=number, send=1, requests=3)


def with_four_batches(store: S) -> S:
    """Return the store with a log of four batches in it."""
    log = a_log(store)
    for number in range(4):
        log.append(a_batch(number))
    return store
