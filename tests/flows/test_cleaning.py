"""Inputs at the provider: removed when the rows are durable, whoever was interrupted before, and never earlier."""

import signal
from pathlib import Path

import httpx
import pytest

from pipeline.clock import SystemClock
from pipeline.events import FileUploaded
from pipeline.ids import ExperimentName
from pipeline.operations.batches.collecting import collect_due, poll_due
from pipeline.operations.batches.publishing import publish_due
from pipeline.operations.cancelling import cancel
from pipeline.operations.resuming import resume, submit
from pipeline.operations.workers.worker import Worker
from pipeline.providers import ListsInputs
from pipeline.settings import Settings
from pipeline.simulator import Simulator, environment
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile, Simulate
from tests.flows.groups import SIX_BATCHES, Told, a_worker, opened
from tests.flows.striking import StruckStore, struck
from tests.flows.studies import check_against_ledger, only_batch, submitted


@pytest.fixture
def simulator(simulate: Simulate) -> Simulator:
    return simulate()


@pytest.fixture
def file(experiment_file: ExperimentFile) -> Path:
    return experiment_file(more=SIX_BATCHES)


def inputs(simulator: Simulator) -> set[str]:
    headers = {"authorization": "Bearer sk-canary-0123456789"}
    listed = httpx.get(f"{simulator.openai_base_url}/files", headers=headers).json()["data"]
    return {each["id"] for each in listed if each["purpose"] == "batch"}


def interrupted() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("cancels", [False, True])
def test_no_input_of_an_interrupted_group_is_left(
    simulator: Simulator, store: LocalStore, file: Path, cancels: bool
) -> None:
    with a_worker(store, simulator, Told(3, interrupted)) as worker:
        run = opened(worker, file)
        with pytest.raises(KeyboardInterrupt):
            submit(run)
        assert len(inputs(simulator)) == 6
    with a_worker(store, simulator, PAIRLOG_QUIET_SECONDS="0.1") as other:
        (same,) = other.runs(run.experiment.name)
        if cancels:
            cancel(same)
        assert not resume(other, [same], interval=0.02).is_open
        check_against_ledger(other, simulator.ledger)
    assert inputs(simulator) == set()


def test_who_dies_between_publishing_and_tidying_up_is_followed_by_one_that_tidies_up(
    simulator: Simulator, store: LocalStore, file: Path
) -> None:
    with a_worker(store, simulator, PAIRLOG_LEASE_SECONDS="0") as worker:
        (run,) = submitted(worker, file)
        while run.state.counts.open:
            poll_due(run)
            collect_due(run)
            publish_due(run)
        assert len(inputs(simulator)) == 6
    with a_worker(store, simulator, OPENAI_API_KEY="sk-another") as stranger:
        assert not resume(stranger, stranger.runs(run.experiment.name), interval=0.02).is_open
        assert len(inputs(simulator)) == 6
    with a_worker(store, simulator) as other:
        assert not resume(other, other.runs(run.experiment.name), interval=0.02).is_open
    assert inputs(simulator) == set()


def test_an_input_that_is_told_of_after_the_end_is_removed_too(
    simulator: Simulator, store: LocalStore, file: Path
) -> None:
    with a_worker(store, simulator) as worker:
        (run,) = submitted(worker, file)
        assert not resume(worker, [run], interval=0.02).is_open
        (first, *_) = run.state.batches.values()
        form: dict[str, tuple[str | None, str | bytes]] = {"purpose": (None, "batch"), "file": ("late.jsonl", b"{}\n")}
        headers = {"authorization": "Bearer sk-canary-0123456789"}
        late = httpx.post(f"{simulator.openai_base_url}/files", files=form, headers=headers).json()["id"]
        run.record(FileUploaded(batch_id=first.batch_id, attempt=first.attempt, file_id=late))
        assert inputs(simulator) == {late}
        resume(worker, [run], interval=0.02)
    assert inputs(simulator) == set()


def submits(store: StruckStore, url: str, file: Path) -> None:
    with Worker(store, clock=SystemClock(), settings=Settings(environment(url))) as worker:
        submitted(worker, file)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "judge",
    [
        "provider: openai, model: gpt-6-luna",
        "provider: groq, model: openai/gpt-oss-20b",
        "provider: mistral, model: mistral-large-latest",
        "provider: together, model: meta-llama/Llama-4",
    ],
)
def test_an_input_that_its_author_did_not_live_to_tell_of_is_removed_too(
    simulator: Simulator, store: LocalStore, experiment_file: ExperimentFile, tmp_path: Path, judge: str
) -> None:
    file = experiment_file(samples=3, judges=f"[{{{judge}}}]")
    dying = StruckStore(tmp_path / "store", "file-uploaded", signal.SIGKILL)
    with struck(submits, dying, simulator.url, file) as found:
        assert found.is_killed
    settings = Settings({**environment(simulator.url), "PAIRLOG_QUIET_SECONDS": "0.2"})
    with Worker(store, clock=SystemClock(), settings=settings) as worker:
        (run,) = worker.runs(ExperimentName("essays"))
        opened_by = only_batch(run).batch_key
        assert isinstance(run.provider, ListsInputs)
        assert len(run.provider.inputs(str(opened_by))) == 1
        assert not resume(worker, [run], interval=0.05).is_open
        assert only_batch(run).attempt == 2
        assert [run.provider.inputs(str(key)) for key in (opened_by, only_batch(run).batch_key)] == [[], []]
