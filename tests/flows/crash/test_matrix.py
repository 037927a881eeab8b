"""The crash matrix: whatever happens at whichever boundary, each request is paid once and in the table once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.simulator import Simulator
from tests.conftest import Simulate

QUICK = ["kill-before", "kill-after", "refused-503,applied-503,applied-reset", "overtaken-before"]
WHOLE = [*QUICK, "overtaken-after", "kill-during", "io-error", "no-space", "lost-acknowledgement"]
ROOT = Path(__file__).parents[3]
Record = Callable[[str, object], None]


class Matrix:
    """The driver on a simulator of its own; it forks a process for every cell."""

    def __init__(self, simulator: Simulator, folder: Path, record: Record) -> None:
        self._simulator = simulator
        self._folder = folder
        self._record = record

    def check(self, what: str, *arguments: str, env: dict[str, str] | None = None) -> None:
        """Run the cells and assert that none is wrong; how many they were is told at the end of the tests."""
        command = [sys.executable, "-m", "tests.flows.crash.driver", str(self._folder), self._simulator.url, *arguments]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
            )
        finally:
            subprocess.run(["rm", "-rf", str(self._folder)], check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        found = json.loads(done.stdout)
        self._record(f"told: {what}: cells", found["cells"])
        self._record(f"told: {what}: cells that went wrong", len(found["wrong"]))
        assert found["wrong"] == []
        assert found["cells"] > 0


@pytest.fixture
def matrix(simulate: Simulate, tmp_path: Path, record_property: Record) -> Matrix:
    return Matrix(simulate(), tmp_path, record_property)


@pytest.fixture(params=["s3", "gcs"])
def remote(request: pytest.FixtureRequest) -> tuple[str, dict[str, str]]:
    """The address below which an object store has room for cells, and the environment of whoever uses it."""
    name = f"pairlog/crash-{request.node.name.encode().hex()[-40:]}"
    if request.param == "gcs":
        return f"gs://{name}", {"STORAGE_EMULATOR_HOST": request.getfixturevalue("gcs_server")}
    request.getfixturevalue("s3_client")
    return f"s3://{name}", request.getfixturevalue("s3_server").environment()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kinds", QUICK)
def test_the_quick_part_of_the_matrix(matrix: Matrix, kinds: str) -> None:
    """Every fourth cell of a kind, each kind from another start, so that all boundaries are met by some."""
    matrix.check("crash matrix, quick part", "--kinds", kinds, "--shard", f"{QUICK.index(kinds)}/{len(QUICK)}")


@pytest.mark.timeout(600)
def test_some_of_the_matrix_of_a_study_that_is_cancelled(matrix: Matrix) -> None:
    matrix.check("crash matrix of a cancelled study", "--cancel", "--kinds", ",".join(QUICK), "--shard", "5/13")


@pytest.mark.timeout(600)
def test_some_of_the_quick_part_on_object_stores(matrix: Matrix, remote: tuple[str, dict[str, str]]) -> None:
    """Cells of every kind; which, depends on the store, so that the two together meet more boundaries."""
    url, env = remote
    shard = f"{3 if url.startswith('s3') else 11}/29"
    matrix.check("crash matrix on object stores", "--store", url, "--kinds", ",".join(QUICK), "--shard", shard, env=env)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kinds", QUICK)
def test_the_quick_part_on_object_stores(matrix: Matrix, remote: tuple[str, dict[str, str]], kinds: str) -> None:
    url, env = remote
    shard = f"{QUICK.index(kinds)}/{len(QUICK)}"
    what = f"crash matrix, quick part on {url[:2]}"
    matrix.check(what, "--store", url, "--kinds", kinds, "--shard", shard, env=env)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shard", range(2))
@pytest.mark.parametrize("kinds", WHOLE)
def test_the_whole_matrix(matrix: Matrix, kinds: str, shard: int) -> None:
    matrix.check("crash matrix, whole", "--kinds", kinds, "--shard", f"{shard}/2")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kinds", QUICK)
@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
def test_the_matrix_on_other_wires(matrix: Matrix, provider: str, kinds: str) -> None:
    matrix.check(f"crash matrix on {provider}", "--provider", provider, "--kinds", kinds, "--shard", "0/2")


@pytest.mark.timeout(600)
def test_some_of_the_quick_part_in_conversations(matrix: Matrix) -> None:
    """Two turns: what a worker left undone between them is gone on with, from the answers that were stored."""
    matrix.check(
        "crash matrix of conversations", "--study", "conversation", "--kinds", ",".join(QUICK), "--shard", "5/13"
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kinds", QUICK)
def test_the_quick_part_in_conversations(matrix: Matrix, kinds: str) -> None:
    matrix.check("crash matrix of conversations", "--study", "conversation", "--kinds", kinds)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kinds", QUICK)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_the_matrix_of_a_study_that_is_cancelled(matrix: Matrix, provider: str, kinds: str) -> None:
    what = f"crash matrix of a cancelled study, {provider}"
    matrix.check(what, "--cancel", "--provider", provider, "--kinds", kinds)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2))
def test_pairs_of_crashes(matrix: Matrix, seed: int) -> None:
    matrix.check("pairs of crashes", "--pairs", f"{seed}:150")
