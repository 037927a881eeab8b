"""The bundled example: a simulator on loopback, the whole path, and the order found beside the true one."""

import csv
import sys
from pathlib import Path

from pipeline.cli.app import if_interrupted
from pipeline.cli.ranked import tell_notes
from pipeline.cli.screen import number, rows, say, show
from pipeline.cli.studying import finish, submitted
from pipeline.clock import Clock
from pipeline.errors import ConfigError
from pipeline.ids import ExperimentName
from pipeline.operations.reading.results import table_of
from pipeline.operations.workers.worker import Worker
from pipeline.ranking import RankingOptions, Unrankable, rank
from pipeline.settings import Settings
from pipeline.simulator import Simulator, SimulatorSettings
from pipeline.storage import open_store

_NAME = ExperimentName("essays")


def demo_folder() -> Path:
    """Return where the example is: in an installed package, or in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "demo", package.parent / "infra" / "demo"):
        if folder.is_dir():
            return folder
    raise ConfigError("the bundled example is missing from this installation; install pairlog again")


def show_demo(store: str, *, clock: Clock) -> int:
    """Run the example on a simulator of its own and show what came out; return the exit code."""
    folder = demo_folder()
    truth = _truth(folder / "essays.csv")
    qualities = {text: quality for text, quality, _ in truth}
    with Simulator(SimulatorSettings(qualities=qualities, sharpness=3.0, bias=0.4, seed=7)) as simulator:
        environment = {"OPENAI_API_KEY": "simulated", "OPENAI_BASE_URL": simulator.openai_base_url}
        with Worker(open_store(store), clock=clock, settings=Settings(environment), notify=show) as worker:
            runs = submitted(worker, str(folder / "essays.yaml"))
            if_interrupted("interrupted; the example can be run again")
            code = finish(worker, runs, interval=0.1)
            _show_order(worker, [sample_id for _, _, sample_id in sorted(truth, key=lambda each: -each[1])])
    say(f"read the rows with any Parquet reader: {worker.store.url}/comparisons/**/*.parquet")
    say(f"or go on here:\n  {_command()} rank {_NAME} --store {store}")
    say(f"  {_command()} report {_NAME} --store {store} --out {_NAME}.html")
    return code


def _command() -> str:
    """Return what was typed to come here: the command need not be on the path."""
    return sys.argv[0] if Path(sys.argv[0]).name == "pairlog" else "pairlog"


def _truth(path: Path) -> list[tuple[str, float, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["text"], float(row["quality"]), row["id"]) for row in csv.DictReader(file)]


def _show_order(worker: Worker, true_order: list[str]) -> None:
    found = rank(table_of(worker, _NAME), RankingOptions())
    if isinstance(found, Unrankable):
        say(found.reason)
        return
    lines = [
        [str(each.rank), each.contestant, number(each.score), f"{number(each.low)} … {number(each.high)}", true]
        for each, true in zip(found.standings, true_order, strict=True)
    ]
    rows("the order found, beside the true one", ["", "found", "score", "95 %", "true"], lines)
    tell_notes(found)
