"""How batches end at every provider: what is told of them, what can be fetched, and whose fault a failure is."""

from collections.abc import Callable

import msgspec
import pytest

from pipeline.errors import (
    UnavailableError,
)
from pipeline.providers import RemoteBatch
from tests.contracts.trials import (
    ADAPTERS,
    BATCH,
    Trial,
    a_submission,
)


@pytest.mark.parametrize("name", BATCH)
def test_statuses_move_on_until_the_end(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name, walk=True)
    remote_id = trial.submit(a_submission(name))
    seen = [trial.provider.status(remote_id)]
    while seen[-1].end is None:
        assert seen[-1].parts == {}
        seen.append(trial.provider.status(remote_id))
        assert len(seen) < 10
    assert [batch.running for batch in seen] == sorted(batch.running for batch in seen)
    assert seen[-1].end == "completed"
    assert seen[-1].parts


@pytest.mark.parametrize("name", BATCH)
def test_answers_and_errors_of_a_finished_batch_are_both_fetched(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name, faults="line.400=0.3,line.500=0.3")
    outputs = trial.outputs(trial.ended(trial.submit(a_submission(name, requests=10))))
    assert len(outputs) == 10
    assert sorted((output.status, output.again) for output in outputs.values()) == [
        *[("answered", False)] * 4, *[("errored", False)] * 3, *[("errored", True)] * 3,
    ]  # fmt: skip


def lines_in(trial: Trial, batch: RemoteBatch) -> dict[str, int]:
    """How many lines each part has."""
    return {name: b"".join(trial.provider.download(part)).count(b"\n") for name, part in batch.parts.items()}


@pytest.mark.parametrize("name", [name for name in BATCH if ADAPTERS[name].counts])
def test_the_lines_of_a_finished_batch_are_told(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name, faults="line.400=0.2")
    batch = trial.ended(trial.submit(a_submission(name, requests=10)))
    assert batch.lines == lines_in(trial, batch)
    assert sum(batch.lines.values()) == 10


@pytest.mark.parametrize("name", [name for name in BATCH if ADAPTERS[name].counts])
@pytest.mark.parametrize("fault", ["expire.share=0.5,line.400=0.2", "cancel.share=0.5,line.400=0.2"])
def test_no_more_lines_are_told_of_than_there_are(name: str, fault: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name, walk=True, faults=fault)
    remote_id = trial.submit(a_submission(name, requests=10))
    trial.provider.status(remote_id)
    if fault.startswith("cancel"):
        trial.provider.cancel(remote_id)
    batch = trial.ended(remote_id)
    there = lines_in(trial, batch)
    assert all(count <= there.get(part, 0) for part, count in batch.lines.items()), (batch.lines, there)
    answered = trial.simulator.ledger.totals.requests
    assert sum(batch.lines.values()) >= answered


def looks_whole(trial: Trial, batch: RemoteBatch) -> bool:
    """Whether the engine would take what is fetched: lines that can be read, as many as are told of."""
    try:
        there = lines_in(trial, batch)
        trial.outputs(batch)
    except (UnavailableError, ValueError):
        return False
    return all(there.get(part, 0) >= count for part, count in batch.lines.items())


@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize("effect", ["empty", "message", "html"])
def test_something_else_in_place_of_the_answers_shows(name: str, effect: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    batch = trial.ended(trial.submit(a_submission(name)))
    trial.make_fail(f"download.{effect}")
    assert not looks_whole(trial, batch)
    trial.make_fail("")
    assert looks_whole(trial, batch)


@pytest.mark.parametrize("name", [name for name in BATCH if ADAPTERS[name].uploads])
@pytest.mark.parametrize("fault", ["run.token_limit=1", "run.server_error=1"])
def test_a_batch_that_its_provider_failed_is_sent_again(name: str, fault: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name, faults=fault)
    batch = trial.ended(trial.submit(a_submission(name)))
    assert (batch.end, batch.fault) == ("failed", "rate")


@pytest.mark.parametrize("name", [name for name in BATCH if ADAPTERS[name].uploads])
def test_a_batch_whose_input_is_gone_is_sent_again(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    submission = a_submission(name)
    file_id = trial.provider.upload(submission)
    remote_id = trial.provider.create(submission, file_id=file_id)
    assert file_id is not None
    trial.provider.discard(file_id)
    batch = trial.ended(remote_id)
    assert (batch.end, batch.fault) == ("failed", "rate")
    assert trial.simulator.ledger.totals.requests == 0


@pytest.mark.parametrize("name", [name for name in BATCH if ADAPTERS[name].uploads])
@pytest.mark.parametrize("lines", [b"not json\n", b""])
def test_a_batch_that_fails_for_its_lines_is_not_sent_again(
    name: str, lines: bytes, tried: Callable[..., Trial]
) -> None:
    trial = tried(name)
    whole = a_submission(name)
    broken = msgspec.structs.replace(whole, size=len(lines), chunks=lambda: iter((lines,)))
    batch = trial.ended(trial.submit(broken))
    assert (batch.end, batch.fault) == ("failed", None)


@pytest.mark.parametrize("name", [name for name in BATCH if ADAPTERS[name].expires])
def test_an_expired_batch_keeps_what_it_answered(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name, faults="expire.share=0.5")
    batch = trial.ended(trial.submit(a_submission(name, requests=10)))
    outputs = trial.outputs(batch)
    answered = [output for output in outputs.values() if output.status == "answered"]
    assert batch.end == "expired"
    assert len(answered) == trial.simulator.ledger.totals.requests == (5 if ADAPTERS[name].answers_expired else 0)
    assert all(output.status == "expired" and output.again for output in outputs.values() if output not in answered)


@pytest.mark.parametrize("name", BATCH)
def test_a_cancelled_batch_keeps_what_it_answered(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name, walk=True, faults="cancel.share=0.5")
    remote_id = trial.submit(a_submission(name, requests=10))
    trial.provider.status(remote_id)
    trial.provider.cancel(remote_id)
    batch = trial.ended(remote_id)
    answered = [output for output in trial.outputs(batch).values() if output.status == "answered"]
    assert batch.end == "cancelled"
    assert len(answered) == trial.simulator.ledger.totals.requests == 5


@pytest.mark.parametrize("name", BATCH)
def test_cancelling_what_has_ended_is_no_error(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    remote_id = trial.submit(a_submission(name))
    trial.ended(remote_id)
    trial.provider.cancel(remote_id)


@pytest.mark.parametrize("name", BATCH)
def test_refused_and_cut_answers_are_told_apart(name: str, tried: Callable[..., Trial]) -> None:
    trial = tried(name)
    for number, (twist, status) in enumerate((("refusal", "refused"), ("filter", "refused"), ("length", "truncated"))):
        trial.make_fail(f"answer.{twist}")
        submission = a_submission(name, first=10 * number, key=f"pl-{number:032x}")
        outputs = trial.outputs(trial.ended(trial.submit(submission)))
        assert {output.status for output in outputs.values()} == {status}, twist
        assert all(output.reason for output in outputs.values()), twist
