"""Answers that no provider should give: what they cost, what they must not, and how the study goes on."""

from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from pipeline.clock import SystemClock
from pipeline.events import StatusChanged
from pipeline.ids import BatchId
from pipeline.operations.batches.settling import adopt_by_hand
from pipeline.operations.reading.auditing import audit_ledger
from pipeline.operations.resuming import resume
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator, parse_faults
from pipeline.simulator import environment as everywhere
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile, Simulate, WorkerFor, environment
from tests.flows.studies import check_against_ledger, column, counts, finished, problems, rows, submitted

PACE = {"PAIRLOG_QUIET_SECONDS": "0.1", "PAIRLOG_PAUSE_SECONDS": "0.05", "PAIRLOG_LEASE_SECONDS": "5"}


class Altered(httpx.HTTPTransport):
    """A way to the provider on which answers to such calls are changed, as often as told; it counts them."""

    def __init__(self, method: str, ending: str, alter: Callable[[bytes], bytes], *, times: int = 10**6) -> None:
        super().__init__()
        self._call = (method, ending)
        self._alter = alter
        self._left = times
        self.calls = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        method, ending = self._call
        if request.method != method or ending not in request.url.path:
            return super().handle_request(request)
        self.calls += 1
        response = super().handle_request(request)
        if response.status_code != 200 or self._left == 0:
            return response
        self._left -= 1
        return httpx.Response(200, content=self._alter(response.read()))


def at(simulator: Simulator, store: LocalStore, transport: httpx.BaseTransport, **more: str) -> Worker:
    settings = Settings(environment(simulator, **(PACE | more)))
    return Worker(store, clock=SystemClock(), settings=settings, transport=transport)


def told(**fields: object) -> Callable[[bytes], bytes]:
    """Return what makes a batch say this of itself."""
    return lambda body: msgspec.json.encode({**msgspec.json.decode(body), **fields})


def without(*names: str) -> Callable[[bytes], bytes]:
    def alter(body: bytes) -> bytes:
        batch = msgspec.json.decode(body)
        return msgspec.json.encode({name: value for name, value in batch.items() if name not in names})

    return alter


@pytest.mark.parametrize(
    "alter",
    [
        told(request_counts={"total": 0, "completed": 0, "failed": 0}),
        told(request_counts={"total": 15, "completed": 3, "failed": -2}),
        told(request_counts={"total": 4, "completed": 40, "failed": 0}),
        told(request_counts=None),
        told(created_at=1_900_000_000_000, expires_at="soon", metadata=None, new={"field": [1]}),
        told(created_at="2026-11-16T09:00:00"),
        without("request_counts", "created_at", "metadata", "errors", "endpoint", "object"),
    ],
    ids=["no counts", "fewer", "more than all", "null", "odd times", "naive time", "bare"],
)
def test_what_a_batch_says_beside_its_status_is_only_advice(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, alter: Callable[[bytes], bytes]
) -> None:
    simulator = simulate()
    with at(simulator, store, Altered("GET", "/batches/batch", alter)) as worker:
        assert not finished(worker, experiment_file()).is_open
        assert counts(worker)["ok"] == simulator.ledger.totals.requests == 15
        check_against_ledger(worker, simulator.ledger)


