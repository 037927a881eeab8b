"""What many tests arrange: a store, a clock, a simulator, a worker on them, an experiment file on disk."""

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings

from pipeline.clock import FixedClock, SystemClock
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator, SimulatorSettings
from pipeline.storage.local import LocalStore

settings.register_profile("pairlog", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("pairlog")

pytest_plugins = ["tests.folders"]

Simulate = Callable[..., Simulator]
WorkerFor = Callable[..., Worker]
ExperimentFile = Callable[..., Path]


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(datetime(2026, 11, 16, 9, tzinfo=UTC))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def simulate() -> Iterator[Simulate]:
    """Start simulators with the given settings; they stop with the test."""
    with ExitStack() as stack:
        yield lambda **fields: stack.enter_context(Simulator(SimulatorSettings(**fields)))


def environment(simulator: Simulator, **more: str) -> dict[str, str]:
    """The environment of a worker whose provider is the simulator."""
    return {"OPENAI_API_KEY": "sk-canary-0123456789", "OPENAI_BASE_URL": simulator.openai_base_url, **more}


@pytest.fixture
def worker_for(store: LocalStore) -> Iterator[WorkerFor]:
    """Build workers on the test's store; they close with the test."""
    with ExitStack() as stack:

        def build(simulator: Simulator, **more: str) -> Worker:
            settings = Settings(environment(simulator, **more))
            return stack.enter_context(Worker(store, clock=SystemClock(), settings=settings))

        yield build


@pytest.fixture
def experiment_file(tmp_path: Path) -> ExperimentFile:
    """Write samples and an experiment file on them; return its path."""

    def write(
        *,
        name: str = "essays",
        samples: int = 6,
        judges: str = "[{provider: openai, model: gpt-6-luna}]",
        more: str = "",
    ) -> Path:
        with (tmp_path / "samples.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["id", "text"])
            rows.writerows([f"s{number}", f"The text that has number {number}."] for number in range(samples))
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"name: {name}\nsamples: samples.csv\njudges: {judges}\n{more}\n", encoding="utf-8")
        return path

    return write


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end how much was tried, whichever process tried it: cells of the crash matrix, simulated histories."""
    tried: Counter[str] = Counter()
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        tried.update({name: value for name, value in report.user_properties if name.startswith("told: ")})
    for name, total in list(tried.items()):
        if (what := name.rpartition(": ")[2]).startswith(("cells", "seeds")):
            tried[f"told: in all: {what}"] += total
    for name, total in sorted(tried.items()):
        terminalreporter.write_line(f"{name.removeprefix('told: ')}: {total}")
