"""What is said of a segment: whether it is handed over, back, to be collected, or may go on."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeline.domain import Counts
from pipeline.ids import BatchId, RunId, SegmentId
from pipeline.segments import SegmentState, have_ended, is_handed_over, is_to_collect, may_go_on
from pipeline.state import BatchState

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)


def a_segment(*batches: dict[str, Any]) -> SegmentState:
    made = tuple(
        BatchState(batch_id=BatchId(f"s000-{send}"), segment=0, send=send, requests=3, after=None, **known)
        for send, known in enumerate(batches, start=1)
    )
    run_id = RunId("essays--default--openai--m--default--forward")
    return SegmentState(segment_id=SegmentId(f"{run_id}--s000"), run_id=run_id, index=0, requests=3, batches=made)


UNASKED = a_segment()
PLANNED = a_segment({"phase": "planned"})
WAITING = a_segment({"phase": "refused", "fault": "rate", "not_before": NOW + timedelta(minutes=5)})
UNCERTAIN = a_segment({"phase": "uncertain"})
RUNNING = a_segment({"phase": "running"})
ENDED = a_segment({"phase": "ended"})
STORED = a_segment({"phase": "stored"})
FINISHED = a_segment({"phase": "published", "counts": Counts(planned=3, ok=3)})
SENT_AGAIN = a_segment({"phase": "published", "counts": Counts(planned=2, ok=2)}, {"phase": "running"})


@pytest.mark.parametrize(
    ("each", "in_batches", "live"),
    [
        (UNASKED, False, False),
        (PLANNED, False, False),
        (UNCERTAIN, False, False),
        (RUNNING, True, False),
        (ENDED, True, True),
        (FINISHED, True, True),
    ],
)
def test_a_segment_is_handed_over_when_sent_and_a_live_one_when_answered(
    each: SegmentState, in_batches: bool, live: bool
) -> None:
    assert (is_handed_over(each, live=False), is_handed_over(each, live=True)) == (in_batches, live)


@pytest.mark.parametrize(
    ("each", "in_batches", "live"),
    [
        (UNASKED, False, False),
        (PLANNED, True, True),
        (WAITING, False, False),
        (UNCERTAIN, False, False),
        (RUNNING, False, True),
        (FINISHED, False, False),
    ],
)
def test_only_what_was_asked_for_and_need_not_wait_goes_on(each: SegmentState, in_batches: bool, live: bool) -> None:
    assert (may_go_on(each, NOW, live=False), may_go_on(each, NOW, live=True)) == (in_batches, live)


@pytest.mark.parametrize(
    ("each", "fetched", "unseen", "seen"),
    [
        (UNASKED, False, False, False),
        (RUNNING, False, False, False),
        (ENDED, True, True, True),
        (STORED, True, True, True),
        (SENT_AGAIN, False, False, False),
        (FINISHED, True, True, False),
    ],
)
def test_a_segment_is_collected_while_there_is_something_to_read_or_to_show(
    each: SegmentState, fetched: bool, unseen: bool, seen: bool
) -> None:
    assert each.is_fetched == fetched
    assert (is_to_collect(each, is_shown=False), is_to_collect(each, is_shown=True)) == (unseen, seen)


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([], False),
        ([UNASKED], False),
        ([FINISHED, UNASKED], True),
        ([FINISHED, SENT_AGAIN], False),
        ([FINISHED, FINISHED], True),
    ],
)
def test_an_experiment_has_ended_when_all_that_was_asked_for_has(segments: list[SegmentState], expected: bool) -> None:
    assert have_ended(segments) == expected
