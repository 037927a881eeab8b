"""How a round asks after its batches: several at a time, and no further one where nobody is there to answer."""

from collections.abc import Callable
from threading import Barrier

import httpx
import pytest

from pipeline.clock import SystemClock
from pipeline.operations.examining import examine
from pipeline.operations.resuming import resume
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import environment as simulated
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile, Simulate, environment
from tests.flows.one_time import World
from tests.flows.studies import finished, submitted

Worlds = Callable[..., World]
JUDGES = "[{provider: openai, model: gpt-6-luna, reasoning: [low, high]}]"
THREE = "batch: {max_requests: 5}"
TRIES = 5


class Asked(httpx.HTTPTransport):
    """A way to the provider that does something of its own when it is asked after a batch."""

    def __init__(self, first: Callable[[httpx.Request], object]) -> None:
        super().__init__()
        self.first = first
        self.asked: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET" and "/batches/" in request.url.path:
            self.asked.append(request.url.path)
            self.first(request)
        return super().handle_request(request)


def nobody(request: httpx.Request) -> None:
    raise httpx.ConnectError("connection refused", request=request)


def let_pass(_: httpx.Request) -> None:
    pass


def test_a_provider_that_cannot_be_reached_is_asked_for_one_batch_a_round(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here, way = world(latency=60.0), Asked(nobody)
    worker = here.beside(transport=way)
    runs = submitted(worker, experiment_file(judges=JUDGES, more=THREE))
    for rounds in (1, 2):
        assert resume(worker, runs, interval=60, once=True).is_open
        assert len(way.asked) == rounds * TRIES
    way.first = let_pass
    assert not resume(worker, runs, interval=60).is_open
    here.check()


def test_a_batch_of_which_a_provider_tells_nothing_keeps_no_other_from_being_asked_after(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here = world()
    way = Asked(let_pass)
    worker = here.beside(transport=way)
    runs = submitted(worker, experiment_file(more=THREE))
    name = next(iter(runs[0].state.batches.active.values())).remote_id

    def breaks_off(request: httpx.Request) -> None:
        if request.url.path.endswith(str(name)):
            raise httpx.ReadError("connection reset by peer", request=request)

    way.first = breaks_off
    assert resume(worker, runs, interval=60, once=True).counts.open == 5


@pytest.mark.parametrize("at_once", [3, 8])
def test_several_batches_are_asked_after_at_the_same_time(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, at_once: int
) -> None:
    together = Barrier(3)
    settings = Settings(environment(simulate()))
    way = Asked(lambda _: together.wait(timeout=20))
    with Worker(store, clock=SystemClock(), settings=settings, transport=way, at_once=at_once) as worker:
        assert not finished(worker, experiment_file(more=THREE)).is_open


def test_doctor_asks_all_providers_at_the_same_time(simulate: Simulate, store: LocalStore) -> None:
    together = Barrier(3)
    known = simulated(simulate().url)
    settings = Settings({name: known[name] for name in known if name.startswith(("OPENAI", "ANTHROPIC", "MISTRAL"))})

    class Together(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            together.wait(timeout=20)
            return super().handle_request(request)

    with Worker(store, clock=SystemClock(), settings=settings, transport=Together()) as worker:
        found = {each.what: each.how for each in examine(worker)}
    assert {name for name, how in found.items() if how == "good"} >= {"openai", "anthropic", "mistral"}
    assert "broken" not in found.values()
