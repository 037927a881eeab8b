"""What is due and what moves by itself, how a run is cut, and how often a batch is asked after."""

from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pipeline.clock import Moment
from pipeline.domain import Limits
from pipeline.ids import BatchId, RunId, batch_id
from pipeline.planning import (
    CLOCKS_APART,
    Due,
    cut,
    due,
    is_said_to_last,
    is_to_slow_down,
    moves_by_itself,
    rest_after_asking,
    waits_for_a_person,
)
from pipeline.state import Batches, BatchState, RunState


def sizes(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("lines", "limits", "segments", "expected"),
    [
        ([], (10, 100), None, []),
        ([10] * 10, (10, 100), None, [10]),
        ([10] * 11, (10, 1000), None, [10, 1]),
        ([10] * 11, (100, 100), None, [10, 1]),
        ([10] * 10 + [11], (100, 110), None, [10, 1]),
        ([100, 100], (10, 100), None, [1, 1]),
        ([99, 1, 1], (10, 100), None, [2, 1]),
        ([10] * 10, (100, 1000), 3, [4, 4, 2]),
        ([10] * 2, (100, 1000), 5, [1, 1]),
        ([10] * 10, (3, 1000), 2, [3, 3, 3, 1]),
        ([0, 0, 50, 60], (10, 100), None, [3, 1]),
    ],
)
def test_a_run_is_cut_exactly_at_its_limits(
    lines: list[int], limits: tuple[int, int], segments: int | None, expected: list[int]
) -> None:
    made = cut(sizes(*lines), Limits(max_requests=limits[0], max_bytes=limits[1]), segments=segments)
    assert [segment.requests for segment in made] == expected


@given(
    st.lists(st.integers(1, 50), max_size=60),
    st.integers(1, 12),
    st.integers(50, 120),
    st.none() | st.integers(1, 70),
)
def test_segments_are_contiguous_complete_and_within_limits(
    lines: list[int], most: int, bytes_: int, segments: int | None
) -> None:
    made = cut(sizes(*lines), Limits(max_requests=most, max_bytes=bytes_), segments=segments)
    position = 0
    for segment in made:
        assert segment.start == position
        assert 1 <= segment.requests <= most
        assert segment.bytes == sum(lines[position : position + segment.requests]) <= bytes_
        position += segment.requests
    assert position == len(lines)


NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)


def a_batch() -> BatchState:
    return BatchState(batch_id=BatchId("s000-1"), segment=0, send=1, requests=3, after=None)


@pytest.mark.parametrize(("hours", "seconds"), [(None, 0), (-1, 0), (0, 0), (1, 300), (2, 600), (20, 600)])
def test_the_longer_a_batch_waits_the_less_often_it_is_asked_after(hours: int | None, seconds: int) -> None:
    sent = None if hours is None else NOW - timedelta(hours=hours)
    assert rest_after_asking(replace(a_batch(), submitted_at=sent), NOW) == seconds


def a_run(*batches: dict[str, object]) -> RunState:
    """A run of batches in segments of their own, of which this is known."""
    made = {
        batch_id(number, 1): replace(a_batch(), batch_id=batch_id(number, 1), segment=number, **known)
        for number, known in enumerate(batches)
    }
    return RunState(run_id=RunId("essays--default--openai--m--default--forward"), batches=Batches(made))


def steps(found: Due) -> dict[str, list[int]]:
    """What is due by the name of the step, with the segments it is due for."""
    return {
        name: [batch.segment for batch in batches] for name, batches in msgspec.structs.asdict(found).items() if batches
    }


SOON, LONG_AGO, NEVER = NOW + timedelta(minutes=5), NOW - timedelta(hours=1), NOW + timedelta(days=30)
RATE = {"phase": "refused", "fault": "rate", "not_before": SOON}
ACCOUNT = {"phase": "refused", "fault": "account", "not_before": SOON, "needs_person": True}


@pytest.mark.parametrize(
    ("known", "step"),
    [
        ({"phase": "planned"}, "prepare"),
        ({"phase": "prepared"}, "submit"),
        ({"phase": "prepared", "not_before": SOON}, None),
        ({"phase": "prepared", "not_before": LONG_AGO}, "submit"),
        ({"phase": "prepared", "not_before": NEVER}, "submit"),
        ({"phase": "submitting"}, "settle"),
        ({"phase": "uncertain"}, "settle"),
        ({"phase": "voided"}, "submit"),
        ({"phase": "held"}, None),
        ({"phase": "submitted"}, "poll"),
        ({"phase": "running", "cancel_asked": True}, "poll"),
        ({"phase": "ended"}, "collect"),
        ({"phase": "stored"}, "publish"),
        ({"phase": "cancelled"}, "publish"),
        ({"phase": "refused", "fault": "content"}, "publish"),
        ({"phase": "published"}, None),
        (RATE, None),
        (RATE | {"not_before": LONG_AGO}, "submit"),
        (ACCOUNT, None),
        (ACCOUNT | {"not_before": LONG_AGO}, "submit"),
    ],
)
def test_one_step_is_due_in_each_phase_or_none(known: dict[str, object], step: str | None) -> None:
    assert steps(due(a_run(known), NOW)) == ({step: [0]} if step else {})


