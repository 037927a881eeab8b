"""What the Dagster tests arrange: a store and a folder of experiments, a simulator, and an instance in memory."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import pytest

from assets.definitions import build_defs
from assets.resources import Workers
from pipeline.simulator import Simulator
from tests.assets.dagster_home import Home
from tests.conftest import environment

JUDGES = "[{provider: openai, model: gpt-6-luna}]"


@pytest.fixture
def home(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    simulate: Callable[..., Simulator],
    experiment_file: Callable[..., Path],
) -> Iterator[Callable[..., Home]]:
    """Give a code location on a store and simulator of its own, with one experiment file in its folder."""

    def build(*, judges: str = JUDGES, more: str = "", samples: int = 6, **simulated: object) -> Home:
        simulator = simulate(**simulated)
        file = experiment_file(judges=judges, more=more, samples=samples)
        for name, value in environment(simulator, PAIRLOG_EXPERIMENTS=str(file.parent)).items():
            monkeypatch.setenv(name, value)
        workers = Workers(store=str(tmp_path / "store"))
        worker = stack.enter_context(workers.worker(logging.getLogger(__name__)))
        return Home(defs=build_defs(workers), workers=workers, worker=worker, simulator=simulator, instance=instance)

    with dg.DagsterInstance.ephemeral() as instance, ExitStack() as stack:
        yield build
