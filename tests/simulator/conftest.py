"""Simulators for the tests of the simulator."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from pipeline.clock import FixedClock
from pipeline.simulator import Simulator, SimulatorSettings
from tests.simulator.openai_wire import InProcess


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    """Serve one simulator to all tests of a module."""
    with Simulator(SimulatorSettings()) as running:
        yield running


@pytest.fixture
def simulated(clock: FixedClock) -> Iterator[Callable[..., InProcess]]:
    """Build simulators without a server; they stand on the test's clock and go with the test."""
    with ExitStack() as stack:

        def build(**fields: Any) -> InProcess:
            wire = InProcess(clock, **fields)
            stack.enter_context(closing(wire.engine))
            stack.enter_context(wire.http)
            return wire

        yield build
