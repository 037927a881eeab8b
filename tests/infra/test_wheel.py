"""The distribution that is built: what only a checkout would have otherwise."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network and unpacked where no checkout is."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "built")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (folder / "built").iterdir()
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "installed")
    return folder / "installed"


def test_the_wheel_carries_the_bundled_example(installed: Path) -> None:
    bundled = installed / "pipeline" / "demo"
    carried = {str(path.relative_to(bundled)): path.read_bytes() for path in bundled.rglob("*") if path.is_file()}
    source = ROOT / "infra" / "demo"
    kept = [path for path in source.rglob("*") if path.suffix in {".csv", ".yaml", ".jsonl"}]
    assert carried == {str(path.relative_to(source)): path.read_bytes() for path in kept}


def test_the_demo_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline.cli", "demo", "--store", str(tmp_path / "store")]
    environment = {**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "200"}
    called = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert called.returncode == 0, called.stderr
    assert "the order found, beside the true one" in called.stderr


def test_the_image_is_built_with_all_that_the_wheel_carries() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    lines = (ROOT / "infra" / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    for needed in (*built["wheel"]["packages"], *built["wheel"]["force-include"]):
        assert {needed, *map(str, Path(needed).parents)} & copied, needed
