"""Batches that are announced together: few commits, and whatever stops the worker, the truth about each of them."""

from collections import Counter
from pathlib import Path

import httpx
import pytest

from pipeline.errors import CorruptObjectError
from pipeline.events import AnyEvent, AttemptOpened, FileUploaded, Refused, Submitted
from pipeline.operations.batches.settling import settle_due
from pipeline.operations.batches.submitting import prepare
from pipeline.operations.cancelling import cancel
from pipeline.operations.resuming import resume, submit
from pipeline.operations.workers.run import Run
from pipeline.simulator import Simulator, parse_faults
from pipeline.storage import keys
from pipeline.storage.local import LocalStore
from pipeline.storage.log import read_commits
from tests.conftest import ExperimentFile, Simulate, WorkerFor
from tests.flows.groups import SIX_BATCHES, Told, a_worker, opened
from tests.flows.studies import check_against_ledger, counts


def events(run: Run) -> list[list[AnyEvent]]:
    return [list(commit.events) for commit, _ in read_commits(run.worker.store, run.run_id)]


def phases(run: Run) -> Counter[str]:
    return Counter(batch.phase for batch in run.refresh().batches.values())


@pytest.fixture
def simulator(simulate: Simulate) -> Simulator:
    return simulate()


@pytest.fixture
def file(experiment_file: ExperimentFile) -> Path:
    return experiment_file(more=SIX_BATCHES)


def test_a_group_is_announced_before_and_recorded_after_in_one_commit_each(
    simulator: Simulator, worker_for: WorkerFor, file: Path
) -> None:
    run = opened(worker_for(simulator), file)
    assert submit(run) == 6
    kinds = [[type(event) for event in commit] for commit in events(run)]
    assert kinds[2:] == [[AttemptOpened] * 6, [FileUploaded] * 6, [Submitted] * 6]


def test_a_refusal_for_the_account_leaves_the_rest_of_the_group_unsent_and_paused(
    simulator: Simulator, store: LocalStore, file: Path
) -> None:
    refusal = httpx.Response(401, json={"error": {"code": "invalid_api_key", "message": "no"}})
    with a_worker(store, simulator, Told(3, lambda: refusal)) as worker:
        run = opened(worker, file)
        assert submit(run) == 2
        assert phases(run) == {"submitted": 2, "refused": 4}
        refused = [event for commit in events(run) for event in commit if isinstance(event, Refused)]
        assert [bool(event.unsent) for event in refused] == [False, True, True, True]
        assert all(event.needs_person and event.fault == "account" for event in refused)
        assert len(simulator.ledger.creates) == 2
        assert not resume(worker, [run], interval=0.02).is_open
        assert counts(worker)["ok"] == 12
        check_against_ledger(worker, simulator.ledger)


def test_an_account_that_a_person_must_mend_gets_one_group_and_no_more(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("create.401"))
    with a_worker(store, simulator, PAIRLOG_PAUSE_SECONDS="300") as worker:
        run = opened(worker, experiment_file(more="pairs: {design: random, count: 15}\nbatch: {max_requests: 1}"))
        end = resume(worker, [run], interval=0.02)
        assert not end.moves_by_itself
        assert len(end.reasons) == 1
        assert "s000-1 and 7 more: " in end.reasons[0]
        assert len(simulator.ledger.creates) == 1
        simulator.engine.faults.replace({})
        assert not resume(worker, [run], interval=0.02).is_open
        check_against_ledger(worker, simulator.ledger)


def test_a_content_refusal_ends_its_own_batch_only(simulator: Simulator, store: LocalStore, file: Path) -> None:
    refusal = httpx.Response(400, json={"error": {"code": "invalid_request", "message": "no"}})
    with a_worker(store, simulator, Told(3, lambda: refusal)) as worker:
        run = opened(worker, file)
        assert submit(run) == 5
        assert not resume(worker, [run], interval=0.02).is_open
        assert (counts(worker)["ok"], counts(worker)["errored"]) == (10, 2)


