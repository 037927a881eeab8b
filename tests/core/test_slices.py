"""What is said of a slice: whether it is handed over, back, to be collected, or may go on."""

from datetime import UTC, datetime, timedelta

import pytest

from pipeline.domain import Counts
from pipeline.ids import BatchId, RunId, SegmentId
from pipeline.slices import Slice, have_ended, is_handed_over, is_to_collect, may_go_on
from pipeline.state import BatchState

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)


def a_slice(*batches: dict[str, object]) -> Slice:
    made = tuple(
        BatchState(
            **{"batch_id": BatchId(f"s000-{send}"), "segment": 0, "send": send, "requests": 3, "after": None} | known
        )
        for send, known in enumerate(batches, start=1)
    )
    run_id = RunId("essays--default--openai--m--default--forward")
    return Slice(segment_id=SegmentId(f"{run_id}--s000"), run_id=run_id, index=0, requests=3, batches=made)


UNASKED = a_slice()
PLANNED = a_slice({"phase": "planned"})
WAITING = a_slice({"phase": "refused", "fault": "rate", "not_before": NOW + timedelta(minutes=5)})
UNCERTAIN = a_slice({"phase": "uncertain"})
RUNNING = a_slice({"phase": "running"})
ENDED = a_slice({"phase": "ended"})
STORED = a_slice({"phase": "stored"})
FINISHED = a_slice({"phase": "published", "counts": Counts(planned=3, ok=3)})
SENT_AGAIN = a_slice({"phase": "published", "counts": Counts(planned=2, ok=2)}, {"phase": "running"})


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
def test_a_slice_is_handed_over_when_sent_and_a_live_one_when_answered(
    each: Slice, in_batches: bool, live: bool
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
def test_only_what_was_asked_for_and_need_not_wait_goes_on(each: Slice, in_batches: bool, live: bool) -> None:
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
def test_a_slice_is_collected_while_there_is_something_to_read_or_to_show(
    each: Slice, fetched: bool, unseen: bool, seen: bool
) -> None:
    assert each.is_fetched == fetched
    assert (is_to_collect(each, is_shown=False), is_to_collect(each, is_shown=True)) == (unseen, seen)


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([], False),
        ([UNASKED], False),
        ([FINISHED, UNASKED], True),
        ([FINISHED, SENT_AGAIN], False),
        ([FINISHED, FINISHED], True),
    ],
)
def test_an_experiment_has_ended_when_all_that_was_asked_for_has(slices: list[Slice], expected: bool) -> None:
    assert have_ended(slices) == expected
