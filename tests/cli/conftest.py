"""Commands called in this process, with the simulator as their provider; files of judged pairs for them."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pipeline.cli import run
from pipeline.simulator import Simulator
from tests.conftest import Simulate, environment


class Called(msgspec.Struct):
    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        return self.err.strip().splitlines()[-1]


Pairlog = Callable[..., Called]
HEADER = "first_id,second_id,winner_id,model"
SMALL = ["a,b,a,m", "b,c,b,m", "c,a,c,m", "a,c,a,m", "b,a,b,n", "c,b,c,n", "a,c,a,n", "a,b,a,n"]
ONE_JUDGE = [row.replace(",n", ",m") for row in SMALL]  # no parts, and no panel: quickly resampled


def a_file(folder: Path, rows: list[str]) -> Path:
    file = folder / "pairs.csv"
    file.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def pairlog(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Pairlog:
    """Call a command in this process, in a folder of its own and with nothing of ours in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("PAIRLOG_STORE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> Called:
        code = run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Called(code=code, out=said.out, err=said.err)

    return call


@pytest.fixture
def provide(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """Start a simulator with the given settings, which commands then find as their provider."""

    def start(**fields: object) -> Simulator:
        simulator = simulate(**fields)
        for name, value in environment(simulator).items():
            monkeypatch.setenv(name, value)
        return simulator

    return start


@pytest.fixture
def simulator(provide: Simulate) -> Simulator:
    return provide()
