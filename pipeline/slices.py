"""The slices of a run as they stand: pure views of its state, for whoever works or looks slice by slice."""

from datetime import datetime

import msgspec
from msgspec.structs import replace

from pipeline import planning
from pipeline.domain import Counts
from pipeline.ids import RunId, SegmentId, segment_id
from pipeline.state import NOT_SENT, UNSETTLED, BatchState, RunState


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A fixed part of a run's requests and the batches that carry them, the first one first."""

    segment_id: SegmentId
    run_id: RunId
    index: int
    requests: int
    batches: tuple[BatchState, ...]

    @property
    def counts(self) -> Counts:
        """How the slice's requests ended."""
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
    def unread(self) -> tuple[BatchState, ...]:
        """The batches whose rows could be published, were they fetched and read."""
        return tuple(each for each in self.batches if each.phase == "ended" or planning.may_be_published(each))


def slices_of(state: RunState) -> list[Slice]:
    """Return the slices of a run in order; none before the run is planned."""
    if state.plan is None:
        return []
    batches: dict[int, list[BatchState]] = {}
    for batch in state.batches.values():
        batches.setdefault(batch.segment, []).append(batch)
    return [
        Slice(
            segment_id=segment_id(state.run_id, index),
            run_id=state.run_id,
            index=index,
            requests=segment.requests,
            batches=tuple(batches.get(index, ())),
        )
        for index, segment in enumerate(state.segments)
    ]


def to_be_sent(state: RunState, each: Slice) -> int:
    """Return how many requests asking for a slice leads to: a conversation's later turns are sent for it too."""
    if each.is_asked or state.plan is None:
        return 0
    first = sum(segment.requests for segment in state.plan.segments)
    return -(-each.requests * state.plan.requests // max(first, 1))


def sendable(each: Slice, now: datetime) -> bool:
    """Say whether something of an asked slice waits to be sent and need not wait longer."""
    return any(batch.phase == "planned" or planning.may_be_sent(batch, now) for batch in each.unsent)
