"""What lines, texts and times of the OpenAI-like providers mean."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Output
from pipeline.providers._compatible import moment, sent_again
from pipeline.providers._failures import failure

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reason", "again"),
    [
        ("429", True), ("408", True), ("500", True), ("599", True), ("400", False), ("600", False), ("7" * 50, False),
        ("rate_limit_exceeded", True), ("Internal", True), ("request_timeout", True), ("model_overloaded", True),
        ("invalid_model", False), ("", False),
    ],
)  # fmt: skip
def test_a_bare_error_is_sent_again_if_it_blames_the_provider(reason: str, again: bool) -> None:
    assert sent_again(Output(request_id="a", status="errored", reason=reason)).again is again


@pytest.mark.parametrize("status", ["answered", "truncated", "refused", "cancelled"])
def test_only_errors_are_sent_again(status: Any) -> None:
    output = Output(request_id="a", status=status, reason="500")
    assert sent_again(output) == output


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("token_limit_exceeded", "rate"),
        ("Too many requests", "rate"),
        ("Enqueued token limit reached", "rate"),
        ("insufficient_quota", "account"),
        ("billing_hard_limit_reached", "account"),
        ("your credits are used up", "account"),
        ("Internal server error", "rate"),
        ("server_error: Sorry about that!", "rate"),
        ("an oddity nobody has seen yet", "rate"),
        ("", "rate"),
        ("File f-1 was not found.", "rate"),
        ("the input file was deleted", "rate"),
        ("Cannot find file f-1, or you have no access to it.", "rate"),
        ("The specified key does not exist.", "rate"),
        ("invalid_json_line", None),
        ("Line 3: internal server error", None),
        ("The model m does not exist", None),
        ("The input file is empty.", None),
        ("The input file has 9 requests; a batch may have 5.", None),
    ],
)
def test_a_text_tells_whose_fault_it_is(text: str, fault: str | None) -> None:
    assert failure(text) == fault


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (NOW.timestamp(), NOW),
        ("2026-11-16T09:00:00Z", NOW),
        ("2026-11-16T10:00:00.0000000+01:00", NOW),
        ("2026-11-16", NOW.replace(hour=0)),
        (None, None),
        ("soon", None),
        (1e300, None),
        (float("nan"), None),
    ],
)
def test_times_are_read_in_every_form(given: float | str | None, expected: datetime | None) -> None:
    assert moment(given) == expected


@given(st.none() | st.floats() | st.text(max_size=30))
def test_no_time_breaks_the_reading(given: float | str | None) -> None:
    read = moment(given)
    assert read is None or read.tzinfo is not None
