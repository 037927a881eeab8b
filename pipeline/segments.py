"""The segments of a run as they stand: pure views of its state, for whoever works or looks segment by segment."""

from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from pipeline import planning
from pipeline.domain import Counts
from pipeline.ids import RunId, SegmentId, segment_id
from pipeline.state import AT_PROVIDER, NOT_SENT, UNSETTLED, BatchState, RunState


class SegmentState(msgspec.Struct, frozen=True, kw_only=True):
    """A fixed part of a run's requests and the batches that carry them, the first one first."""

    segment_id: SegmentId
    run_id: RunId
    index: int
    requests: int
    batches: tuple[BatchState, ...]

    @property
    def counts(self) -> Counts:
        """How the segment's requests ended."""
        return replace(Counts.sum_of([batch.counts for batch in self.batches]), planned=self.requests)

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked to send it."""
        return bool(self.batches)

    @property
    def is_sent(self) -> bool:
        """Whether nothing of it waits to be sent."""
        return self.is_asked and not self.unsent

    @property
    def unsent(self) -> tuple[BatchState, ...]:
        """The batches that are not, or not for certain, at their provider."""
        waits = NOT_SENT | UNSETTLED
        return tuple(each for each in self.batches if each.phase in waits and each.fault != "content")

    @property
    def is_finished(self) -> bool:
        """Whether every request has reached its end and can be read."""
        return self.is_asked and self.counts.open == 0 and all(each.phase == "published" for each in self.batches)

    @property
    def is_fetched(self) -> bool:
        """Whether nothing of it is awaited from its provider: stored, or ended there and to be fetched yet."""
        return self.is_asked and all(
            each.phase in {"stored", "published"} or each in self.unread for each in self.batches
        )

    @property
    def unread(self) -> tuple[BatchState, ...]:
        """The batches whose rows could be published, were they fetched and read."""
        return tuple(each for each in self.batches if each.phase == "ended" or planning.may_be_published(each))


def segments_of(state: RunState) -> list[SegmentState]:
    """Return the segments of a run in order; none before the run is planned."""
    if state.plan is None:
        return []
    batches: dict[int, list[BatchState]] = {}
    for batch in state.batches.values():
        batches.setdefault(batch.segment, []).append(batch)
    return [
        SegmentState(
            segment_id=segment_id(state.run_id, index),
            run_id=state.run_id,
            index=index,
            requests=segment.requests,
            batches=tuple(batches.get(index, ())),
        )
        for index, segment in enumerate(state.segments)
    ]


def to_be_sent(state: RunState, each: SegmentState) -> int:
    """Return how many requests asking for a segment leads to: a conversation's later turns are sent for it too."""
    if each.is_asked or state.plan is None:
        return 0
    first = sum(segment.requests for segment in state.plan.segments)
    return -(-each.requests * state.plan.requests // max(first, 1))


def to_be_sent_of_run(state: RunState, requests: int) -> int:
    """Return how many requests asking for a whole run leads to: all of them if nobody has planned it."""
    return requests if state.plan is None else sum(to_be_sent(state, each) for each in segments_of(state))


def sendable(each: SegmentState, now: datetime) -> bool:
    """Say whether something of an asked segment waits to be sent and need not wait longer."""
    return any(batch.phase == "planned" or planning.may_be_sent(batch, now) for batch in each.unsent)


def is_handed_over(each: SegmentState, *, live: bool) -> bool:
    """Say whether nothing of the segment is left to send; of a live one, whether every call has its answer."""
    return each.is_sent and not (live and any(batch.phase in AT_PROVIDER for batch in each.batches))


def may_go_on(each: SegmentState, now: datetime, *, live: bool) -> bool:
    """Say whether a segment that somebody asked for can be brought further by sending, or calling, now."""
    return sendable(each, now) or (each.is_sent and not is_handed_over(each, live=live))


def is_to_collect(each: SegmentState, *, is_shown: bool) -> bool:
    """Say whether there is something to fetch or read, or only to show: its end, to whoever has not seen it."""
    return not is_shown if each.is_finished else bool(each.unread)


def is_going_on(each: SegmentState) -> bool:
    """Say whether some of the segment was read and the rest follows by itself: it is sent again, or being read."""
    begun = bool(each.unread) or any(batch.phase == "published" for batch in each.batches)
    return begun and not each.is_finished


def have_ended(segments: Iterable[SegmentState]) -> bool:
    """Say whether some of the segments were asked for, and all of those have reached their end."""
    asked = [each for each in segments if each.is_asked]
    return bool(asked) and all(each.is_finished for each in asked)
