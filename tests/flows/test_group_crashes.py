"""A group of batches that are announced and recorded together, struck in its middle: killed, frozen, out of space."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from pipeline.clock import SystemClock
from pipeline.errors import StoreError
from pipeline.operations.resuming import resume
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from pipeline.simulator import environment as everywhere
from pipeline.storage.local import LocalStore
from tests.flows.groups import Told
from tests.flows.small_disks import a_disk_of, needs_a_small_disk
from tests.flows.striking import StruckStore, struck
from tests.flows.studies import check_against_ledger, counts, submitted

EIGHT_BATCHES = "pairs: {design: random, count: 24}\nbatch: {max_requests: 3}"
PACE = {"PAIRLOG_LEASE_SECONDS": "0.3", "PAIRLOG_QUIET_SECONDS": "0.3"}
CALLS = {"third upload": ("/files", False), "third create": ("/batches", False), "third answer": ("/batches", True)}
COMMITS = {"telling of the uploads": "file-uploaded", "telling of the creates": "submitted"}


class StruckTransport(httpx.HTTPTransport):
    """A way to the provider on which a signal strikes this process at the third call to a path, or behind it."""

    def __init__(self, moment: str, number: signal.Signals) -> None:
        super().__init__()
        self._path, self._behind = CALLS.get(moment, ("nowhere", False))
        self._number = number
        self._left = 3

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        counts = request.method == "POST" and request.url.path.endswith(self._path)
        self._left -= counts
        strikes = counts and self._left == 0
        if strikes and not self._behind:
            os.kill(os.getpid(), self._number)
        response = super().handle_request(request)
        if strikes and self._behind:
            response.read()
            os.kill(os.getpid(), self._number)
        return response


def a_worker(store: LocalStore, url: str, transport: httpx.BaseTransport | None = None, **pace: str) -> Worker:
    settings = Settings({**everywhere(url), **PACE, **pace})
    return Worker(store, clock=SystemClock(), settings=settings, transport=transport)


def submits(root: Path, url: str, file: Path, moment: str, number: signal.Signals) -> None:
    store, transport = StruckStore(root, COMMITS.get(moment, "nothing"), number), StruckTransport(moment, number)
    with a_worker(store, url, transport) as worker:
        submitted(worker, file)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("moment", [*CALLS, *COMMITS])
def test_a_worker_struck_in_the_middle_of_a_group_is_followed_and_nothing_is_paid_twice(
    simulate: Callable[..., Simulator],
    store: LocalStore,
    experiment_file: Callable[..., Path],
    tmp_path: Path,
    moment: str,
    number: signal.Signals,
) -> None:
    simulator = simulate()
    file = experiment_file(samples=12, more=EIGHT_BATCHES)
    first = struck(submits, tmp_path / "store", simulator.url, file, moment, number)
    with first as found, a_worker(store, simulator.url) as other:
        assert (found.is_killed, found.is_frozen) == (number == signal.SIGKILL, number == signal.SIGSTOP)
        runs = other.runs(other.experiment_names()[0])
        assert not resume(other, runs, interval=0.05).is_open
        if found.is_frozen:
            assert found.woken() == 0
        assert counts(other)["ok"] == simulator.ledger.totals.requests == 24
        check_against_ledger(other, simulator.ledger)


@needs_a_small_disk
@pytest.mark.parametrize("create", [1, 3, 8])
def test_a_disk_that_fills_up_between_the_creates_of_a_group_loses_none_of_them(
    simulate: Callable[..., Simulator], experiment_file: Callable[..., Path], tmp_path: Path, create: int
) -> None:
    simulator = simulate()
    file = experiment_file(samples=12, more=EIGHT_BATCHES)
    with a_disk_of(2000, tmp_path / "small") as place:
        store = LocalStore(place / "store")

        def fills_up() -> None:
            subprocess.run(["dd", "if=/dev/zero", f"of={place / 'ballast'}"], capture_output=True, check=False)

        with a_worker(store, simulator.url, Told(create, fills_up)) as worker, pytest.raises(StoreError, match="space"):
            submitted(worker, file)
        assert len(simulator.ledger.creates) >= create
        (place / "ballast").unlink()
        with a_worker(store, simulator.url) as other:
            assert not resume(other, other.runs(other.experiment_names()[0]), interval=0.05).is_open
            assert counts(other)["ok"] == simulator.ledger.totals.requests == 24
            check_against_ledger(other, simulator.ledger)
