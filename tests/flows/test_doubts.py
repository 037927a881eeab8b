"""Doubtful creates: clocks that are off, guesses that are wrong, proofs that come late.

Each was once a way to pay twice or to lose what was paid for.
"""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from pipeline.events import Submitted
from pipeline.operations.cancelling import cancel
from pipeline.operations.resuming import resume
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile
from tests.flows.one_time import World
from tests.flows.studies import column, counts, only_batch, rows, submitted

JUDGES = {
    "openai": "[{provider: openai, model: gpt-6-luna}]",
    "anthropic": "[{provider: anthropic, model: claude-haiku-5-5}]",
    "mistral": "[{provider: mistral, model: mistral-large-latest}]",
    "together": "[{provider: together, model: Qwen/Qwen3-235B-A22B-fp8-tput}]",
    "vertex": "[{provider: vertex, model: gemini-3.8-flash}]",
    "xai": "[{provider: xai, model: grok-5}]",
}
Worlds = Callable[..., World]


@pytest.mark.parametrize("off", [-3600.0, 3600.0, 86400.0])
@pytest.mark.parametrize(
    ("provider", "faults"), [("anthropic", "create.late:60=1"), ("openai", "create.lost=1,list.lag:60")]
)
def test_a_quiet_period_is_timed_by_whoever_waits(
    world: Worlds, experiment_file: ExperimentFile, provider: str, faults: str, off: float
) -> None:
    here = world(faults, 5.0)
    (run,) = submitted(here.worker, experiment_file(judges=JUDGES[provider]))
    other = here.beside(off=off)
    assert not resume(other, other.runs(run.experiment.name), interval=10).is_open
    assert len(here.simulator.ledger.creates) == 1
    here.check()


