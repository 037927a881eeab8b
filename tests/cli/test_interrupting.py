"""Ctrl-C as a person presses it: one plain line that is true, whenever it comes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.simulator import Simulator
from tests.cli.conftest import Called, Pairlog
from tests.conftest import ExperimentFile, Simulate, environment

RESUMES = "stopped: interrupted; nothing is lost: `pairlog resume` continues from here"
# The process must hear signals that a test's starter may ignore.
CALL = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from pipeline.cli import main; main()"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def call(*arguments: object, options: tuple[str, ...] = (), **more: str) -> subprocess.Popen[str]:
        told = [sys.executable, *options, "-c", CALL, *map(str, arguments)]
        surroundings = {**os.environ, "PAIRLOG_STORE": str(tmp_path / "store"), "COLUMNS": "200", **more}
        started.append(
            subprocess.Popen(told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings)
        )
        return started[-1]

    yield call
    for process in started:
        process.kill()
        process.communicate()


def interrupted(process: "subprocess.Popen[str]") -> Called:
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return Called(code=process.returncode, out=out, err=err)


def interrupted_at(module: str, process: "subprocess.Popen[str]") -> Called:
    """Interrupt a process that tells its imports, right after that of the module."""
    assert process.stderr is not None
    assert any(line.rpartition("|")[2].strip() == module for line in process.stderr)
    called = interrupted(process)
    said = [line for line in called.err.splitlines() if not line.startswith("import time:")]
    return Called(code=called.code, out=called.out, err="\n".join(said))


@pytest.mark.parametrize("module", ["typer.core", "rich.console", "msgspec", "pipeline.operations.workers.worker"])
def test_ctrl_c_while_modules_are_imported_is_one_plain_line(start: Start, module: str) -> None:
    called = interrupted_at(module, start("status", options=("-X", "importtime")))
    assert (called.code, called.err) == (1, "stopped: interrupted before anything was done")


def test_ctrl_c_before_anything_was_planned_does_not_speak_of_resuming(
    start: Start, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    process = start("run", experiment_file(), options=("-X", "importtime"), OPENAI_API_KEY="k")
    called = interrupted_at("scipy.sparse._sparsetools", process)  # which pairs are linked is seen before all else
    assert (called.code, called.err) == (1, "stopped: interrupted; nothing was planned or sent yet; run it again")
    assert not (tmp_path / "store").exists()


def test_ctrl_c_while_batches_are_polled_says_that_nothing_is_lost(
    start: Start, simulate: Simulate, experiment_file: ExperimentFile
) -> None:
    process = start("run", experiment_file(), **environment(simulate(latency_seconds=600.0)))
    assert process.stderr is not None
    assert "of 15 requests have ended" in next(line for line in process.stderr if "ended" in line)
    called = interrupted(process)
    assert (called.code, called.last_line) == (1, RESUMES)


def test_ctrl_c_in_a_command_that_only_reads_claims_nothing(
    start: Start, pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    assert pairlog("submit", experiment_file(), "--store", "store").code == 0
    run = "essays--default--openai--gpt-6-luna--default--forward"
    process = start("events", run, "--follow", "--json")
    assert process.stdout is not None
    assert process.stdout.readline()
    called = interrupted(process)
    assert (called.code, called.last_line) == (1, "stopped: interrupted")
