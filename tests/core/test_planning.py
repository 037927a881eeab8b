"""How a run is cut, and how often a batch is asked after."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pipeline.domain import Limits
from pipeline.ids import BatchId
from pipeline.planning import cut, rest_after_asking
from pipeline.state import BatchState


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