def test_an_uncertain_create_does_not_stop_its_group(simulate: Simulate, store: LocalStore, file: Path) -> None:
    simulator = simulate(faults=parse_faults("create.lost=1"))
    with a_worker(store, simulator) as worker:
        run = opened(worker, file)
        assert submit(run) == 5
        assert phases(run) == {"submitted": 5, "uncertain": 1}
        assert not resume(worker, [run], interval=0.02).is_open
        check_against_ledger(worker, simulator.ledger)


def test_a_cancel_in_the_middle_of_a_group_sends_no_more(simulator: Simulator, store: LocalStore, file: Path) -> None:
    with a_worker(store, simulator) as other:

        def cancelled() -> None:
            (run,) = other.runs(other.experiment_names()[0])
            cancel(run)

        with a_worker(store, simulator, Told(3, cancelled)) as worker:
            run = opened(worker, file)
            assert submit(run) == 3
            assert phases(run)["cancelled"] == 3
            assert not resume(worker, [run], interval=0.02).is_open
            assert len(simulator.ledger.creates) == 3
            check_against_ledger(worker, simulator.ledger)


@pytest.mark.parametrize("doubts", [True, False])
def test_a_worker_that_lost_the_lease_says_what_it_did_not_send_and_the_next_need_not_wait(
    simulator: Simulator, store: LocalStore, file: Path, doubts: bool
) -> None:
    with a_worker(store, simulator) as other:

        def taken_over() -> None:
            (same,) = other.runs(other.experiment_names()[0])
            assert same.keep()
            if doubts:
                settle_due(same)

        with a_worker(store, simulator, Told(3, taken_over), PAIRLOG_LEASE_SECONDS="0") as worker:
            run = opened(worker, file)
            assert submit(run) == 3
            assert phases(run) == {"submitted": 3, "refused": 3}
        (same,) = other.runs(other.experiment_names()[0])
        assert not resume(other, [same], interval=0.02).is_open
        assert len(simulator.ledger.creates) == 6
        check_against_ledger(other, simulator.ledger)


def test_an_interrupted_worker_says_what_it_did_not_send(simulator: Simulator, store: LocalStore, file: Path) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with a_worker(store, simulator, Told(3, interrupted)) as worker:
        run = opened(worker, file)
        with pytest.raises(KeyboardInterrupt):
            submit(run)
        assert phases(run) == {"submitted": 2, "submitting": 1, "refused": 3}


def test_an_input_that_rotted_stops_the_command_and_nothing_of_its_group_is_in_doubt(
    simulator: Simulator, store: LocalStore, file: Path
) -> None:
    with a_worker(store, simulator) as worker:
        run = opened(worker, file)
        for batch in list(run.state.batches.values()):
            prepare(run, batch)
        last = Path(store.url.removeprefix("file://")) / keys.requests(run.run_id, batch.batch_id)
        last.chmod(0o600)
        last.write_bytes(last.read_bytes()[:-9])
        with pytest.raises(CorruptObjectError, match="requests/"):
            submit(run)
        assert phases(run) == {"refused": 6}
        assert simulator.ledger.creates == []


def test_files_of_attempts_that_were_not_sent_are_removed(simulator: Simulator, store: LocalStore, file: Path) -> None:
    refusal = httpx.Response(429, json={"error": {"code": "rate_limit", "message": "later"}})
    with a_worker(store, simulator, Told(3, lambda: refusal)) as worker:
        run = opened(worker, file)
        submit(run)
        uploaded = {e.file_id: e.batch_id for c in events(run) for e in c if isinstance(e, FileUploaded)}
        used = {batch_id for batch_id, batch in run.state.batches.items() if batch.phase == "submitted"}
        listed = httpx.get(
            f"{simulator.openai_base_url}/files", headers={"authorization": "Bearer sk-canary-0123456789"}
        ).json()
        left = {uploaded[each["id"]] for each in listed["data"] if each["id"] in uploaded}
        assert left == used
