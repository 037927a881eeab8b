"""What an attacker found: each was a way to pay twice, to lose a paid answer, or to get stuck; none may come back."""

from pathlib import Path

import httpx
import msgspec
import pytest

from pipeline.clock import SystemClock
from pipeline.errors import ConfigError, LeaseLostError
from pipeline.events import StatusChanged
from pipeline.ids import BatchId
from pipeline.operations.batches.settling import adopt_by_hand, void_by_hand
from pipeline.operations.cancelling import cancel
from pipeline.operations.reading.auditing import audit_ledger
from pipeline.operations.resuming import resume
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import parse_faults
from pipeline.storage import checkpoints, keys
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile, Simulate, WorkerFor, environment
from tests.flows.studies import check_against_ledger, column, counts, finished, problems, rows, submitted

PACE = {"PAIRLOG_QUIET_SECONDS": "0.2", "PAIRLOG_PAUSE_SECONDS": "0.05", "PAIRLOG_LEASE_SECONDS": "5"}


def test_a_page_of_another_server_is_not_taken_for_results(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("download.html=1"))
    worker = worker_for(simulator, **PACE)
    finished(worker, experiment_file())
    assert counts(worker)["ok"] == simulator.ledger.totals.requests == 15
    check_against_ledger(worker, simulator.ledger)


def test_an_uncertain_attempt_is_not_voided_with_the_key_of_another_account(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator, other = simulate(faults=parse_faults("create.lost=1")), simulate()
    file = experiment_file()
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulator, **PACE))) as worker:
        submitted(worker, file)
    strange = environment(other, **PACE) | {"OPENAI_API_KEY": "sk-another"}
    with Worker(store, clock=SystemClock(), settings=Settings(strange)) as stranger:
        runs = [run for name in stranger.experiment_names() for run in stranger.runs(name)]
        for _ in range(4):
            resume(stranger, runs, interval=0.1, once=True)
            stranger.clock.sleep(0.15)
        assert other.ledger.creates == []
        assert "another key" in str(runs[0].trouble)


def test_an_odd_field_costs_no_answer_and_buys_none_again(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    class Odd(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = super().handle_request(request)
            if not request.url.path.endswith("/content"):
                return response
            body = response.read().replace(b'"prompt_tokens":', b'"prompt_tokens":0.5,"x":')
            return httpx.Response(200, content=body)

    simulator = simulate()
    settings = Settings(environment(simulator, **PACE))
    with Worker(store, clock=SystemClock(), settings=settings, transport=Odd()) as worker:
        finished(worker, experiment_file())
        assert counts(worker)["ok"] == simulator.ledger.totals.requests == 15


def test_a_wrong_address_waits_for_a_person_and_ends_nothing(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    wrong = environment(simulator, **PACE) | {"OPENAI_BASE_URL": simulator.url}
    with Worker(store, clock=SystemClock(), settings=Settings(wrong)) as worker:
        end = finished(worker, experiment_file())
        assert end.is_open
        assert not end.moves_by_itself
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulator, **PACE))) as worker:
        assert not finished(worker, experiment_file()).is_open
        assert counts(worker)["ok"] == 15


