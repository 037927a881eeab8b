"""Batches move by time or by poll, and end in every way a batch can end."""

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.clock import FixedClock
from tests.simulator.openai_wire import KEY, InProcess, a_chat, a_line, jsonl, some_lines

Simulated = Callable[..., InProcess]
NO_TOKENS = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def times(batch: dict[str, Any]) -> dict[str, int]:
    """The moments a batch has passed, in seconds after its creation."""
    begin = batch["created_at"]
    return {name: at - begin for name, at in batch.items() if name.endswith("_at") and at is not None}


def counts(batch: dict[str, Any]) -> tuple[int, int, int]:
    told = batch["request_counts"]
    return told["total"], told["completed"], told["failed"]


def test_without_latency_a_batch_ends_at_the_next_poll(simulated: Simulated) -> None:
    wire = simulated()
    batch_id = wire.submit(some_lines(3))
    batch = wire.poll(batch_id)
    assert (batch["status"], counts(batch)) == ("completed", (3, 3, 0))
    assert batch["error_file_id"] is None


def test_a_listing_is_a_poll_too(simulated: Simulated) -> None:
    wire = simulated()
    wire.submit(some_lines(1))
    assert wire.listed()["data"][0]["status"] == "completed"


def test_a_batch_may_walk_one_status_a_poll(simulated: Simulated) -> None:
    wire = simulated(walk=True)
    batch_id = wire.submit(some_lines(4))
    seen = [wire.poll(batch_id) for _ in range(4)]
    assert [batch["status"] for batch in seen] == ["in_progress", "finalizing", "completed", "completed"]
    assert [counts(batch) for batch in seen[:2]] == [(4, 2, 0), (4, 4, 0)]
    assert [batch["usage"] == NO_TOKENS for batch in seen[:3]] == [True, True, False]
    assert [batch["output_file_id"] is None for batch in seen[:3]] == [True, True, False]
    assert seen[2] == seen[3]


def test_with_latency_a_batch_moves_as_time_passes(simulated: Simulated, clock: FixedClock) -> None:
    wire = simulated(latency_seconds=100)
    batch_id = wire.submit(some_lines(10))
    seen = []
    for pause in (5, 10, 35, 45, 10):
        clock.sleep(pause)
        seen.append(wire.poll(batch_id))
    assert [(batch["status"], counts(batch)) for batch in seen] == [
        ("validating", (0, 0, 0)),
        ("in_progress", (10, 0, 0)),
        ("in_progress", (10, 5, 0)),
        ("finalizing", (10, 10, 0)),
        ("completed", (10, 10, 0)),
    ]
    assert times(seen[-1]) == {
        "created_at": 0, "in_progress_at": 10, "finalizing_at": 90, "completed_at": 100, "expires_at": 86_400,
    }  # fmt: skip


def test_a_batch_nobody_polled_ended_when_it_was_due(simulated: Simulated, clock: FixedClock) -> None:
    wire = simulated(latency_seconds=100)
    batch_id = wire.submit(some_lines(1))
    clock.sleep(5000)
    assert times(wire.poll(batch_id))["completed_at"] == 100


def test_a_batch_slower_than_its_window_expires_with_what_it_has(simulated: Simulated, clock: FixedClock) -> None:
    wire = simulated(latency_seconds=1000, window_seconds=500)
    batch_id = wire.submit(some_lines(10))
    clock.sleep(501)
    batch = wire.poll(batch_id)
    assert (batch["status"], counts(batch), times(batch)["expired_at"]) == ("expired", (10, 5, 5), 500)
    assert wire.ledger.totals.requests == 5


def test_an_expired_batch_tells_answered_from_unanswered(simulated: Simulated) -> None:
    wire = simulated(faults="expire.share=0.25")
    batch = wire.run(some_lines(8))
    output, errors = wire.output(batch), wire.errors(batch)
    assert (batch["status"], counts(batch), batch["completed_at"]) == ("expired", (8, 6, 2), None)
    assert {row["error"]["code"] for row in errors} == {"batch_expired"}
    assert all(row["response"] is None for row in errors)
    assert sorted(row["custom_id"] for row in output + errors) == [f"r{number}" for number in range(8)]
    assert wire.ledger.totals.requests == 6


def test_expiry_may_strike_one_batch_only(simulated: Simulated) -> None:
    wire = simulated(faults="expire.share=1*1")
    assert [wire.run(some_lines(2))["status"] for _ in range(2)] == ["expired", "completed"]


@pytest.mark.parametrize(
    ("fault", "code"), [("run.token_limit", "token_limit_exceeded"), ("run.server_error", "server_error")]
)
def test_a_full_queue_or_a_broken_server_fails_the_batch(simulated: Simulated, fault: str, code: str) -> None:
    wire = simulated(faults=f"{fault}=1")
    batch = wire.run(some_lines(2))
    (problem,) = batch["errors"]["data"]
    assert (batch["status"], batch["model"], batch["usage"]) == ("failed", "gpt-6-luna", None)
    assert (problem["code"], problem["line"], counts(batch)) == (code, None, (0, 0, 0))
    assert wire.run(some_lines(2))["status"] == "completed"