def test_a_status_that_goes_back_changes_nothing(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(latency_seconds=60)
    with at(simulator, store, Altered("GET", "/batches/batch", told(status="in_progress"), times=1)) as worker:
        (run,) = submitted(worker, experiment_file())
        resume(worker, [run], interval=0, once=True)
    with at(simulator, store, Altered("GET", "/batches/batch", told(status="validating"))) as worker:
        (run,) = worker.runs(run.experiment.name)
        resume(worker, [run], interval=0, once=True)
        batch = run.refresh().batches[BatchId("s000-1")]
        assert (batch.phase, batch.remote_status) == ("running", "validating")


@pytest.mark.parametrize("word", ["completed", "expired", "cancelled"])
def test_a_batch_without_its_files_is_called_what_the_provider_calls_it(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, word: str
) -> None:
    simulator = simulate()
    bare = told(status=word, output_file_id=None, error_file_id=None, request_counts=None)
    with at(simulator, store, Altered("GET", "/batches/batch", bare), PAIRLOG_QUIET_SECONDS="60") as worker:
        (run,) = submitted(worker, experiment_file())
        for _ in range(2):
            resume(worker, [run], interval=0, once=True)
        batch = run.refresh().batches[BatchId("s000-1")]
        assert (batch.phase, batch.remote_status, batch.awaits_files) == ("running", word, True)
        waits = run.state.commits
        resume(worker, [run], interval=0, once=True)
        assert run.refresh().commits == waits
    with at(simulator, store, httpx.HTTPTransport()) as worker:
        assert not resume(worker, worker.runs(run.experiment.name), interval=0.01).is_open
        check_against_ledger(worker, simulator.ledger)


def test_a_batch_that_an_earlier_version_waited_for_is_waited_for_no_longer_than_it_was(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("output.absent"))
    with at(simulator, store, httpx.HTTPTransport(), PAIRLOG_QUIET_SECONDS="0.1") as worker:
        (run,) = submitted(worker, experiment_file())
        run.record(StatusChanged(batch_id=BatchId("s000-1"), status="completed, no files yet"))
        known = run.refresh().commits
        worker.clock.sleep(0.35)
        end = resume(worker, [run], interval=0, once=True)
        assert "neither answers nor errors" in end.reasons[0]
        assert run.state.commits == known + 1


def test_a_key_that_is_refused_while_batches_run_is_tried_once_for_each_and_told(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    file = experiment_file(more="batch: {max_requests: 5}")
    way = Altered("GET", "/batches/batch", bytes)
    with at(simulator, store, way) as worker:
        runs = submitted(worker, file)
        simulator.engine.faults.replace(parse_faults("poll.401"))
        end = resume(worker, runs, interval=0.01)
        assert (end.is_open, end.moves_by_itself, way.calls) == (True, False, 3)
        assert "401" in end.reasons[0]
        simulator.engine.faults.replace({})
        assert not resume(worker, runs, interval=0.01).is_open
        check_against_ledger(worker, simulator.ledger)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "try later"}}', "something else instead of lines"),
        (b'{\n  "error": {\n    "message": "try later"\n  }\n}\n', "something else instead of lines"),
        (b"<html>sign in</html>", "does not hold lines"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "does not hold lines"),
    ],
    ids=["an error", "an error in many lines", "a page", "compressed"],
)
def test_what_stays_in_the_place_of_results_is_held_and_nothing_is_bought_again(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, body: bytes, said: str
) -> None:
    simulator = simulate()
    with at(simulator, store, Altered("GET", "/content", lambda _: body)) as worker:
        end = finished(worker, experiment_file())
        assert (end.is_open, end.moves_by_itself) == (True, False)
        assert said in end.reasons[0]
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulator, **PACE))) as worker:
        (run,) = worker.runs(worker.experiment_names()[0])
        held = run.refresh().batches[BatchId("s000-1")]
        adopt_by_hand(run, held, str(held.remote_id))
        assert not resume(worker, [run], interval=0.01).is_open
        assert counts(worker)["ok"] == simulator.ledger.totals.requests == 15
        check_against_ledger(worker, simulator.ledger)


@pytest.mark.parametrize("junk", [b"\0", b"\x1f\x8b", b'"custom_id": cut', b"null", b"\xef\xbb\xbf<p>\n\n[]"])
def test_junk_before_the_first_line_stops_no_other(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, junk: bytes
) -> None:
    simulator = simulate()
    with at(simulator, store, Altered("GET", "/content", lambda body: junk + b"\n" + body)) as worker:
        assert not finished(worker, experiment_file()).is_open
        assert counts(worker)["ok"] == simulator.ledger.totals.requests == 15
        check_against_ledger(worker, simulator.ledger)


