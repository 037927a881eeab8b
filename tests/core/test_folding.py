"""The fold: pure, total, and true to the protocol."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Counts
from pipeline.events import (
    Adopted,
    AnyEvent,
    AttemptOpened,
    BatchPlanned,
    CancelAsked,
    Commit,
    Ended,
    FileUploaded,
    Held,
    InputStored,
    OutputsStored,
    Refused,
    Resubmitted,
    RowsPublished,
    RunPlanned,
    Segment,
    StatusChanged,
    Submitted,
    TurnPlanned,
    Uncertain,
    Voided,
    decode_commit,
    encode_commit,
)
from pipeline.folding import fold
from pipeline.ids import BatchId, Digest, ExperimentName, RunId
from pipeline.rules import RULES, RULES_OF_THE_REPLACED
from pipeline.state import BatchState, RunState

RUN = RunId("e--t--p--m--r--forward")
BATCH = BatchId("s000-1")
START = datetime(2026, 11, 16, 9, tzinfo=UTC)


def a_commit(*events: AnyEvent, seq: int = 0, epoch: int = 0) -> Commit:
    return Commit(
        commit_id=f"c{seq}", run_id=RUN, seq=seq, writer="w", at=START + timedelta(seconds=seq), prev=None,
        events=events, epoch=epoch,
    )  # fmt: skip


def a_plan(requests: int = 3) -> RunPlanned:
    return RunPlanned(
        experiment=ExperimentName("e"), experiment_digest=Digest("d"), run_digest=Digest("r"), requests=requests,
        attempts=3, segments=(Segment(start=0, requests=requests, bytes=10),),
    )  # fmt: skip


PLANNED = BatchPlanned(batch_id=BATCH, segment=0, send=1, requests=3)
STORED = InputStored(batch_id=BATCH, key="k", digest=Digest("d"), bytes=10, requests=3)
OPENED = AttemptOpened(batch_id=BATCH, attempt=1, batch_key="pl-1")
UPLOADED = FileUploaded(batch_id=BATCH, attempt=1, file_id="f")
SUBMITTED = Submitted(batch_id=BATCH, attempt=1, remote_id="r1")
UNCERTAIN = Uncertain(batch_id=BATCH, attempt=1, reason="504")
ADOPTED = Adopted(batch_id=BATCH, attempt=1, remote_id="r1")
VOIDED = Voided(batch_id=BATCH, attempt=1, reason="not there")
HELD = Held(batch_id=BATCH, attempt=1, reason="two candidates")
RUNNING = StatusChanged(batch_id=BATCH, status="in_progress")
VALIDATING = StatusChanged(batch_id=BATCH, status="validating", running=False)
ENDED = Ended(batch_id=BATCH, end="completed", status="completed", parts={"output": "f2"})
OUTPUTS = OutputsStored(batch_id=BATCH, attempt=1, parts=())
ROWS = RowsPublished(batch_id=BATCH, key="k", digest=Digest("d"), counts=Counts(planned=3, ok=2, errored=1))
CANCEL = CancelAsked(batch_ids=(BATCH,))
NO_CREDIT = Refused(batch_id=BATCH, attempt=1, fault="account", reason="no credit", needs_person=True)
BAD = Refused(batch_id=BATCH, attempt=1, fault="content", reason="bad")


AGAIN = Resubmitted(experiment_digest=Digest("a" * 64))


def after(*events: AnyEvent) -> RunState:
    return fold(RunState(run_id=RUN), [a_commit(event, seq=seq) for seq, event in enumerate(events)])


def test_a_run_planned_segment_by_segment_can_be_asked_for_as_a_whole_later() -> None:
    by_segments = msgspec.structs.replace(a_plan(), asked="segments")
    as_a_whole = msgspec.structs.replace(a_plan(), experiment_digest=Digest("e" * 64))
    assert after(by_segments).plan == by_segments
    assert after(by_segments, as_a_whole).plan == msgspec.structs.replace(as_a_whole, segments=by_segments.segments)
    assert after(as_a_whole, by_segments).plan == as_a_whole


def test_a_run_follows_the_version_that_was_submitted_last() -> None:
    later = Resubmitted(experiment_digest=Digest("b" * 64))
    assert after(a_plan()).version == a_plan().experiment_digest
    assert after(a_plan(), AGAIN, later).version == later.experiment_digest
    assert after(a_plan(), AGAIN, later, AGAIN, a_plan()).version == AGAIN.experiment_digest
    assert after(a_plan(), AGAIN).plan == a_plan()


WAITS = StatusChanged(batch_id=BATCH, status="completed", awaits_files=True)
UNSENT = msgspec.structs.replace(NO_CREDIT, unsent=True)


@pytest.mark.parametrize(
    ("before", "then", "now"),
    [
        ([SUBMITTED], StatusChanged(batch_id=BATCH, status="completed, no files yet"), WAITS),
        ([], msgspec.structs.replace(NO_CREDIT, reason="not sent: no credit"), UNSENT),
    ],
    ids=["waits for files", "not sent"],
)
def test_what_the_first_version_said_in_words_means_what_is_a_field_now(
    before: list[AnyEvent], then: AnyEvent, now: AnyEvent
) -> None:
    assert after(PLANNED, STORED, OPENED, *before, then) == after(PLANNED, STORED, OPENED, *before, now)


def test_the_providers_own_word_is_kept_while_its_files_are_waited_for() -> None:
    sent = (PLANNED, STORED, OPENED, SUBMITTED)
    waits = msgspec.structs.replace(WAITS, status="expired")
    for events, known in (
        ((waits,), ("expired", True)),
        ((waits, RUNNING), ("in_progress", False)),
        ((waits, ENDED), ("completed", False)),
        ((RUNNING,), ("in_progress", False)),
    ):
        batch = after(*sent, *events).batches[BATCH]
        assert (batch.remote_status, batch.awaits_files) == known


def test_why_a_batch_was_not_sent_is_known_until_it_is_tried_again() -> None:
    again = msgspec.structs.replace(OPENED, attempt=2)
    unsent = after(PLANNED, STORED, OPENED, UNSENT)
    assert (unsent.batches[BATCH].unsent, unsent.batches[BATCH].note) == ("no credit", "not sent: no credit")
    assert after(PLANNED, STORED, OPENED, NO_CREDIT).batches[BATCH].unsent is None
    assert after(PLANNED, STORED, OPENED, UNSENT, again).batches[BATCH].unsent is None
    assert after(PLANNED, STORED, OPENED, UNSENT, SUBMITTED).batches[BATCH].unsent is None


@pytest.mark.parametrize(
    ("events", "phase"),
    [
        ([PLANNED], "planned"),
        ([PLANNED, STORED], "prepared"),
        ([PLANNED, STORED, OPENED], "submitting"),
        ([PLANNED, STORED, OPENED, UPLOADED], "submitting"),
        ([PLANNED, STORED, OPENED, UPLOADED, SUBMITTED], "submitted"),
        ([PLANNED, STORED, OPENED, SUBMITTED, RUNNING], "running"),
        ([PLANNED, STORED, OPENED, SUBMITTED, RUNNING, VALIDATING], "running"),
        ([PLANNED, STORED, OPENED, SUBMITTED, RUNNING, ENDED], "ended"),
        ([PLANNED, STORED, OPENED, SUBMITTED, ENDED, OUTPUTS], "stored"),
        ([PLANNED, STORED, OPENED, SUBMITTED, ENDED, OUTPUTS, ROWS], "published"),
        ([PLANNED, STORED, OPENED, UNCERTAIN], "uncertain"),
        ([PLANNED, STORED, OPENED, UNCERTAIN, ADOPTED], "submitted"),
        ([PLANNED, STORED, OPENED, UNCERTAIN, SUBMITTED], "submitted"),
        ([PLANNED, STORED, OPENED, UNCERTAIN, VOIDED], "voided"),
        ([PLANNED, STORED, OPENED, UNCERTAIN, HELD], "held"),
        ([PLANNED, STORED, OPENED, HELD, ADOPTED], "submitted"),
        ([PLANNED, STORED, OPENED, SUBMITTED, HELD], "held"),
        ([PLANNED, STORED, OPENED, BAD], "refused"),
        ([PLANNED, STORED, OPENED, NO_CREDIT], "refused"),
        ([PLANNED, CANCEL], "cancelled"),
        ([PLANNED, STORED, CANCEL], "cancelled"),
        ([PLANNED, STORED, OPENED, CANCEL], "submitting"),
        ([PLANNED, STORED, OPENED, CANCEL, VOIDED], "cancelled"),
        ([PLANNED, STORED, OPENED, SUBMITTED, CANCEL], "submitted"),
    ],
)
def test_each_event_leads_to_its_phase(events: list[AnyEvent], phase: str) -> None:
    assert after(*events).batches[BATCH].phase == phase


@pytest.mark.parametrize(
    ("events", "ignored"),
    [
        ([PLANNED, STORED, OPENED, SUBMITTED], OPENED),
        ([PLANNED, STORED, OPENED, SUBMITTED], msgspec.structs.replace(OPENED, attempt=2)),
        ([PLANNED, STORED, OPENED, SUBMITTED, ENDED], RUNNING),
        ([PLANNED, STORED, OPENED, SUBMITTED], VOIDED),
        ([PLANNED, STORED, OPENED], msgspec.structs.replace(OPENED, attempt=2)),
        ([PLANNED, STORED], msgspec.structs.replace(OPENED, attempt=3)),
        ([PLANNED, STORED, OPENED, SUBMITTED, ENDED, OUTPUTS, ROWS], ENDED),
        ([PLANNED], PLANNED),
        ([], SUBMITTED),
    ],
)
def test_what_is_out_of_turn_changes_nothing(events: list[AnyEvent], ignored: AnyEvent) -> None:
    assert after(*events, ignored).batches == after(*events).batches


def test_a_batch_that_turns_up_for_an_old_attempt_is_remembered() -> None:
    second = AttemptOpened(batch_id=BATCH, attempt=2, batch_key="pl-2")
    state = after(PLANNED, STORED, OPENED, UNCERTAIN, VOIDED, second, ADOPTED)
    assert state.batches[BATCH].superseded == ("r1",)
    assert state.batches[BATCH].phase == "submitting"


def test_what_turns_up_after_the_end_is_remembered() -> None:
    over = after(a_plan(), PLANNED, STORED, OPENED, UPLOADED, SUBMITTED, ENDED, OUTPUTS, ROWS)
    late = (
        a_commit(msgspec.structs.replace(SUBMITTED, remote_id="r2")),
        a_commit(msgspec.structs.replace(UPLOADED, file_id="g")),
    )
    batch = fold(over, late).batches[BATCH]
    assert (batch.phase, batch.superseded, batch.files) == ("published", ("r2",), ("g", "f"))


def test_no_input_is_forgotten_when_another_attempt_is_opened() -> None:
    second = msgspec.structs.replace(OPENED, attempt=2)
    batch = after(a_plan(), PLANNED, STORED, OPENED, UPLOADED, NO_CREDIT, second).batches[BATCH]
    assert (batch.file_id, batch.files) == (None, ("f",))


def test_a_full_queue_burns_no_send() -> None:
    full = Ended(batch_id=BATCH, end="failed", status="failed", fault="rate")
    batch = after(PLANNED, STORED, OPENED, SUBMITTED, full).batches[BATCH]
    assert (batch.phase, batch.send, batch.remote_id) == ("refused", 1, None)


def test_every_planned_request_is_counted_once() -> None:
    published = after(a_plan(), PLANNED, STORED, OPENED, SUBMITTED, ENDED, OUTPUTS, ROWS)
    assert published.counts.as_dict() == Counts(planned=3, ok=2, errored=1).as_dict()
    assert after(a_plan(), PLANNED).counts.open == 3


def test_what_a_fold_returns_can_be_changed_by_nobody() -> None:
    batch = after(PLANNED, STORED, OPENED).batches[BATCH]
    assert type(batch) is BatchState
    with pytest.raises(AttributeError):
        batch.phase = "published"  # type: ignore[misc]  # that is what is tried


def test_a_batch_named_twice_in_one_wish_is_cancelled_once() -> None:
    twice = CancelAsked(batch_ids=(BATCH, BATCH))
    assert after(PLANNED, STORED, twice).batches == after(PLANNED, STORED, CANCEL).batches


def test_a_writer_that_lost_its_epoch_changes_nothing() -> None:
    commits = [a_commit(PLANNED, STORED, epoch=2), a_commit(OPENED, seq=1, epoch=1)]
    state = fold(RunState(run_id=RUN), commits)
    assert (state.batches[BATCH].phase, state.stale, state.commits) == ("prepared", 1, 2)


def test_every_event_about_one_batch_has_a_rule() -> None:
    of_the_run = {RunPlanned, Resubmitted, TurnPlanned, BatchPlanned, CancelAsked}
    assert set(RULES) | of_the_run == set(AnyEvent.__args__)
    assert set(RULES_OF_THE_REPLACED) <= set(RULES)


ANY = st.sampled_from(
    [PLANNED, STORED, OPENED, UPLOADED, SUBMITTED, UNCERTAIN, ADOPTED, VOIDED, HELD, RUNNING, ENDED, OUTPUTS, ROWS,
     CANCEL, NO_CREDIT, BAD, a_plan(), AGAIN, msgspec.structs.replace(OPENED, attempt=2),
     msgspec.structs.replace(SUBMITTED, attempt=2, remote_id="r2")]
)  # fmt: skip


@given(st.lists(st.lists(ANY, max_size=4), max_size=12))
def test_any_sequence_folds_the_same_in_one_go_and_step_by_step(rounds: list[list[AnyEvent]]) -> None:
    commits = [a_commit(*events, seq=seq) for seq, events in enumerate(rounds)]
    at_once = fold(RunState(run_id=RUN), commits)
    stepwise = RunState(run_id=RUN)
    for commit in commits:
        before = msgspec.json.encode(stepwise, enc_hook=dict)
        following = fold(stepwise, [commit])
        assert msgspec.json.encode(stepwise, enc_hook=dict) == before
        stepwise = following
    assert stepwise == at_once


@given(st.lists(ANY, max_size=15))
def test_an_end_is_final_but_for_what_turns_up_at_the_provider(events: list[AnyEvent]) -> None:
    ended = (PLANNED, STORED, OPENED, SUBMITTED, ENDED, OUTPUTS, ROWS)
    found = after(*ended, *events).batches[BATCH]
    known = msgspec.structs.replace(found, superseded=(), other_files=())
    assert known == after(*ended).batches[BATCH]


@given(st.lists(ANY, max_size=6))
def test_commits_survive_the_wire(events: list[AnyEvent]) -> None:
    commit = a_commit(*events)
    assert decode_commit(encode_commit(commit), key="k") == commit
