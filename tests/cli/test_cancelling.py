"""What a person is told of batches that are to end: those being cancelled, and those whose answers are not shown."""

import json
from datetime import UTC, datetime

import pytest

from pipeline.simulator import parse_faults
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile, Simulate

RUNS = [f"essays--default--openai--gpt-6-luna--{level}--forward" for level in ("low", "high")]
JUDGES = "[{provider: openai, model: gpt-6-luna, reasoning: [low, high]}]"


@pytest.fixture
def slow(pairlog: Pairlog, provide: Simulate) -> Pairlog:
    """Commands whose provider takes a day for a batch."""
    provide(latency_seconds=86_400)
    return pairlog


def batches_of(pairlog: Pairlog) -> list[dict[str, object]]:
    (experiment,) = json.loads(pairlog("status", "--json").out)["experiments"]
    return [batch for run in experiment["runs"] for batch in run["batches"]]


def test_a_study_is_said_to_be_cancelled_until_its_batches_have_ended(
    slow: Pairlog, experiment_file: ExperimentFile
) -> None:
    file = experiment_file(judges=JUDGES)
    assert slow("submit", file).code == 0
    called = slow("cancel", "essays")
    assert "2 batches are being cancelled: what the provider answers until it stops is kept" in called.err
    assert "batches cancelled" not in called.err
    assert called.last_line == (
        "left: 30 requests wait for the provider to stop; `pairlog resume essays` fetches what was answered"
    )
    assert "30 requests are open: 30 being cancelled" in slow("status").err
    notes = {(batch["note"], batch["cancelling"]) for batch in batches_of(slow)}
    assert notes == {("being cancelled; what is answered until it ends is kept", True)}
    again = slow("submit", file)
    assert (again.code, again.last_line) == (
        0,
        "nothing was sent: 30 requests are being cancelled; `pairlog resume` fetches what is answered by then",
    )
    resumed = slow("resume", "--once")
    assert "30 requests are being cancelled" in resumed.err
    assert "2 batches are being cancelled" in slow("cancel", "essays").err


def test_where_one_run_is_being_cancelled_the_others_are_told_apart(
    slow: Pairlog, experiment_file: ExperimentFile
) -> None:
    file = experiment_file(judges=JUDGES)
    assert slow("submit", file).code == 0
    assert "1 batch is being cancelled" in slow("cancel", "essays", "--run", RUNS[0]).err
    assert "30 requests are open: 15 being cancelled, 15 at the provider" in slow("status").err
    assert [batch.get("cancelling", False) for batch in batches_of(slow)] == [True, False]
    assert slow("submit", file).last_line == (
        "every batch is at its provider; 15 requests are being cancelled; `pairlog resume` polls and fetches"
    )


def test_what_was_not_sent_is_cancelled_at_once(
    pairlog: Pairlog, provide: Simulate, experiment_file: ExperimentFile
) -> None:
    provide(faults=parse_faults("create.401"))
    assert pairlog("submit", experiment_file()).code == 1
    called = pairlog("cancel", "essays")
    assert (called.code, called.last_line) == (0, "1 batch cancelled")
    assert pairlog("cancel", "essays").last_line == "nothing is open"


def test_until_when_answers_are_waited_for_that_a_provider_does_not_show(
    pairlog: Pairlog, provide: Simulate, experiment_file: ExperimentFile
) -> None:
    provide(faults=parse_faults("output.absent"))
    assert pairlog("submit", experiment_file()).code == 0
    assert "UTC for answers that the provider may still show" in pairlog("resume", "--once").err
    told = pairlog("status").err
    assert "15 requests are open: 15 ended at the provider without a file of answers" in told
    assert "`pairlog resume` waits until about " in told
    (batch,) = batches_of(pairlog)
    assert str(batch["note"]).startswith("the provider calls it completed and shows no answers; they are waited for")
    assert datetime.fromisoformat(str(batch["files_until"])) > datetime.now(UTC)