def test_void_and_adopt_ask_the_provider_first(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(latency_seconds=60, faults=parse_faults("poll.404=1"))
    worker = worker_for(simulator, **PACE)
    (run,) = submitted(worker, experiment_file(samples=3))
    (other,) = submitted(worker, experiment_file(name="other", samples=3))
    resume(worker, [run], interval=0.01, once=True)
    held = run.refresh().batches[BatchId("s000-1")]
    assert held.phase == "held"
    with pytest.raises(ConfigError, match="paid for twice"):
        void_by_hand(run, held)
    stranger = other.refresh().batches[BatchId("s000-1")].remote_id
    with pytest.raises(ConfigError, match="belongs to another batch"):
        adopt_by_hand(run, held, str(stranger))
    adopt_by_hand(run, held, str(held.remote_id))
    assert run.state.batches[BatchId("s000-1")].phase == "submitted"


def test_a_cancelled_live_run_makes_no_more_calls(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    worker = worker_for(simulator, **PACE)
    judges = "[{provider: openai, model: gpt-6-luna, mode: live, requests_per_second: 200}]"
    runs = submitted(worker, experiment_file(judges=judges))
    cancel(runs[0])
    assert not resume(worker, runs, interval=0.05).is_open
    assert simulator.ledger.totals.live == 0
    assert counts(worker)["cancelled"] == 15


def test_who_lost_the_lease_decides_nothing(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(latency_seconds=60)
    one, two = worker_for(simulator, PAIRLOG_LEASE_SECONDS="0"), worker_for(simulator, PAIRLOG_LEASE_SECONDS="0")
    (run,) = submitted(one, experiment_file())
    (same,) = two.runs(run.experiment.name)
    event = StatusChanged(batch_id=BatchId("s000-1"), status="in_progress")
    with run.lease() as mine:
        assert mine
        with same.lease() as taken:
            assert taken
            same.refresh()
            same.decide(event)
        run.refresh()
        with pytest.raises(LeaseLostError):
            run.decide(event)


def test_audit_compares_checkpoints_and_ledger_with_the_log(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    simulator = simulate()
    worker = worker_for(simulator)
    finished(worker, experiment_file(more="batch: {max_requests: 4}"))
    (run,) = worker.runs(worker.experiment_names()[0])
    assert problems(worker) == []
    assert audit_ledger(worker, simulator.ledger.path.read_bytes()) == []
    found = worker.store.list_from(keys.checkpoints(run.run_id))
    assert found, "a run of four batches is long enough for a checkpoint"
    last = max(tmp_path.glob("store/log/*/*.json"))
    made = checkpoints.decode(worker.store.get(found[-1]))
    assert made is not None
    while made.seq < len(list(tmp_path.glob("store/log/*/*.json"))):
        last = max(tmp_path.glob("store/log/*/*.json"))
        last.unlink()
    assert any("the log ends" in problem for problem in problems(worker_for(simulator)))
    foreign = b'{"type":"batch","batch_id":"batch_nobody"}\n' + b'{"type":"billed","custom_id":"x"}\n' * 2
    assert len(audit_ledger(worker, foreign)) == 2


class Says(httpx.HTTPTransport):
    """A way to the provider on which every answer becomes these words, written as JSON."""

    def __init__(self, words: bytes) -> None:
        super().__init__()
        self._words = words

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if not request.url.path.endswith("/content"):
            return response
        lines = [msgspec.json.decode(line) for line in response.read().splitlines()]
        for line in lines:
            line["response"]["body"]["choices"][0]["message"]["content"] = msgspec.Raw(self._words)
        return httpx.Response(200, content=msgspec.json.Encoder().encode_lines(lines))


@pytest.mark.parametrize(
    ("task", "fields"),
    [
        ("task: grading\nscale: {low: 1, high: 5}", '"score": 3'),
        ("task: compliance", '"compliant": true, "confidence": 0.5'),
        ("task: classification\nlabels: {good: '', bad: ''}", '"label": "good"'),
    ],
)
def test_half_a_character_in_an_explanation_stops_no_worker(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, task: str, fields: str
) -> None:
    simulator = simulate()
    answer = msgspec.json.encode('{"explanation": "half \\ud800 a pair", ' + fields + "}")
    settings = Settings(environment(simulator, **PACE))
    with Worker(store, clock=SystemClock(), settings=settings, transport=Says(answer)) as worker:
        finished(worker, experiment_file(more=task))
        assert counts(worker)["ok"] == simulator.ledger.totals.requests == 6
        assert set(column(rows(worker), "explanation")) == {"half ? a pair"}


def test_an_answer_that_ends_inside_a_character_is_read_and_not_bought_again(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    answer = rb'"<BETTER_SAMPLE>SAMPLE_1</BETTER_SAMPLE> \ud83d\ude00 \\ud800 \ud83d"'
    settings = Settings(environment(simulator, **PACE))
    with Worker(store, clock=SystemClock(), settings=settings, transport=Says(answer)) as worker:
        finished(worker, experiment_file())
        assert counts(worker)["ok"] == simulator.ledger.totals.requests == 15
        said = "<BETTER_SAMPLE>SAMPLE_1</BETTER_SAMPLE> \N{GRINNING FACE} \\ud800 ?"
        assert set(column(rows(worker), "content")) == {said}


def test_two_experiments_never_share_a_run(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    worker = worker_for(simulate(), **PACE)
    for name in ("b--t", "t"):
        (tmp_path / f"{name}.txt").write_text("{SAMPLE_1} or {SAMPLE_2}? {ANSWER}", encoding="utf-8")
    finished(worker, experiment_file(name="a", more="templates: [b--t.txt]"))
    with pytest.raises(ConfigError, match="is already a run of experiment 'a'"):
        submitted(worker, experiment_file(name="a--b", samples=5, more="templates: [t.txt]"))
    assert worker.experiment_names() == ["a"]


def test_what_lies_beside_frozen_experiments_stops_no_worker(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    worker = worker_for(simulate(), **PACE)
    runs = submitted(worker, experiment_file())
    for stray in ("data/essays.csv", "essays/.DS_Store", "essays/notes.json"):
        path = tmp_path / "store" / keys.EXPERIMENTS / stray
        path.parent.mkdir(exist_ok=True)
        path.write_text("no experiment", encoding="utf-8")
    assert worker.experiment_names() == ["essays"]
    assert [run.run_id for run in worker.runs(runs[0].experiment.name)] == [run.run_id for run in runs]
