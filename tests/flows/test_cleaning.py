"""Inputs at the provider: removed when the rows are durable, whoever was interrupted before, and never earlier."""

from pathlib import Path

import httpx
import pytest

from pipeline.events import FileUploaded
from pipeline.operations.batches.collecting import collect_due, poll_due
from pipeline.operations.batches.publishing import publish_due
from pipeline.operations.cancelling import cancel
from pipeline.operations.resuming import resume, submit
from pipeline.simulator import Simulator
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile, Simulate
from tests.flows.groups import SIX_BATCHES, Told, a_worker, opened
from tests.flows.studies import check_against_ledger, submitted


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
