"""A Dagster run worker that is really killed while it sends: Dagster starts another, and nothing is billed twice."""

import csv
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.simulator import Simulator, SimulatorSettings
from tests.browser.dagster_server import DagsterServer, dagster_server

SEGMENTS = 45


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator(SimulatorSettings(latency_seconds=1.0)) as running:
        yield running


@pytest.fixture
def server(tmp_path: Path, simulator: Simulator) -> Iterator[DagsterServer]:
    folder = tmp_path / "experiments"
    folder.mkdir()
    with (folder / "samples.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text"])
        rows.writerows([f"s{number}", f"The text that has number {number}."] for number in range(10))
    (folder / "essays.yaml").write_text(
        "name: essays\nsamples: samples.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n"
        f"batch: {{segments: {SEGMENTS}}}\n",
        encoding="utf-8",
    )
    quick = {"PAIRLOG_QUIET_SECONDS": "2", "PAIRLOG_LEASE_SECONDS": "5"}
    with dagster_server(tmp_path / "dagster", simulator, folder, **quick) as running:
        yield running


@pytest.mark.timeout(600)
def test_a_run_worker_killed_while_it_sends_is_started_again_and_pays_nothing_twice(
    server: DagsterServer, simulator: Simulator
) -> None:
    config = {"ops": {"submit_experiment": {"config": {"experiment": "essays", "most_requests": 100}}}}
    first = server.launch("submit", config)
    process = int(str(server.until("a process", lambda: server.process_of(first))))
    server.until("a batch at the provider", lambda: _batches(simulator), pause=0.02)
    os.kill(process, signal.SIGKILL)
    assert _batches(simulator) < SEGMENTS, "the kill came too late to tell anything"
    server.until("every segment sent", lambda: server.is_green("submitted_batches", SEGMENTS))
    server.until("every segment parsed", lambda: server.is_green("comparisons", SEGMENTS))
    assert len([run for run in server.runs() if run["jobName"] == "submit"]) > 1, "Dagster started it again"
    assert simulator.ledger.paid_twice() == []
    assert simulator.ledger.totals.requests == 45


def _batches(simulator: Simulator) -> int:
    return len(simulator.engine.listed_jobs(wire="openai"))
