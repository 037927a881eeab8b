"""What cannot be fetched keeps nothing that can from being stored: answers are paid for, and deleted one day."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from pipeline.operations.batches.collecting import poll_due
from pipeline.operations.batches.settling import adopt_by_hand
from pipeline.operations.cancelling import cancel
from pipeline.operations.moving import copy_store
from pipeline.operations.resuming import resume
from pipeline.operations.starting import open_planned
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.run import Run
from pipeline.state import BatchState
from pipeline.storage import keys
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile
from tests.flows.one_time import World
from tests.flows.studies import column, rows, submitted

Worlds = Callable[..., World]


class Without(httpx.HTTPTransport):
    """A way to the provider on which files of one kind are not to be had."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self._gone: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if any(file_id in request.url.path for file_id in self._gone):
            return httpx.Response(404, json={"error": {"message": "No such File object", "code": "not_found"}})
        answer = super().handle_request(request)
        if request.method == "GET" and "/batches/" in request.url.path:
            answer = httpx.Response(answer.status_code, content=answer.read())
            self._gone |= {json.loads(answer.content).get(f"{self._kind}_file_id") or "?"}
        return answer


def first_batch(run: Run) -> BatchState:
    return next(iter(run.refresh().batches.values()))


def stored(run: Run) -> list[str]:
    """The names of the parts that lie in the store for the first batch."""
    found = run.worker.store.list_from(keys.outputs(run.run_id, first_batch(run).batch_id))
    return [key.rpartition("/")[2].split(".")[1].rpartition("-")[0] for key in found]


def test_answers_are_used_though_the_errors_beside_them_are_gone(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here = world("line.400=0.4*1")
    worker = here.beside(transport=Without("error"))
    (run,) = submitted(worker, experiment_file())
    resume(worker, [run], interval=0, once=True)
    assert stored(run) == ["output"]
    assert not resume(worker, [run], interval=60).is_open
    assert Counter(zip(column(rows(worker), "status"), column(rows(worker), "attempt"), strict=True)) == {
        ("ok", 1): 9, ("ok", 2): 6,
    }  # fmt: skip
    assert "held" not in here.kinds(run)
    here.check()


@pytest.mark.parametrize("faults", ["line.400=0.4*1", "line.400"])
def test_answers_that_are_gone_are_held_and_what_is_beside_them_is_stored(
    world: Worlds, experiment_file: ExperimentFile, faults: str
) -> None:
    kind = "output" if "*" in faults else "error"
    here = world(faults)
    worker = here.beside(transport=Without(kind))
    (run,) = submitted(worker, experiment_file())
    resume(worker, [run], interval=60)
    assert (first_batch(run).phase, len(here.simulator.ledger.creates)) == ("held", 1)
    assert stored(run) == (["error"] if kind == "output" else [])
    (other,) = here.worker.runs(run.experiment.name)
    adopt_by_hand(other, first_batch(other), str(first_batch(other).remote_id))
    assert not resume(here.worker, [other], interval=60).is_open
    here.check()


class OneAccount(httpx.HTTPTransport):
    """A way to the provider on which every key is of the same account; the first creates are lost, so many."""

    def __init__(self, lost: int = 0) -> None:
        super().__init__()
        self._lost = lost

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._lost and request.method == "POST" and request.url.path.endswith("/batches"):
            self._lost -= 1
            raise httpx.ReadError("reset")
        request.headers["authorization"] = "Bearer simulated"
        return super().handle_request(request)


def test_answers_are_fetched_with_a_new_key_of_the_account_also_after_an_attempt_given_up(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here = world("", 100.0)
    before = here.beside(transport=OneAccount(lost=1), OPENAI_API_KEY="sk-old")
    (run,) = submitted(before, experiment_file())
    while first_batch(run).phase not in {"submitted", "running"}:
        resume(before, [run], interval=0, once=True)
        here.clock.sleep(300)
    after = here.beside(transport=OneAccount(), OPENAI_API_KEY="sk-new")
    assert not resume(after, after.runs(run.experiment.name), interval=60).is_open
    assert (first_batch(run).attempt, len(here.simulator.ledger.creates)) == (2, 1)
    here.check()


def test_a_key_of_another_account_says_what_was_not_looked_for(world: Worlds, experiment_file: ExperimentFile) -> None:
    here = world("create.dropped=1", 100.0)
    (run,) = submitted(here.worker, experiment_file())
    while first_batch(run).attempt < 2:
        here.clock.sleep(300)
        resume(here.worker, [run], interval=0, once=True)
    here.clock.sleep(300)
    assert poll_due(run) == 1
    nothing = httpx.Response(404, json={"error": {"message": "No batch found with that id"}})
    stranger = here.beside(transport=httpx.MockTransport(lambda _: nothing), OPENAI_API_KEY="sk-of-somebody-else")
    end = resume(stranger, stranger.runs(run.experiment.name), interval=60)
    assert (end.is_open, first_batch(run).phase) == (True, "ended")
    assert "what came of them was not looked for" in end.reasons[0]
    assert not resume(here.worker, [run], interval=60).is_open
    here.check()


@pytest.mark.parametrize("status", [404, 413, 403])
def test_a_batch_that_the_provider_does_not_stop_is_polled_on(
    world: Worlds, experiment_file: ExperimentFile, status: int
) -> None:
    here = world(f"cancel.{status}", 300.0)
    (run,) = submitted(here.worker, experiment_file())
    cancel(run)
    assert not resume(here.worker, [run], interval=60).is_open
    assert column(rows(here.worker), "status") == ["ok"] * 15
    assert "held" not in here.kinds(run)
    here.check()


class ShowsAnother(httpx.HTTPTransport):
    """A way to the provider on which another batch is shown than was asked after, as by a cache."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        if request.method != "GET" or "/batches/" not in request.url.path:
            return answer
        return httpx.Response(200, json={**json.loads(answer.read()), "id": "batch_other"})


def test_a_poll_that_shows_another_batch_is_told_of(world: Worlds, experiment_file: ExperimentFile) -> None:
    here = world()
    told: list[str] = []
    with here.beside(transport=ShowsAnother(), notify=lambda notice: told.append(notice.text)) as worker:
        (run,) = submitted(worker, experiment_file())
        resume(worker, [run], interval=0, once=True)
        assert first_batch(run).phase == "submitted"
    assert f"was asked after as {first_batch(run).remote_id}, and the provider showed batch_other instead" in told
    assert not resume(here.worker, here.worker.runs(run.experiment.name), interval=60).is_open
    here.check()


def test_rows_that_say_that_nothing_was_sent_do_not_stand_for_what_came_back(
    world: Worlds, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    here, target = world(), LocalStore(tmp_path / "copy")
    planned = plan(str(experiment_file()))
    (run,) = open_planned(here.worker, planned)
    copy_store(here.worker.store, target, clock=here.clock)
    cancel(run)
    (key,) = here.worker.store.list_from("comparisons")
    target.put_new(key, here.worker.store.get(key))  # as other tools copy it, while somebody cancels
    worker = here.beside(target)
    (copied,) = worker.runs(run.experiment.name)
    assert key in resume(worker, [copied], interval=60).reasons[0]
    (tmp_path / "copy" / key).unlink()
    assert not resume(worker, [copied], interval=60).is_open
    assert column(rows(worker), "status") == ["ok"] * here.simulator.ledger.totals.requests == ["ok"] * 15
