"""The example files of the guide run as they stand, one after the other."""

import shutil
from collections.abc import Callable
from pathlib import Path

from pipeline.ids import ExperimentName
from pipeline.operations.reading.summaries import measures_of
from pipeline.operations.workers.worker import Worker
from pipeline.simulator import Simulator
from tests.flows.studies import counts, finished, problems

DEMO = Path(__file__).parents[2] / "infra" / "demo" / "tasks"
ENDED = {"answers": 18, "judged": 72, "verdicts": 36, "grades": 36, "pressure": 36, "flips": 24}


def test_the_examples_of_the_guide_run_as_they_stand(
    simulate: Callable[..., Simulator], worker_for: Callable[..., Worker], tmp_path: Path
) -> None:
    simulator = simulate()
    folder = shutil.copytree(DEMO, tmp_path / "tasks")
    worker = worker_for(
        simulator,
        ANTHROPIC_API_KEY="k",
        ANTHROPIC_BASE_URL=simulator.anthropic_base_url,
        GEMINI_API_KEY="k",
        GOOGLE_GEMINI_BASE_URL=simulator.gemini_base_url,
    )
    assert {path.stem for path in folder.glob("*.yaml")} == set(ENDED)
    for name, ended in ENDED.items():
        finished(worker, folder / f"{name}.yaml")
        found = counts(worker, name)
        assert (found["planned"], found["ok"], found["open"]) == (ended, ended, 0), name
    (flips,) = measures_of(worker, ExperimentName("flips"))
    assert {cell.choice for cell in flips.cells} <= {"kept", "softened", "flipped"}
    assert problems(worker) == []