def test_a_stuck_batch_stays_in_progress_until_it_is_cancelled(simulated: Simulated, clock: FixedClock) -> None:
    wire = simulated(faults="run.stuck=1")
    batch_id = wire.submit(some_lines(2))
    for _ in range(5):
        clock.sleep(50_000)
        assert wire.poll(batch_id)["status"] == "in_progress"
    assert wire.cancel(batch_id).json()["status"] == "cancelling"
    assert wire.poll(batch_id)["status"] == "cancelled"


def test_a_batch_cancelled_at_once_has_executed_nothing(simulated: Simulated) -> None:
    wire = simulated()
    batch_id = wire.submit(some_lines(4))
    assert wire.cancel(batch_id).json()["status"] == "cancelling"
    assert wire.cancel(batch_id).json()["status"] == "cancelling"
    batch = wire.poll(batch_id)
    assert (batch["status"], counts(batch), batch["output_file_id"]) == ("cancelled", (0, 0, 0), None)
    assert wire.ledger.totals.requests == 0


def test_a_running_batch_that_is_cancelled_keeps_what_was_done(simulated: Simulated, clock: FixedClock) -> None:
    wire = simulated(latency_seconds=100)
    batch_id = wire.submit(some_lines(8))
    clock.sleep(50)
    assert wire.poll(batch_id)["status"] == "in_progress"
    wire.cancel(batch_id)
    assert wire.poll(batch_id)["status"] == "cancelling"
    clock.sleep(10)
    batch = wire.poll(batch_id)
    assert (batch["status"], counts(batch)) == ("cancelled", (8, 4, 4))
    assert {row["error"]["code"] for row in wire.errors(batch)} == {"batch_cancelled"}
    assert len(wire.output(batch)) == wire.ledger.totals.requests == 4


def test_how_much_a_cancelled_batch_leaves_open_can_be_set(simulated: Simulated) -> None:
    wire = simulated(faults="cancel.share=0.75")
    batch_id = wire.submit(some_lines(8))
    wire.cancel(batch_id)
    batch = wire.poll(batch_id)
    assert (batch["status"], counts(batch), len(wire.output(batch))) == ("cancelled", (8, 2, 6), 2)


def test_a_batch_cancelled_while_files_are_written_keeps_everything(simulated: Simulated) -> None:
    wire = simulated(walk=True)
    batch_id = wire.submit(some_lines(3))
    assert [wire.poll(batch_id)["status"] for _ in range(2)] == ["in_progress", "finalizing"]
    wire.cancel(batch_id)
    assert counts(wire.poll(batch_id)) == (3, 3, 0)
    assert wire.ledger.totals.requests == 3


def test_a_batch_applied_late_is_nowhere_before_its_time(simulated: Simulated, clock: FixedClock) -> None:
    wire = simulated(faults="create.late:30=1")
    file_id = wire.upload(some_lines(1))
    with pytest.raises(ConnectionResetError):
        wire.create(file_id)
    batch_id = wire.ledger.creates[0].batch_id
    assert wire.listed()["data"] == []
    assert wire.http.get(f"/v1/batches/{batch_id}", headers=KEY).status_code == 404
    clock.sleep(30)
    assert [batch["id"] for batch in wire.listed()["data"]] == [batch_id]


def test_a_listing_may_lag_behind(simulated: Simulated, clock: FixedClock) -> None:
    wire = simulated(faults="list.lag:60=1")
    batch_id = wire.submit(some_lines(1))
    assert wire.listed()["data"] == []
    assert wire.poll(batch_id)["status"] == "completed"
    clock.sleep(60)
    assert [batch["id"] for batch in wire.listed()["data"]] == [batch_id]


def test_usage_is_the_sum_of_what_the_lines_say(simulated: Simulated) -> None:
    wire = simulated()
    long = a_line("long", a_chat("word " * 1500, reasoning_effort="low"))
    batch = wire.run(jsonl(a_line("a"), long))
    used = [row["response"]["body"]["usage"] for row in wire.output(batch)]
    assert batch["usage"] == {
        "input_tokens": sum(one["prompt_tokens"] for one in used),
        "input_tokens_details": {
            "cached_tokens": sum(one["prompt_tokens_details"]["cached_tokens"] for one in used),
        },
        "output_tokens": sum(one["completion_tokens"] for one in used),
        "output_tokens_details": {
            "reasoning_tokens": sum(one["completion_tokens_details"]["reasoning_tokens"] for one in used),
        },
        "total_tokens": sum(one["total_tokens"] for one in used),
    }
    assert batch["usage"]["input_tokens_details"]["cached_tokens"] > 0


def test_a_poll_does_not_wait_for_long_work_and_the_work_goes_on(simulated: Simulated) -> None:
    wire = simulated(patience_seconds=0.0)
    batch_id = wire.submit(some_lines(3000))
    first = wire.poll(batch_id)
    ended = first
    while ended["status"] != "completed":
        ended = wire.poll(batch_id)
    assert first["status"] != "completed"
    assert counts(ended) == (3000, 3000, 0)


def test_a_simulator_can_be_closed_in_the_middle_of_a_batch(simulated: Simulated) -> None:
    wire = simulated(patience_seconds=0.0)
    wire.poll(wire.submit(some_lines(20_000)))
    wire.engine.close()
    assert wire.ledger.totals.requests < 20_000