def each_line(alter: Callable[[dict[str, object]], object]) -> Callable[[bytes], bytes]:
    """Return what makes something else of each line of a file."""
    return lambda body: b"\n".join(msgspec.json.encode(alter(msgspec.json.decode(line))) for line in body.splitlines())


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (
            each_line(lambda line: {"response": line["response"]}),
            "15 lines that cannot be read, the first",
        ),
        (each_line(lambda line: line | {"custom_id": None}), "an object of id, custom_id, response"),
        (each_line(lambda line: line | {"custom_id": 7}), "an object of id, custom_id, response"),
        (each_line(lambda line: {"customId": line["custom_id"]}), "an object of customId"),
        (each_line(lambda line: {"data": line}), "an object of data"),
        (each_line(lambda line: line | {"response": [line["response"]]}), "an object of id, custom_id, response"),
        (lambda body: b"\n".join(map(msgspec.json.format, body.splitlines())), "not whole JSON"),
        (lambda body: b"\n".join(line[:-20] for line in body.splitlines()), "not whole JSON"),
    ],
    ids=["no id", "null", "a number", "renamed", "wrapped", "odd answers", "in many lines", "all cut"],
)
def test_answers_of_which_no_line_can_be_read_are_kept_and_not_bought_again(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, alter: Callable[[bytes], bytes], said: str
) -> None:
    simulator = simulate()
    with at(simulator, store, Altered("GET", "/content", alter)) as worker:
        end = finished(worker, experiment_file())
        assert (end.is_open, end.moves_by_itself) == (True, False)
        assert said in end.reasons[0]
        (run,) = worker.runs(worker.experiment_names()[0])
        held = run.refresh().batches[BatchId("s000-1")]
        adopt_by_hand(run, held, str(held.remote_id))
        assert resume(worker, [run], interval=0.01).is_open
        held = run.refresh().batches[BatchId("s000-1")]
        assert (held.phase, [store.exists(part.key) for part in held.parts]) == ("held", [True])
        assert (len(simulator.ledger.creates), simulator.ledger.totals.requests) == (1, 15)
        assert problems(worker) == []


