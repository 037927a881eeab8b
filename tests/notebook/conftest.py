"""A store to look into, and the command line beside the notebook, so that one can be held against the other."""

import csv
import shutil
from pathlib import Path

import pytest

from pipeline.clock import SystemClock
from pipeline.notebook import Study, open_study
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator, SimulatorSettings
from pipeline.storage.local import LocalStore
from tests.cli.conftest import Pairlog, pairlog, provide, simulator
from tests.conftest import environment
from tests.flows.studies import finished

__all__ = ["essays", "judged", "pairlog", "provide", "simulator"]

_JUDGES = "[{provider: openai, model: [gpt-6-luna, gpt-6-sol]}]"


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two studies that have ended; each batch of the first is so small that its log is long."""
    folder = tmp_path_factory.mktemp("judged")
    lines = [["id", "text"], *([f"s{number}", f"The text that has number {number}."] for number in range(6))]
    with (folder / "samples.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)
    grading = "task: grading\nscale: {low: 1, high: 5}"
    compared = "directions: [forward, reverse]\nbatch: {max_requests: 1}"
    with Simulator(SimulatorSettings()) as simulator:
        settings = Settings(environment(simulator))
        with Worker(LocalStore(folder / "store"), clock=SystemClock(), settings=settings) as worker:
            for name, more in (("essays", compared), ("grades", grading)):
                path = folder / f"{name}.yaml"
                path.write_text(f"name: {name}\nsamples: samples.csv\njudges: {_JUDGES}\n{more}\n", encoding="utf-8")
                assert not finished(worker, path, interval=0).is_open
    return folder / "store"


@pytest.fixture
def essays(judged: Path, pairlog: Pairlog, tmp_path: Path) -> Study:
    """A study of two judges in both directions, in a store of the test's own; there is no key and no provider."""
    shutil.copytree(judged, tmp_path / ".pairlog")
    return open_study("essays")
