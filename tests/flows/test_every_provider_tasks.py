"""Every task on every wire: system prompts, schemas or tags, and turns that hold the answers before them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.simulator import Simulator
from pipeline.storage.local import LocalStore
from tests.flows.studies import column, finished, problems, rows
from tests.flows.test_every_provider import BATCH, LIVE, a_judge, a_worker

TASKS = {
    "generation": 4,
    "compliance": 4,
    "grading\nscale: {low: 0, high: 10}": 4,
    "classification\nlabels: {a: bad, b: good}": 4,
    "conversation\nturns: ['Are you sure?']": 8,
}


@pytest.mark.parametrize("task", TASKS, ids=lambda text: text.partition("\n")[0])
def test_a_task_gives_the_same_table_on_every_provider(
    simulate: Callable[..., Simulator], store: LocalStore, tmp_path: Path, task: str
) -> None:
    lines = [{"id": f"p{n}", "text": f"Text {n}.", "context": "Be brief." if n % 2 else None} for n in range(4)]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    judges = [a_judge(name) for name in BATCH] + [a_judge(name, "live") for name in LIVE]
    (tmp_path / "e.yaml").write_text(f"name: e\nsamples: s.jsonl\ntask: {task}\njudges: [{', '.join(judges)}]\n")
    simulator = simulate()
    with a_worker(store, simulator, *{*BATCH, *LIVE}) as worker:
        finished(worker, tmp_path / "e.yaml")
        table = rows(worker, "e")
        assert table.num_rows == TASKS[task] * len(judges)
        assert set(column(table, "status")) == {"ok"}
        assert simulator.ledger.paid_twice() == []
        assert problems(worker) == []
        for run in worker.runs(worker.experiment_names()[0]):
            if task.startswith("conversation"):
                second = run.renderer.line(len(run.renderer) - 1).decode()
                first = run.answers(run.renderer.samples[-1:])[0]  # type: ignore[attr-defined]
                assert first is not None
                assert json.dumps(first)[1:-1] in second
                assert "Be brief." in second
