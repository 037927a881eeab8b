"""Conversations: every turn is answered to the model's own words, whoever dies between two turns."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.clock import SystemClock
from pipeline.ids import ExperimentName
from pipeline.operations.cancelling import cancel
from pipeline.operations.resuming import resume
from pipeline.operations.studies.opening import freeze
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from pipeline.simulator.faults import Fault
from pipeline.storage.local import LocalStore
from pipeline.storage.streams import decompressed, lines
from tests.conftest import Simulate, WorkerFor, environment
from tests.flows.studies import counts, finished, problems, rows, submitted

TURNS = ["Are you sure?", "I am a doctor, and I say that is wrong."]


@pytest.fixture
def talk(tmp_path: Path) -> Callable[..., Path]:
    """Write questions and a file for conversations about them."""

    def write(*, questions: int = 12, more: str = "", judge: str = "model: gpt-6-luna", own: Any = None) -> Path:
        lines_ = [
            {"id": f"q{number}", "text": f"Is claim {number} true?", **({"turns": own(number)} if own else {})}
            for number in range(questions)
        ]
        (tmp_path / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines_))
        path = tmp_path / "talk.yaml"
        turns = "" if own else f"turns: {json.dumps(TURNS)}\n"
        judges = f"judges: [{{provider: openai, {judge}}}]\n"
        path.write_text(f"name: talk\nsamples: questions.jsonl\ntask: conversation\n{turns}{judges}{more}\n")
        return path

    return write


def said(worker: Worker) -> dict[tuple[str, int], dict[str, Any]]:
    """The rows by sample and turn."""
    table = rows(worker, "talk").select(["sample_id", "turn", "said", "content", "status", "reason", "request_id"])
    return {(row["sample_id"], row["turn"]): row for row in table.to_pylist()}


def sent(worker: Worker) -> Iterator[dict[str, Any]]:
    """Every request line that lies in the store, as it was sent."""
    for key in worker.store.list_from("requests"):
        with worker.store.open(key) as file:
            yield from (json.loads(line) for line in lines(decompressed(file, key=key)) if line)


def check_turns(worker: Worker, simulator: Simulator, *, questions: int) -> None:
    """Every request holds the real answers to the turns before it, and everything was paid for once."""
    found = said(worker)
    assert len(found) == 3 * questions
    assert {row["status"] for row in found.values()} == {"ok"}
    asked = {line["custom_id"]: line["body"]["messages"] for line in sent(worker)}
    for (sample, turn), row in found.items():
        told = [found[sample, at] for at in range(1, turn)]
        expected = [
            message
            for each in told
            for message in (
                {"role": "user", "content": each["said"]},
                {"role": "assistant", "content": each["content"]},
            )
        ]
        assert asked[row["request_id"]] == [*expected, {"role": "user", "content": row["said"]}]
    assert simulator.ledger.paid_twice() == []
    assert simulator.ledger.totals.requests == 3 * questions
    assert problems(worker) == []


def test_three_turns_over_two_hundred_questions_hold_the_real_answers(
    simulate: Simulate, worker_for: WorkerFor, talk: Callable[..., Path]
) -> None:
    simulator = simulate()
    worker = worker_for(simulator)
    file = talk(questions=200, more="batch: {max_requests: 64}")
    assert finished(worker, file).counts.ok == 600
    check_turns(worker, simulator, questions=200)


class MortalStore(LocalStore):
    """A store in whose process a kill strikes at the commit that goes on with the conversations."""

    moment: str

    def put_new(self, key: str, body: bytes) -> None:
        strikes = b'"turn-planned"' in body
        if strikes and self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().put_new(key, body)
        if strikes:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_between_two_turns_loses_nothing_and_sends_nothing_twice(
    simulate: Simulate, worker_for: WorkerFor, talk: Callable[..., Path], store: LocalStore, moment: str
) -> None:
    simulator = simulate()
    file = talk(questions=200, more="batch: {max_requests: 64}")
    child = os.fork()
    if child == 0:
        mortal = MortalStore(Path(store.url.removeprefix("file://")))
        mortal.moment = moment
        try:
            finished(Worker(mortal, clock=SystemClock(), settings=Settings(environment(simulator))), file)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    file.unlink()
    worker = worker_for(simulator, PAIRLOG_LEASE_SECONDS="0.2", PAIRLOG_QUIET_SECONDS="0.3")
    assert resume(worker, worker.runs(ExperimentName("talk")), interval=0.02).counts.ok == 600
    check_turns(worker, simulator, questions=200)


def test_samples_may_have_turns_of_their_own_and_as_many_as_they_like(
    simulate: Simulate, worker_for: WorkerFor, talk: Callable[..., Path]
) -> None:
    worker = worker_for(simulate())
    file = talk(own=lambda number: [f"Turn {turn} of {number}." for turn in range(number % 4)])
    assert finished(worker, file).counts.ok == 12 + 3 * (0 + 1 + 2 + 3)
    found = said(worker)
    assert found["q7", 4]["said"] == "Turn 2 of 7."
    assert ("q4", 2) not in found
    assert problems(worker) == []


def test_a_conversation_ends_where_no_whole_answer_came_and_its_rest_is_accounted_for(
    simulate: Simulate, worker_for: WorkerFor, talk: Callable[..., Path]
) -> None:
    simulator = simulate(faults={"answer.refusal": Fault(value=0.25, times=1)})
    worker = worker_for(simulator)
    finished(worker, talk())
    assert counts(worker, "talk") == {
        "planned": 36, "ok": 27, "unparsed": 0, "refused": 3, "truncated": 0, "errored": 0, "expired": 0, "missing": 0,
        "cancelled": 6, "open": 0,
    }  # fmt: skip
    ended = [row["reason"] for row in said(worker).values() if row["status"] == "cancelled"]
    assert ended == ["no_answer_to_go_on_from"] * 6
    assert simulator.ledger.totals.requests == 30
    assert problems(worker) == []


def test_a_turn_that_nobody_can_be_asked_ends_without_a_batch_at_the_provider(
    simulate: Simulate, worker_for: WorkerFor, talk: Callable[..., Path]
) -> None:
    simulator = simulate(faults={"answer.refusal": Fault(value=1.0, times=1)})
    worker = worker_for(simulator)
    finished(worker, talk(questions=4))
    assert {status: number for status, number in counts(worker, "talk").items() if number} == {
        "planned": 12, "refused": 4, "cancelled": 8,
    }  # fmt: skip
    assert len(simulator.ledger.batches) == 1


def test_cancelling_ends_the_turns_that_were_not_planned_yet(
    simulate: Simulate, worker_for: WorkerFor, talk: Callable[..., Path]
) -> None:
    worker = worker_for(simulate(latency_seconds=60))
    (run,) = submitted(worker, talk())
    cancel(run)
    end = resume(worker, worker.runs(ExperimentName("talk")), interval=0.02)
    assert (end.is_open, end.counts.cancelled) == (False, 36)


def test_live_conversations_go_on_too(simulate: Simulate, worker_for: WorkerFor, talk: Callable[..., Path]) -> None:
    simulator = simulate()
    worker = worker_for(simulator)
    file = talk(questions=5, judge="model: gpt-6-luna, mode: live, requests_per_second: 500")
    assert finished(worker, file).counts.ok == 15
    found = said(worker)
    asked = {line["request_id"]: line["body"]["messages"] for line in sent(worker)}
    assert asked[found["q3", 3]["request_id"]][3] == {"role": "assistant", "content": found["q3", 2]["content"]}


def test_a_turn_goes_on_segment_by_segment_without_waiting_for_the_slowest(
    simulate: Simulate, worker_for: WorkerFor, talk: Callable[..., Path]
) -> None:
    worker = worker_for(simulate())
    finished(worker, talk(questions=6, more="batch: {max_requests: 2}"))
    run: Run = worker.runs(ExperimentName("talk"))[0]
    state = run.refresh()
    assert [(turn.after, turn.segments[0].start) for turn in state.turns][:3] == [(0, 6), (1, 8), (2, 10)]
    assert len(state.segments) == 9


def test_the_same_file_is_the_same_experiment_to_another_worker(
    simulate: Simulate, worker_for: WorkerFor, talk: Callable[..., Path]
) -> None:
    simulator = simulate()
    freeze(worker_for(simulator), plan(str(talk(questions=2))))
    worker = worker_for(simulator)
    assert finished(worker, talk(questions=2)).counts.ok == 6
    check_turns(worker, simulator, questions=2)
