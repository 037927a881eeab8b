"""Providers on simulators, for the contracts."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contracts.trials import Trial


@pytest.fixture
def tried() -> Iterator[Callable[..., Trial]]:
    with contextlib.ExitStack() as stack:

        def start(name: str, **fields: Any) -> Trial:
            trial = Trial(name, **fields)
            stack.enter_context(trial.stack)
            return trial

        yield start
