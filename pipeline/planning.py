"""What is due: pure decisions on the state of a run. Nothing here reads a clock, a store or a network."""

from collections.abc import Container, Iterable
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.clock import Moment
from pipeline.domain import Limits
from pipeline.events import BatchPlanned, Fault, Segment
from pipeline.ids import BatchId, batch_id, following_batch_id
from pipeline.state import AT_PROVIDER, BatchState, RunState

_MOST_SEGMENTS = 4_000
CLOCKS_APART = timedelta(hours=26)  # how far the clocks of two machines, or of a provider, may differ
_LONGEST_PAUSE = timedelta(hours=1)
_QUESTIONS_AN_AGE = 12
_LONGEST_REST = 600.0
_FILES = 3  # quiet periods that are waited for files which a provider does not show


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """The batches of a run that something can be done about now, by what is to be done."""

    prepare: tuple[BatchState, ...] = ()
    submit: tuple[BatchState, ...] = ()
    settle: tuple[BatchState, ...] = ()
    poll: tuple[BatchState, ...] = ()
    collect: tuple[BatchState, ...] = ()
    publish: tuple[BatchState, ...] = ()


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """Until when nothing is sent, and why; what the account is at fault for may go on sooner if a person is there."""

    until: datetime
    reason: str
    fault: Fault = "account"


def due(state: RunState, now: datetime, *, mended: bool = False, only: Container[int] | None = None) -> Due:
    """Return what can be done about the run now.

    Args:
        mended: a person is here and may have mended the account.
        only: look at nothing but these segments.
    """
    active = state.batches.active.values()
    batches = tuple(batch for batch in active if only is None or batch.segment in only)
    paused = any(_pauses(batch) and not may_be_sent(batch, now, mended=mended) for batch in active)
    return Due(
        prepare=tuple(batch for batch in batches if batch.phase == "planned"),
        submit=() if paused else tuple(batch for batch in batches if may_be_sent(batch, now, mended=mended)),
        settle=tuple(batch for batch in batches if batch.phase in {"submitting", "uncertain"}),
        poll=tuple(batch for batch in batches if batch.phase in AT_PROVIDER),
        collect=tuple(batch for batch in batches if batch.phase == "ended"),
        publish=tuple(batch for batch in batches if may_be_published(batch)),
    )


def may_be_sent(batch: BatchState, now: datetime, *, mended: bool = False) -> bool:
    """Say whether a create may be tried now."""
    if batch.phase == "voided":
        return True
    waited = not _is_to_wait(batch.not_before, now) or (mended and batch.needs_person)
    return (batch.phase == "prepared" or (batch.phase == "refused" and batch.fault != "content")) and waited


def _is_to_wait(until: datetime | None, now: datetime) -> bool:
    """Say whether the moment is to come; one farther away than any pause was named by a clock that is off."""
    return until is not None and now < until <= now + _LONGEST_PAUSE


def _pauses(batch: BatchState) -> bool:
    """Say whether the provider refused the batch for a reason that holds for every other one as well."""
    if batch.phase in {"planned", "prepared"}:
        return batch.fault == "account"
    return batch.phase == "refused" and batch.fault != "content"


def is_to_slow_down(state: RunState, now: datetime) -> bool:
    """Say whether the provider refused a batch for the time being and is to be left alone, by other runs as well."""
    refused = (batch for batch in state.batches.active.values() if batch.phase == "refused" and batch.fault == "rate")
    return any(_is_to_wait(batch.not_before, now) for batch in refused)


def rest_after_asking(batch: BatchState, now: datetime) -> float:
    """Return how many seconds to leave a batch alone after asking: a twelfth of its age, ten minutes at most."""
    age = (now - batch.submitted_at).total_seconds() if batch.submitted_at else 0.0
    return min(max(age, 0.0) / _QUESTIONS_AN_AGE, _LONGEST_REST)


def may_be_published(batch: BatchState) -> bool:
    """Say whether all that will ever come back for the batch is there."""
    return batch.phase in {"stored", "cancelled"} or (batch.phase == "refused" and batch.fault == "content")


def may_be_revived(batch: BatchState) -> bool:
    """Say whether a cancelled batch may still turn up: an attempt of it was given up, not told of by its author.

    Its requests end in a batch behind it that nobody ever tried to send: one commit decides, and no rows lie in the way
    of an answer that is told of before.
    """
    return batch.phase == "cancelled" and bool(batch.voided)


def is_open(state: RunState) -> bool:
    """Say whether a request of the run has not reached its end."""
    return state.counts.open > 0


def is_complete(state: RunState) -> bool:
    """Say whether every segment of the run was asked for and every request has reached its end."""
    return state.plan is not None and not is_open(state) and not unasked(state)


def waits_for_a_person(state: RunState) -> list[BatchState]:
    """Return the batches that nothing but a person's hand moves on."""
    stopped = (batch for batch in state.batches.active.values() if batch.phase not in {"published", "cancelled"})
    return [batch for batch in stopped if batch.phase == "held" or batch.needs_person]


