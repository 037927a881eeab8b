"""The crash matrix: whatever happens at whichever boundary, each request is paid once and in the table once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.simulator import Simulator

QUICK = ["kill-before", "kill-after", "refused-503,applied-503,applied-reset", "overtaken-before"]
WHOLE = [*QUICK, "overtaken-after", "kill-during", "io-error", "lost-acknowledgement"]
ROOT = Path(__file__).parents[3]


def the_matrix(simulator: Simulator, tmp_path: Path, *arguments: str) -> dict[str, object]:
    """Run the driver, which forks a process for every cell, on a disk in memory where there is one."""
    memory = Path("/dev/shm")
    folder = tmp_path if not memory.is_dir() else memory / f"pairlog-{os.getpid()}-{tmp_path.name}"
    command = [sys.executable, "-m", "tests.flows.crash.driver", str(folder), simulator.url, *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1700, check=False)
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def check(found: dict[str, object], capsys: pytest.CaptureFixture[str], what: str) -> None:
    with capsys.disabled():
        print(f"\n{what}: {found['cells']} cells of {len(found['boundaries'])} boundaries, {len(found['wrong'])} wrong")
    assert found["wrong"] == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kinds", QUICK)
def test_the_quick_part_of_the_matrix(
    simulate: Callable[..., Simulator], tmp_path: Path, capsys: pytest.CaptureFixture[str], kinds: str
) -> None:
    """Every fourth cell of a kind, each kind from another start, so that all boundaries are met by some."""
    shard = f"{QUICK.index(kinds)}/{len(QUICK)}"
    check(the_matrix(simulate(), tmp_path, "--kinds", kinds, "--shard", shard), capsys, f"{kinds} {shard}")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shard", range(2))
@pytest.mark.parametrize("kinds", WHOLE)
def test_the_whole_matrix(
    simulate: Callable[..., Simulator], tmp_path: Path, capsys: pytest.CaptureFixture[str], kinds: str, shard: int
) -> None:
    check(the_matrix(simulate(), tmp_path, "--kinds", kinds, "--shard", f"{shard}/2"), capsys, f"{kinds} {shard}/2")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2))
def test_pairs_of_crashes(
    simulate: Callable[..., Simulator], tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    check(the_matrix(simulate(), tmp_path, "--pairs", f"{seed}:150"), capsys, f"pairs, seed {seed}")
