"""The build fails where a rule is broken: the rules themselves are tested on planted sins."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the packages and their rules."""
    for name in ("pipeline", "assets"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def ruff(place: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "."],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def import_rules(place: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache"], cwd=place, env={"PYTHONPATH": str(place)}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("pipeline/planning.py", "import dagster"),
        ("pipeline/operations/workers/worker.py", "from dagster import asset"),
        ("pipeline/state.py", "import time\n\nNOW = time.time()"),
        ("pipeline/operations/resuming.py", "from datetime import datetime\n\nNOW = datetime.now()"),
        ("pipeline/pairing.py", "import random"),
        ("pipeline/storage/log.py", "import uuid"),
        ("pipeline/providers/openai.py", 'import os\n\nKEY = os.environ["OPENAI_API_KEY"]'),
        ("pipeline/ranking/elo.py", "import numpy as np\n\nDRAW = np.random.default_rng()"),
    ],
)
def test_a_planted_sin_fails_the_build(checkout: Path, file: str, line: str) -> None:
    path = checkout / file
    path.write_text(f"{path.read_text()}\n{line}\n")
    assert "TID251" in ruff(checkout)


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("pipeline/state.py", "import dagster", "The library knows no Dagster BROKEN"),
        ("pipeline/state.py", "import pipeline.operations.workers.worker", "Imports point down BROKEN"),
        ("pipeline/operations/reading/results.py", "import pipeline.notebook", "Imports point down BROKEN"),
        ("pipeline/cli/reading.py", "import pipeline.notebook", "Imports point down BROKEN"),
        (
            "pipeline/operations/workers/run.py",
            "import pipeline.operations.batches.late",
            "The rooms of operations stand on one another BROKEN",
        ),
        ("pipeline/tasks/pairwise.py", "import httpx", "The core does no input or output BROKEN"),
        ("pipeline/simulator/judge.py", "import pipeline.providers", "The simulator is an independent oracle BROKEN"),
    ],
)
def test_an_import_that_points_up_breaks_its_contract(checkout: Path, file: str, line: str, contract: str) -> None:
    path = checkout / file
    path.write_text(f"{path.read_text()}\n{line}\n")
    done = import_rules(checkout)
    assert done.returncode != 0
    assert contract in done.stdout


def test_the_code_as_it_is_passes(checkout: Path) -> None:
    assert "All checks passed" in ruff(checkout)
    assert import_rules(checkout).returncode == 0