def test_odd_members_beside_every_answer_cost_none(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    odd = Altered(
        "GET", "/content", lambda body: body.replace(b'"created":', b'"created":"2026-11-18T00:00:00Z","was":')
    )
    with at(simulator, store, odd) as worker:
        assert not finished(worker, experiment_file()).is_open
        assert counts(worker)["ok"] == simulator.ledger.totals.requests == 15
        check_against_ledger(worker, simulator.ledger)


@pytest.mark.parametrize(("fault", "is_held"), [("line.400", False), ("line.400=0.3", True)], ids=["all", "some"])
def test_lines_of_errors_are_read_for_themselves_and_do_not_vouch_for_answers(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, fault: str, *, is_held: bool
) -> None:
    simulator = simulate(faults=parse_faults(fault))
    wrapped = each_line(lambda line: line if "error" in str(line["response"]) else {"data": line})
    with at(simulator, store, Altered("GET", "/content", wrapped)) as worker:
        assert finished(worker, experiment_file()).is_open is is_held
        assert counts(worker)["errored"] == (0 if is_held else 15)
        assert len(simulator.ledger.creates) == 1


def test_results_that_were_cut_behind_a_line_are_fetched_again_and_not_bought_again(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    cut = Altered("GET", "/content", lambda body: body[: body.index(b"\n", len(body) // 2) + 1], times=1)
    with at(simulator, store, cut) as worker:
        assert not finished(worker, experiment_file()).is_open
        assert (cut.calls, simulator.ledger.totals.requests) == (2, 15)
        check_against_ledger(worker, simulator.ledger)


class Elsewhere(httpx.HTTPTransport):
    """A provider that sends such calls on to another host; it remembers where we went."""

    def __init__(self, method: str, ending: str) -> None:
        super().__init__()
        self._call = (method, ending)
        self.hosts: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.hosts.add(request.url.host)
        if (request.method, request.url.path.rpartition("/")[2]) == self._call:
            return httpx.Response(307, headers={"location": "https://elsewhere.example/v1"}, request=request)
        return super().handle_request(request)


@pytest.mark.parametrize("call", [("POST", "batches"), ("GET", "content")], ids=["create", "download"])
def test_nobody_is_followed_to_another_host_and_a_person_is_told(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, call: tuple[str, str]
) -> None:
    simulator = simulate()
    way = Elsewhere(*call)
    with at(simulator, store, way) as worker:
        end = finished(worker, experiment_file())
        assert (end.is_open, end.moves_by_itself) == (True, False)
        assert "307" in end.reasons[0]
        assert way.hosts == {"127.0.0.1"}
        assert len(simulator.ledger.creates) == (call[0] == "GET")


def test_results_that_are_gone_are_held_and_not_bought_again(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("download.404"))
    worker = worker_for(simulator, **PACE)
    end = finished(worker, experiment_file())
    assert (end.is_open, end.moves_by_itself) == (True, False)
    assert "cannot be fetched" in end.reasons[0]
    assert len(simulator.ledger.creates) == 1


@pytest.mark.parametrize(
    ("share", "attempts", "words"),
    [
        (1.0, 3, "insufficient_quota"), (0.4, 3, "payment_required"), (1.0, 1, "payment_required"),
        (0.4, 1, "insufficient_quota"),
    ],
)  # fmt: skip
def test_requests_that_fail_for_want_of_money_wait_for_a_person_and_burn_nothing(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, share: float, attempts: int, words: str
) -> None:
    simulator = simulate(faults=parse_faults(f"line.429={share}"))
    broke = Altered("GET", "/content", lambda body: body.replace(b"rate_limit_exceeded", words.encode()))
    with at(simulator, store, broke, PAIRLOG_PAUSE_SECONDS="600") as worker:
        end = finished(worker, experiment_file(more=f"attempts: {attempts}"))
        assert (end.is_open, end.moves_by_itself) == (True, False)
        assert words in end.reasons[0]
        assert len(simulator.ledger.creates) == 1
        resume(worker, worker.runs(worker.experiment_names()[0]), interval=0.01)
        assert len(simulator.ledger.creates) == 2
        simulator.engine.faults.replace({})
        assert not resume(worker, worker.runs(worker.experiment_names()[0]), interval=0.01).is_open
        assert counts(worker)["ok"] == simulator.ledger.totals.requests == 15
        assert set(column(rows(worker), "attempt")) == {1}
        check_against_ledger(worker, simulator.ledger)


def test_on_the_last_send_only_requests_that_want_money_stay_open(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("line.429=0.4,line.500=0.4"))
    broke = Altered("GET", "/content", lambda body: body.replace(b"rate_limit_exceeded", b"insufficient_quota"))
    with at(simulator, store, broke, PAIRLOG_PAUSE_SECONDS="600") as worker:
        assert finished(worker, experiment_file(more="attempts: 1")).is_open
        assert {name: counts(worker)[name] for name in ("ok", "errored", "open")} == {"ok": 3, "errored": 6, "open": 6}
        simulator.engine.faults.replace({})
        assert not resume(worker, worker.runs(worker.experiment_names()[0]), interval=0.01).is_open
        assert {name: counts(worker)[name] for name in ("ok", "errored", "open")} == {"ok": 9, "errored": 6, "open": 0}
        check_against_ledger(worker, simulator.ledger)


def test_a_text_that_no_batch_can_hold_costs_its_own_row_and_nothing_is_cut(
    simulate: Simulate, store: LocalStore, tmp_path: Path
) -> None:
    simulator = simulate()
    (tmp_path / "s.csv").write_text(f"id,text\nsmall,one\nhuge,{'x' * 100_000_001}\nother,two\n")
    file = tmp_path / "e.yaml"
    file.write_text("name: essays\ntask: generation\nsamples: s.csv\njudges: [{provider: groq, model: m}]\n")
    with Worker(store, clock=SystemClock(), settings=Settings(everywhere(simulator.url) | PACE)) as worker:
        assert not finished(worker, file).is_open
        ended = dict(zip(*(column(rows(worker), name) for name in ("sample_id", "reason")), strict=True))
        assert ended == {"small": None, "huge": "too_large", "other": None}
        assert simulator.ledger.totals.requests == 2


def test_of_two_batches_under_one_key_one_is_kept_and_the_other_stopped_and_remembered(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(latency_seconds=0.5, faults=parse_faults("create.lost=1"))

    class Twice(httpx.HTTPTransport):
        """A proxy that repeats what it thinks got lost."""

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            try:
                return super().handle_request(request)
            except httpx.HTTPError:
                super().handle_request(request)
                raise

    with at(simulator, store, Twice()) as worker:
        assert not finished(worker, experiment_file()).is_open
        (kept,) = set(column(rows(worker), "remote_batch_id"))
        made, stopped = ({each.batch_id for each in of} for of in (simulator.ledger.batches, simulator.ledger.cancels))
        assert (len(made), stopped) == (2, made - {kept})
        assert counts(worker)["ok"] == 15
        assert problems(worker) == []
        found = audit_ledger(worker, simulator.ledger.path.read_bytes())
        assert [each for each in found if "no log knows it" in each.problem] == []
