"""What many flows arrange: a world in which time passes only when a worker sleeps."""

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
