"""What many flows arrange: a world in which time passes only when a worker sleeps."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from pipeline.storage.local import LocalStore
from tests.flows.one_time import World


@pytest.fixture
def world(store: LocalStore) -> Iterator[Callable[..., World]]:
    """Build worlds on the test's store; they end with the test."""
    with ExitStack() as stack:
        yield lambda faults="", latency=0.0: stack.enter_context(closing(World(store, faults, latency)))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Hear an interrupt in this process, whatever its starter ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