def moves_by_itself(state: RunState, *, unreachable: Iterable[BatchId] = ()) -> bool:
    """Say whether waiting can bring the run further; the provider cannot be asked about `unreachable` batches.

    Nothing is sent to an account that a person must mend.
    """
    active = state.batches.active.values()
    by_hand = waits_for_a_person(state)
    stuck = {*unreachable, *(batch.batch_id for batch in by_hand)}
    if any(map(_pauses, by_hand)):
        stuck |= {batch.batch_id for batch in active if batch.phase in {"planned", "prepared", "voided"}}
    return any(batch.phase != "published" and batch.batch_id not in stuck for batch in active)


def is_being_cancelled(batch: BatchState) -> bool:
    """Say whether a person wants the end of a batch that is at its provider, or may be."""
    return batch.cancel_asked and batch.phase in AT_PROVIDER | {"submitting", "uncertain"}


def patience_for_files(quiet: timedelta) -> timedelta:
    """Return for how long files are waited for that a provider speaks of, or may still show: half an hour."""
    return _FILES * quiet


def files_until(batch: BatchState, quiet: timedelta) -> datetime | None:
    """Return until about when files are waited for of a batch that its provider calls over, if they are."""
    is_over = batch.phase in AT_PROVIDER and batch.awaits_files and batch.status_at is not None
    return (batch.status_at + patience_for_files(quiet)).astimezone(UTC) if is_over and batch.status_at else None


def quiet_until(batch: BatchState, quiet: timedelta) -> datetime | None:
    """Return until about when a batch that may have been created is looked for before it is sent again, if one is."""
    is_missed = batch.phase == "uncertain" and batch.uncertain_at is not None
    return (batch.uncertain_at + quiet).astimezone(UTC) if is_missed and batch.uncertain_at else None


def is_partly_planned(state: RunState) -> bool:
    """Say whether the run was asked for as a whole but not planned as a whole yet."""
    return state.plan is not None and state.plan.asked == "experiment" and bool(unasked(state))


def to_clean(state: RunState) -> list[BatchState]:
    """Return the batches whose rows are durable while inputs of ours may still lie at the provider.

    Some providers give equal inputs one name: what a batch that is not durable needs is left alone.
    """
    active = state.batches.active.values()
    needed = {name for batch in active if batch.phase != "published" for name in batch.files}
    published = [batch for batch in active if batch.phase == "published" and not batch.cleaned]
    return [batch for batch in published if batch.files and not needed.intersection(batch.files)]


def unasked(state: RunState) -> list[int]:
    """Return the segments of the run that nobody asked to send."""
    if state.plan is None:
        return []
    asked = state.batches.ended()
    return [index for index in range(len(state.segments)) if index not in asked]


def unfollowed(state: RunState) -> list[int]:
    """Return the segments whose requests have all ended and that nothing goes on from yet, though something may."""
    if state.plan is None or sum(segment.requests for segment in state.segments) == state.plan.requests:
        return []
    ended = state.batches.ended()
    followed = {turn.after for turn in state.turns}
    return [
        index
        for index, segment in enumerate(state.segments)
        if index not in followed and ended[index] == segment.requests
    ]


def first_batches(segments: Iterable[tuple[int, Segment]]) -> list[BatchPlanned]:
    """Return the plan for the first sending of these segments."""
    return [
        BatchPlanned(batch_id=batch_id(index, 1), segment=index, send=1, requests=segment.requests)
        for index, segment in segments
    ]


def next_batch(batch: BatchState, *, again: int, burns: bool, pause: Pause | None = None) -> BatchPlanned:
    """Return the plan for sending again what got no answer; `burns` says that it counts as a send."""
    return BatchPlanned(
        batch_id=following_batch_id(batch.batch_id),
        segment=batch.segment,
        send=batch.send + burns,
        requests=again,
        after=batch.batch_id,
        not_before=pause.until if pause else msgspec.UNSET,
        reason=pause.reason if pause else msgspec.UNSET,
        fault=pause.fault if pause and pause.fault != "account" else msgspec.UNSET,
    )


def cut(
    sizes: NDArray[np.int64], limits: Limits, *, segments: int | None = None, offset: int = 0
) -> tuple[Segment, ...]:
    """Return the segments of a run: as few as the limits allow, or `segments` even ones that respect them too.

    The first line stands at position `offset`. One of size 0 is never sent, because it is larger than any batch may be
    or has nothing to go on from.
    """
    ends = np.cumsum(sizes)
    longest = limits.max_requests
    if segments is not None:
        longest = min(longest, -(-len(sizes) // segments))
    made: list[Segment] = []
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        by_bytes = int(np.searchsorted(ends, before + limits.max_bytes, side="right"))
        stop = max(min(start + longest, by_bytes), start + 1)
        made.append(Segment(start=offset + start, requests=stop - start, bytes=int(ends[stop - 1]) - before))
        start = stop
    return tuple(made)


def too_many(segments: tuple[Segment, ...]) -> bool:
    """Say whether a run has more segments than its first commit can name."""
    return len(segments) > _MOST_SEGMENTS


def is_said_to_last(batch: BatchState, said_at: datetime | None, seconds: float, now: Moment) -> bool:
    """Say whether, by what the log says, the batch has been as it is for so long on the clock of who asks.

    Where only another machine said since when, more must have passed than the clocks of two machines may be apart.
    """
    if now.boot in batch.since:
        return now.uptime - batch.since[now.boot] >= seconds
    return said_at is not None and now.at - said_at >= timedelta(seconds=seconds) + CLOCKS_APART
