"""Batches that are sent as one group: a study that has some, a way to the provider that is told of them, a worker."""

from collections.abc import Callable
from pathlib import Path

import httpx

from pipeline.clock import SystemClock
from pipeline.operations.studies.opening import freeze, open_runs
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from pipeline.storage.local import LocalStore
from tests.conftest import environment

SIX_BATCHES = "pairs: {design: random, count: 12}\nbatch: {max_requests: 2}"
_PACE = {"PAIRLOG_QUIET_SECONDS": "600", "PAIRLOG_PAUSE_SECONDS": "0.05"}


class Told(httpx.HTTPTransport):
    """A way to the provider on which something happens at the n-th create."""

    def __init__(self, at: int, act: Callable[[], httpx.Response | None]) -> None:
        super().__init__()
        self._left = at
        self._act = act

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and request.url.path.endswith("/batches"):
            self._left -= 1
            if self._left == 0:
                return self._act() or super().handle_request(request)
        return super().handle_request(request)


def opened(worker: Worker, file: Path) -> Run:
    planned = plan(str(file))
    (run,) = open_runs(worker, planned, experiment_digest=freeze(worker, planned))
    return run


def a_worker(
    store: LocalStore, simulator: Simulator, transport: httpx.BaseTransport | None = None, **pace: str
) -> Worker:
    settings = Settings(environment(simulator, **{**_PACE, **pace}))
    return Worker(store, clock=SystemClock(), settings=settings, transport=transport)
