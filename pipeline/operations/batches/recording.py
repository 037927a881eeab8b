"""What goes into the log together: the findings of one round share commits, and none waits for long.

A commit is one object that every reader of the log must fetch. What waits here is lost with the process, so it must
be such that another worker finds it out again: by looking at the provider or into the store.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from pipeline.clock import Clock
from pipeline.events import AnyEvent
from pipeline.operations.workers.run import Run
from pipeline.storage.log import in_commits

T = TypeVar("T")

MOST = 50
LARGE = 32 * 2**20
_SECONDS = 5.0


class Gathered(Generic[T]):
    """Things written together when there are many, when much work lies behind them, or after some seconds.

    What is left is written at the end of the block, also when something goes wrong in it.
    """

    def __init__(self, clock: Clock, write: Callable[[list[T]], None]) -> None:
        self._clock = clock
        self._write = write
        self._waiting: list[T] = []
        self._size = 0
        self._since = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.flush()

    def begin(self, size: int) -> None:
        """Write what waits before work on so many bytes begins that it may take long."""
        if self._size + size > LARGE:
            self.flush()

    def add(self, thing: T, *, size: int = 0) -> None:
        """Take one more, behind which lies work on so many bytes."""
        now = self._clock.monotonic()
        self._since = self._since if self._waiting else now
        self._waiting.append(thing)
        self._size += size
        if len(self._waiting) >= MOST or self._size >= LARGE or now - self._since >= _SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting:
            self._write(waiting)


def facts(run: Run) -> Gathered[AnyEvent]:
    """Return a place to gather events that stay true whoever else writes meanwhile."""
    return Gathered(run.worker.clock, lambda events: _record(run, events))


def _record(run: Run, events: list[AnyEvent]) -> None:
    for together in in_commits(events, most=MOST):
        run.record(*together)