def test_what_only_ever_new_machines_look_for_is_sent_again_after_a_day(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here = world("create.dropped=1", 5.0)
    (run,) = submitted(here.worker, experiment_file(judges=JUDGES["openai"]))
    for hour in range(36):
        assert only_batch(run).phase == "uncertain" or hour > 26
        worker = here.beside(off=0.0, boot=f"machine {hour}")
        resume(worker, worker.runs(run.experiment.name), interval=1, once=True)
        here.clock.sleep(3600)
    assert only_batch(run).phase == "published"
    assert here.kinds(run).count("uncertain") <= 30
    here.check()


@pytest.mark.parametrize("off", [-3600.0, 3600.0])
def test_answers_that_land_late_are_found_by_a_clock_that_is_off(
    world: Worlds, experiment_file: ExperimentFile, off: float
) -> None:
    here = world("create.late:900=1")
    other = here.beside(off=off)
    (run,) = submitted(other, experiment_file(judges=JUDGES["anthropic"]))
    cancel(run)
    assert not resume(other, [run], interval=30).is_open
    assert column(rows(here.worker), "status") == ["ok"] * 15
    here.check()


class WhileItIsSent(httpx.HTTPTransport):
    """Something happens while the body of a create is on its way."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and request.url.path.endswith("/batches"):
            body = request.read()
            self._meanwhile()
            request = httpx.Request("POST", request.url, headers=request.headers, content=body)
        return super().handle_request(request)


def test_what_the_author_tells_wins_over_a_guess_and_no_colleague_is_harmed(
    world: Worlds, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    here = world("", 2000.0)
    colleague = here.beside(LocalStore(tmp_path / "colleague"))
    (theirs,) = submitted(colleague, experiment_file(name="theirs", judges=JUDGES["anthropic"]))
    here.clock.sleep(300)

    def another_worker_guesses() -> None:
        other = here.beside()
        (run,) = other.runs(other.experiment_names()[0])
        other.leases.is_free(run.run_id)
        here.clock.sleep(61)
        resume(other, [run], interval=0, once=True)
        assert (only_batch(run).remote_id, only_batch(run).proven) == (only_batch(theirs).remote_id, False)

    author = here.beside(transport=WhileItIsSent(another_worker_guesses))
    (run,) = submitted(author, experiment_file(judges=JUDGES["anthropic"]))
    assert (only_batch(run).remote_id != only_batch(theirs).remote_id, only_batch(run).superseded) == (True, ())
    here.clock.sleep(100)
    assert not resume(here.worker, here.worker.runs(run.experiment.name), interval=60).is_open
    assert not resume(colleague, [theirs], interval=60).is_open
    assert here.simulator.ledger.cancels == []
    assert here.simulator.ledger.paid_twice() == []
    assert (counts(here.worker)["ok"], counts(colleague, "theirs")["ok"]) == (15, 15)


def test_a_guess_whose_ids_are_anothers_is_looked_for_again_without_a_person(
    world: Worlds, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    here = world("create.dropped=1", 1000.0)
    (run,) = submitted(here.worker, experiment_file(judges=JUDGES["anthropic"]))
    colleague = here.beside(LocalStore(tmp_path / "colleague"))
    submitted(colleague, experiment_file(name="theirs", judges=JUDGES["anthropic"]))
    assert not resume(here.worker, [run], interval=60).is_open
    assert here.kinds(run).count("adopted") == 1
    assert here.kinds(run).count("held") == 0
    assert here.simulator.ledger.cancels == []
    assert counts(here.worker)["ok"] == 15


class Busy(httpx.HTTPTransport):
    """No batch can be made now."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and request.url.path.endswith("/batches"):
            return httpx.Response(429, headers={"retry-after": "200"}, json={"error": {"message": "slow down"}})
        return super().handle_request(request)


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_batch_that_turns_up_while_its_successor_is_refused_is_followed(
    world: Worlds, experiment_file: ExperimentFile, provider: str, *, cancelled: bool
) -> None:
    here = world("create.lost=1,list.lag:86400")
    (run,) = submitted(here.worker, experiment_file(judges=JUDGES[provider]))
    (made,) = here.simulator.ledger.batches
    while run.provider.status(made.batch_id).end is None:
        pass  # it is answered, and paid for, before its input is taken away
    busy = here.beside(transport=Busy())
    (other,) = busy.runs(run.experiment.name)
    while only_batch(other).attempt < 2:
        resume(busy, [other], interval=0, once=True)
        here.clock.sleep(30)
    run.refresh()
    run.record(Submitted(batch_id=only_batch(run).batch_id, attempt=1, remote_id=made.batch_id))
    if cancelled:
        cancel(run)
    assert not resume(here.worker, [run], interval=60).is_open
    assert len(here.simulator.ledger.creates) == 1
    assert column(rows(here.worker), "status") == ["ok"] * 15
    here.check()


def test_a_double_that_is_known_is_stopped_at_once(world: Worlds, experiment_file: ExperimentFile) -> None:
    here = world("create.late:900=1", 4000.0)
    (run,) = submitted(here.worker, experiment_file(judges=JUDGES["anthropic"]))
    while len(here.simulator.ledger.batches) < 2:
        resume(here.worker, [run], interval=0, once=True)
        here.clock.sleep(30)
    here.clock.sleep(300)
    known = only_batch(run)
    (double,) = {made.batch_id for made in here.simulator.ledger.batches} - {known.remote_id}
    run.record(Submitted(batch_id=known.batch_id, attempt=1, remote_id=double))
    resume(here.worker, [run], interval=0, once=True)
    assert [each.batch_id for each in here.simulator.ledger.cancels] == [double]
    assert not resume(here.worker, [run], interval=60).is_open
    assert here.simulator.ledger.paid_twice() == []


class Twice(httpx.HTTPTransport):
    """A gateway that repeats the first create and tells nobody how either ended."""

    def __init__(self, between: Callable[[], None]) -> None:
        super().__init__()
        self._between = between
        self._is_new = True

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._is_new and request.method == "POST" and request.url.path.endswith("/batches"):
            self._is_new = False
            body = request.read()
            for _ in range(2):
                copy = httpx.Request("POST", request.url, headers=request.headers, content=body)
                super().handle_request(copy).read()
                self._between()
            raise httpx.ReadTimeout("no answer", request=request)
        return super().handle_request(request)


def test_of_two_batches_under_one_key_the_one_that_failed_is_not_kept(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here = world("run.token_limit=1")
    worker = here.beside(transport=Twice(lambda: here.clock.sleep(1)))
    (run,) = submitted(worker, experiment_file())
    for made in here.simulator.ledger.batches:
        while run.provider.status(made.batch_id).end is None:
            pass
    assert not resume(worker, [run], interval=10).is_open
    assert len(here.simulator.ledger.creates) == 2
    assert here.simulator.ledger.paid_twice() == []
    assert column(rows(worker), "status") == ["ok"] * 15


class LandsAtTheFence(httpx.HTTPTransport):
    """The first create is answered by nobody and applied just before its input is removed."""

    held: httpx.Request | None = None
    is_over = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        is_create = request.url.path.endswith(("/batches", "/batch/jobs", "/batchPredictionJobs"))
        if request.method == "POST" and is_create and self.held is None:
            self.held = httpx.Request("POST", request.url, headers=request.headers, content=request.read())
            raise httpx.ReadTimeout("no answer", request=request)
        if request.method == "DELETE" and self.held is not None and not self.is_over:
            self.is_over = True
            super().handle_request(self.held).read()
        return super().handle_request(request)


@pytest.mark.parametrize("provider", ["openai", "mistral", "together", "vertex", "xai"])
def test_a_create_that_lands_at_the_fence_is_sent_again_without_a_person(
    world: Worlds, experiment_file: ExperimentFile, provider: str
) -> None:
    here = world()
    worker = here.beside(transport=LandsAtTheFence())
    (run,) = submitted(worker, experiment_file(judges=JUDGES[provider]))
    assert not resume(worker, [run], interval=30).is_open
    assert here.simulator.ledger.paid_twice() == []
    assert column(rows(worker), "status") == ["ok"] * 15


class ShownBehindTheFence(httpx.HTTPTransport):
    """A create that breaks off, and whose batch is shown only after its file was removed and a listing failed."""

    def __init__(self) -> None:
        super().__init__()
        self._is_made = self._is_fenced = False
        self._failing = 5

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        is_of_batches = request.url.path.endswith("/batches")
        if request.method == "POST" and is_of_batches and not self._is_made:
            self._is_made = True
            raise httpx.ReadError("reset")
        self._is_fenced |= request.method == "DELETE"
        if request.method == "GET" and is_of_batches and not self._is_fenced:
            return httpx.Response(200, json=[])
        if request.method == "GET" and is_of_batches and self._failing:
            self._failing -= 1
            return httpx.Response(503, json={"error": {"message": "busy"}})
        return answer


def test_what_is_shown_behind_the_fence_is_found_by_whoever_looks_next(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here, transport = world("", 5000.0), ShownBehindTheFence()
    (run,) = submitted(here.beside(transport=transport), experiment_file(judges=JUDGES["together"]))
    for _ in range(20):
        worker = here.beside(transport=transport)
        resume(worker, worker.runs(run.experiment.name), interval=1, once=True)
        here.clock.sleep(400)
    assert only_batch(run).phase == "published"
    assert len(here.simulator.ledger.creates) == 1
    here.check()


class Stops(httpx.HTTPTransport):
    """xAI stops the first batch for want of credit when ten of its requests are answered."""

    first: str | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        _, _, name = request.url.path.partition("/batches/")
        if request.method != "GET" or not name:
            return response
        response.read()
        self.first = self.first or name.partition("/")[0]
        body = response.json()
        if name == f"{self.first}/results":
            body["results"] = body["results"][:10]
        elif name == self.first and body["state"]["num_pending"] == 0:
            body |= {"cancel_time": body["create_time"], "cancel_by_xai_message": "insufficient credits: stopped"}
        return httpx.Response(response.status_code, json=body)


@pytest.mark.parametrize("cancelled", [False, True])
def test_answers_of_a_batch_that_was_stopped_for_the_account_are_used(
    world: Worlds, experiment_file: ExperimentFile, *, cancelled: bool
) -> None:
    here = world()
    worker = here.beside(transport=Stops(), PAIRLOG_PAUSE_SECONDS="5")
    (run,) = submitted(worker, experiment_file(judges=JUDGES["xai"]))
    while here.simulator.ledger.totals.requests < 15:
        run.provider.status(here.simulator.ledger.batches[0].batch_id)
    if cancelled:
        cancel(run)
    for _ in range(6):
        resume(worker, [run], interval=0, once=True)
        here.clock.sleep(60)
    kept = {"ok": 10, "cancelled": 5} if cancelled else {"ok": 15}
    found = {name: number for name, number in counts(worker).items() if number}
    assert found == {"planned": 15, **kept}
    sent = [batch.requests for batch in run.refresh().batches.values()]
    assert sent == ([15] if cancelled else [15, 5])


@pytest.mark.parametrize("provider", ["mistral", "together", "openai"])
def test_an_empty_file_in_place_of_answers_buys_nothing(
    world: Worlds, experiment_file: ExperimentFile, provider: str
) -> None:
    class Empty(httpx.HTTPTransport):
        left = 1

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "GET" and request.url.path.endswith("/content") and self.left:
                self.left -= 1
                return httpx.Response(200, content=b"")
            return super().handle_request(request)

    here = world()
    worker = here.beside(transport=Empty())
    (run,) = submitted(worker, experiment_file(judges=JUDGES[provider]))
    assert not resume(worker, [run], interval=10).is_open
    assert len(here.simulator.ledger.creates) == 1
    here.check()


def test_an_input_that_two_batches_share_stays_until_both_are_durable(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here = world("expire.share=1*1", 100.0)
    (run,) = submitted(here.worker, experiment_file(judges=JUDGES["together"]))
    assert not resume(here.worker, [run], interval=60).is_open
    assert column(rows(here.worker), "status") == ["ok"] * 15
    here.check()


def test_a_doubtful_create_of_another_study_is_settled_by_whoever_waits_for_it(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here = world("create.lost=1", 5.0)
    (left,) = submitted(here.worker, experiment_file(name="left", judges=JUDGES["anthropic"]))
    assert only_batch(left).phase == "uncertain"
    other = here.beside()
    assert not resume(other, submitted(other, experiment_file(judges=JUDGES["anthropic"])), interval=30).is_open
    assert only_batch(left).phase == "submitted"
    assert not resume(other, other.runs(left.experiment.name), interval=30).is_open
    assert len(here.simulator.ledger.creates) == 2
    assert (counts(other)["ok"], counts(other, "left")["ok"]) == (15, 15)


def test_who_waits_for_what_its_key_cannot_look_for_is_told_whose_it_is(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here = world("create.lost=1")
    (left,) = submitted(here.worker, experiment_file(name="left", judges=JUDGES["anthropic"]))
    other = here.beside(ANTHROPIC_API_KEY="sk-ant-another")
    runs = submitted(other, experiment_file(judges=JUDGES["anthropic"], more="batch: {max_requests: 5}"))
    end = resume(other, runs, interval=30)
    assert (end.is_open, end.moves_by_itself, len(here.simulator.ledger.creates)) == (True, False, 1)
    for words in (f"waits for a batch of {left.run_id}", "another key", f"pairlog void {left.run_id} s000-1 --force"):
        assert words in end.reasons[0]