@pytest.mark.parametrize(
    ("refused", "mended", "sent"),
    [
        (RATE, False, []),
        (RATE, True, []),
        (ACCOUNT, False, []),
        (ACCOUNT, True, [0, 1]),
        (RATE | {"not_before": LONG_AGO}, False, [0, 1]),
        ({"phase": "refused", "fault": "content", "not_before": SOON}, False, [1]),
        ({"phase": "prepared", "fault": "account", "not_before": SOON}, False, []),
        ({"phase": "prepared", "fault": "rate", "not_before": SOON}, False, [1]),
    ],
)
def test_a_refusal_that_holds_for_every_batch_keeps_the_others_from_being_sent(
    refused: dict[str, object], mended: bool, sent: list[int]
) -> None:
    found = due(a_run(refused, {"phase": "prepared"}), NOW, mended=mended)
    assert [batch.segment for batch in found.submit] == sent


def test_a_refused_segment_keeps_others_from_being_sent_where_only_those_are_looked_at() -> None:
    state = a_run(RATE, {"phase": "prepared"}, {"phase": "ended"}, {"phase": "ended"})
    assert steps(due(state, NOW, only={1, 2})) == {"collect": [2]}
    assert steps(due(state, SOON, only={1, 2})) == {"submit": [1], "collect": [2]}


@pytest.mark.parametrize(
    ("known", "slow"), [(RATE, True), (RATE | {"not_before": LONG_AGO}, False), (ACCOUNT, False), ({}, False)]
)
def test_only_a_rate_that_holds_now_is_for_other_runs_to_respect(known: dict[str, object], slow: bool) -> None:
    assert is_to_slow_down(a_run(known), NOW) == slow


@pytest.mark.parametrize(
    ("batches", "by_hand", "moves"),
    [
        ([], [], False),
        ([{"phase": "running"}], [], True),
        ([{"phase": "published"}], [], False),
        ([{"phase": "held"}], [0], False),
        ([{"phase": "held"}, {"phase": "prepared"}], [0], True),
        ([RATE], [], True),
        ([ACCOUNT], [0], False),
        ([ACCOUNT, {"phase": "planned"}, {"phase": "prepared"}, {"phase": "voided"}], [0], False),
        ([ACCOUNT, {"phase": "running"}], [0], True),
        ([{"phase": "published", "needs_person": True}], [], False),
        ([{"phase": "cancelled", "needs_person": True}], [], True),
    ],
)
def test_what_waits_for_a_person_and_what_waiting_brings_further(
    batches: list[dict[str, object]], by_hand: list[int], moves: bool
) -> None:
    state = a_run(*batches)
    assert [batch.segment for batch in waits_for_a_person(state)] == by_hand
    assert moves_by_itself(state) == moves


def test_what_the_provider_cannot_be_asked_about_does_not_move_by_itself() -> None:
    state = a_run({"phase": "running"}, {"phase": "running"})
    assert moves_by_itself(state, unreachable=[batch_id(0, 1)])
    assert not moves_by_itself(state, unreachable=[batch_id(0, 1), batch_id(1, 1)])


@pytest.mark.parametrize(
    ("since", "said_at", "lasts"),
    [
        ({"here": 40.0}, None, True),
        ({"here": 40.1}, LONG_AGO - CLOCKS_APART, False),
        ({"there": 0.0}, None, False),
        ({"there": 0.0}, LONG_AGO, False),
        ({}, NOW - CLOCKS_APART - timedelta(seconds=60), True),
        ({}, NOW - CLOCKS_APART - timedelta(seconds=59), False),
    ],
)
def test_another_machines_word_counts_once_no_two_clocks_can_be_so_far_apart(
    since: dict[str, float], said_at: datetime | None, lasts: bool
) -> None:
    now = Moment(at=NOW, boot="here", uptime=100.0)
    assert is_said_to_last(replace(a_batch(), since=since), said_at, 60.0, now) == lasts
