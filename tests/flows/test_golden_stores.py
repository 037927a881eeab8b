"""Stores that this and earlier versions made: whatever was frozen in them stays as it is, byte for byte.

`tests/golden/stores/<version>` holds a store with a finished run and two that were opened and not sent, the files they
were made of, and the name of each run's configuration and requests; files are never changed.
"""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from pipeline.ids import ExperimentName, Origin
from pipeline.operations.reading.explaining import explain
from pipeline.operations.resuming import resume
from pipeline.operations.starting import check_start
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.simulator import environment
from pipeline.storage import keys
from pipeline.storage.log import read_commits
from pipeline.storage.origin import origin_of
from tests.conftest import Simulate, WorkerFor
from tests.contracts.trials import GOLDEN
from tests.flows.studies import column, counts, problems, rows, submitted

NAMES = (ExperimentName("essays"), ExperimentName("grades"))
VERSIONS = sorted((GOLDEN / "stores").iterdir())
ORIGINS = {"v1": msgspec.UNSET, "v2": Origin("00000000000000000000000000000003")}


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def version(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what a version made, with its store where the test's is."""
    path: Path = request.param
    shutil.copytree(path, tmp_path, dirs_exist_ok=True)
    return path


@pytest.fixture
def worker(version: Path, simulate: Simulate, worker_for: WorkerFor) -> Worker:
    simulator = simulate()
    return worker_for(simulator, **environment(simulator.url))


def named(runs: list[Run]) -> dict[str, Any]:
    return {
        run.run_id: {
            "digest": run.config.digest(),
            "request_ids": run.renderer.request_ids(np.arange(run.config.requests)).to_pylist(),
        }
        for run in runs
    }


def held(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (place / "store").rglob("*") if path.is_file()}


def all_runs(worker: Worker) -> list[Run]:
    return [run for name in NAMES for run in worker.runs(name)]


def schemas(worker: Worker, run: Run) -> list[int]:
    return [commit.schema for commit, _ in read_commits(worker.store, run.run_id)]


def test_runs_and_requests_keep_their_names(version: Path, worker: Worker) -> None:
    assert named(all_runs(worker)) == msgspec.json.decode((version / "runs.json").read_bytes())
    assert {run.config.origin for run in all_runs(worker)} == {ORIGINS[version.name]}
    assert problems(worker) == []


def test_what_was_frozen_is_written_as_it_was(version: Path, worker: Worker, tmp_path: Path) -> None:
    for name in NAMES:
        (before,) = (tmp_path / "store" / keys.experiments(name)).iterdir()
        submitted(worker, tmp_path / f"{name}.yaml")
        assert list(before.parent.iterdir()) == [before]
        assert before.read_bytes() == (version / "store" / keys.experiments(name) / before.name).read_bytes()
    assert worker.store.exists(keys.ORIGIN) == (version.name != "v1")


def test_any_worker_goes_on_with_nothing_but_the_store(version: Path, worker: Worker, tmp_path: Path) -> None:
    for file in tmp_path.glob("*.[cy]*"):
        file.unlink()
    assert not resume(worker, all_runs(worker), interval=0.02).is_open
    golden = msgspec.json.decode((version / "runs.json").read_bytes())
    for name in NAMES:
        assert counts(worker, name)["ok"] == 3 * len(worker.runs(name))
        wanted = {each for run in worker.runs(name) for each in golden[run.run_id]["request_ids"]}
        assert set(column(rows(worker, name), "request_id")) == wanted
        assert {explain(worker, each)["request_id"] for each in wanted} == wanted
    assert problems(worker) == []


def test_a_study_grows_beside_the_runs_it_had(version: Path, worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "essays.yaml"
    file.write_text(f"{file.read_text()}  - {{provider: gemini, model: gemini-3.8-flash}}\n")
    before = held(tmp_path)
    check_start(worker, plan(str(file), worker=worker))
    assert held(tmp_path) == before
    *old, new = submitted(worker, file)
    golden = msgspec.json.decode((version / "runs.json").read_bytes())
    assert named(old) == {run.run_id: golden[run.run_id] for run in old}
    assert new.config.origin == origin_of(worker.store, worker.clock)
    assert not resume(worker, worker.runs(NAMES[0]), interval=0.02).is_open
    assert counts(worker)["ok"] == 9
    assert problems(worker) == []


def test_earlier_versions_go_on_with_runs_they_know_and_cannot_read_a_run_with_an_origin(
    version: Path, worker: Worker, tmp_path: Path
) -> None:
    file = tmp_path / "essays.yaml"
    file.write_text(f"{file.read_text()}  - {{provider: gemini, model: gemini-3.8-flash}}\n")
    began = {run.run_id: len(schemas(worker, run)) for run in worker.runs(NAMES[0])}
    *old, new = submitted(worker, file)
    assert not resume(worker, worker.runs(NAMES[0]), interval=0.02).is_open
    known = 1 if ORIGINS[version.name] is msgspec.UNSET else 2
    assert {each for run in old for each in schemas(worker, run)[began[run.run_id] :]} == {known}
    assert set(schemas(worker, new)) == {2}
