"""What assets and sensors work with: a worker on the store, with the providers and the clock.

Everything is configured by the environment of the process that works, never by Dagster's configuration: what
stands there is shown in the UI.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from logging import Logger

import dagster as dg
from pydantic import Field

from pipeline.clock import SystemClock
from pipeline.errors import ConfigError, PipelineError
from pipeline.operations.starting import check_store
from pipeline.operations.watching import Watch
from pipeline.operations.workers.run import Notice
from pipeline.operations.workers.worker import AT_ONCE, Worker
from pipeline.settings import from_environment
from pipeline.storage import open_store

_PATIENCE = 15.0


class Workers(dg.ConfigurableResource[None]):
    """Opens workers; each is closed again when the asset or the tick is done."""

    store: str = Field(default="", description="Path or URL of the store; empty: as $PAIRLOG_STORE says.")

    @contextmanager
    def worker(self, log: Logger) -> Iterator[Worker]:
        """Give a worker whose notices go to the log of the Dagster run."""

        def tell(notice: Notice) -> None:
            log.log(30 if notice.warning else 20, "%s %s: %s", notice.run_id, notice.batch_id or "", notice.text)

        try:
            with _worker(self.store) as worker:
                worker.notify = tell
                yield worker
        except PipelineError as error:
            raise dg.Failure(description=str(error), allow_retries=not isinstance(error, ConfigError)) from error

    @contextmanager
    def proven(self, log: Logger) -> Iterator[Worker]:
        """Give a worker on a store that has shown to let one writer win: before anything is planned or sent."""
        with self.worker(log) as worker:
            check_store(worker)
            yield worker

    @contextmanager
    def watch(self) -> Iterator[Watch | None]:
        """Give this process's watch over the store, or None while another tick has it for long.

        A tick that ran into Dagster's time limit goes on in the background; two at once would only repeat work.
        """
        watch, busy = _watch(self.store or from_environment().store())
        if not busy.acquire(timeout=_PATIENCE):
            yield None
            return
        try:
            yield watch
        finally:
            watch.worker.close()
            busy.release()


def _worker(store: str) -> Worker:
    settings = from_environment()
    return Worker(open_store(store or settings.store()), clock=SystemClock(), settings=settings, at_once=AT_ONCE)


@cache
def _watch(store: str) -> tuple[Watch, threading.Lock]:
    return Watch(_worker(store)), threading.Lock()
