"""What becomes of a request, sentence by sentence of the contract: `Sent again` and `Not sent again`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pipeline.domain import Output
from pipeline.endings import (
    TWO_OUTPUTS,
    Ending,
    Sending,
    Unsent,
    differ,
    ending_of,
    ending_without_line,
    final_ending,
    speaks,
)
from pipeline.events import InputStored, LineFault
from pipeline.ids import BatchId, Digest
from pipeline.state import BatchState
from pipeline.tasks.answers import Unparsed

BATCH = BatchId("s000-1")


def a_batch(**fields: Any) -> BatchState:
    stored = InputStored(batch_id=BATCH, key="k", digest=Digest("d"), bytes=9, requests=3)
    batch = BatchState(batch_id=BATCH, segment=0, send=1, requests=3, after=None, phase="stored", input=stored)
    return replace(batch, **fields)


def a_sending(*, attempts: int = 3, is_live: bool = False, **fields: Any) -> Sending:
    return Sending.of(a_batch(**fields), attempts=attempts, is_live=is_live)


def an_output(status: Any = "errored", **fields: Any) -> Output:
    return Output(request_id="r", status=status, **fields)


def read(content: str | None) -> Any:
    return {"1": "first", "n/a": Unparsed(reason="not_applicable"), "4": 4}.get(
        content or "", Unparsed(reason="no_answer")
    )


EXPIRED = Ending(status="expired", reason="batch_expired", again=True)
MISSING = Ending(status="missing", reason="no_line", again=True)
OVERLOADED = Ending(status="errored", reason="http_503", again=True)


# One line


@pytest.mark.parametrize(
    ("output", "ending"),
    [
        (an_output("answered", content="1"), Ending(status="ok", value="first")),
        (an_output("answered", content="4"), Ending(status="ok", value=4)),
        (an_output("answered", content="well"), Ending(status="unparsed", reason="no_answer")),
        (an_output("answered"), Ending(status="unparsed", reason="no_answer")),
        (an_output("answered", content="n/a"), Ending(status="inapplicable", reason="not_applicable")),
        (an_output("refused", content="1", reason="filter"), Ending(status="refused", reason="filter")),
        (an_output("truncated", content="1", reason="length"), Ending(status="truncated", reason="length")),
        (an_output(reason="http_400"), Ending(status="errored", reason="http_400")),
        (an_output(reason="unreadable"), Ending(status="errored", reason="unreadable")),
        (an_output("cancelled", reason="canceled"), Ending(status="cancelled", reason="canceled")),
    ],
    ids=["ok", "a value", "unparsed", "empty", "n/a", "refused", "truncated", "4xx", "not as we know it", "cancelled"],
)
def test_what_was_answered_or_is_wrong_in_itself_is_not_sent_again(output: Output, ending: Ending) -> None:
    assert ending_of(output, read) == ending
    assert final_ending(a_sending(), ending, 1) == ending


@pytest.mark.parametrize(
    "output",
    [
        an_output(reason="http_503", again=True),
        an_output("expired", reason="expired", again=True),
        an_output("expired", reason="expired"),
    ],
    ids=["408, 409, 429, 5xx", "expired", "expired and no more said"],
)
def test_what_the_provider_could_not_help_is_sent_again(output: Output) -> None:
    ending = ending_of(output, read)
    assert ending == Ending(status=output.status, reason=output.reason, again=True)  # type: ignore[arg-type]
    assert final_ending(a_sending(), ending, 1) is None


def test_an_answer_is_read_and_nothing_else() -> None:
    def never(content: str | None) -> Any:
        raise AssertionError(content)

    for status in ("refused", "truncated", "errored", "expired", "cancelled"):
        ending_of(an_output(status, content="1"), never)


@pytest.mark.parametrize(
    ("first", "second", "contradict"),
    [
        (an_output("answered", content="1"), an_output("answered", content="2"), True),
        (an_output("answered", content="1"), an_output("answered", content="1"), False),
        (an_output("answered", content="1"), an_output("answered", content="1", judged_at=7.0), False),
        (an_output("answered", content="1"), an_output("refused", reason="filter"), True),
        (an_output("answered", content="1"), an_output(reason="http_500", again=True), False),
        (an_output("answered", content="1"), an_output("expired", again=True), False),
        (an_output("answered", content="1"), an_output("cancelled"), False),
        (an_output(reason="http_400"), an_output("answered", content="1"), True),
    ],
)
def test_doubled_lines_disagree_only_where_both_say_something(first: Output, second: Output, contradict: bool) -> None:
    assert (speaks(second) and differ(first, second)) == contradict


def test_doubled_lines_that_disagree_are_sent_again() -> None:
    assert final_ending(a_sending(), TWO_OUTPUTS, 1) is None
    assert final_ending(a_sending(send=3), TWO_OUTPUTS, 1) == TWO_OUTPUTS


# No line


LINE_2 = (LineFault(line=2, reason="bad model"),)


@pytest.mark.parametrize(
    ("batch", "line", "ending"),
    [
        ({"end": "completed"}, 1, MISSING),
        ({"end": "expired"}, 1, EXPIRED),
        ({"end": "cancelled"}, 1, Ending(status="cancelled", reason="cancelled_at_provider")),
        ({"end": "failed"}, 1, Ending(status="errored", reason="batch_failed")),
        ({"end": "failed", "faults": LINE_2}, 2, Ending(status="errored", reason="bad model")),
        ({"end": "failed", "faults": LINE_2}, 1, Ending(status="errored", reason="batch_failed", again=True)),
        (
            {"end": "failed", "faults": (LineFault(line=None, reason="policy"),)},
            1,
            Ending(status="errored", reason="policy"),
        ),
        (
            {"end": "failed", "faults": (LineFault(line=99, reason="beyond"),)},
            1,
            Ending(status="errored", reason="beyond"),
        ),
        ({"end": "failed", "fault": "rate"}, 1, Ending(status="missing", reason="batch_stopped", again=True)),
        ({"end": "expired", "fault": "account"}, 1, Ending(status="missing", reason="batch_stopped", again=True)),
        ({"phase": "refused", "fault": "content", "code": "bad"}, 1, Ending(status="errored", reason="bad")),
        ({"phase": "refused", "fault": "content", "note": "no"}, 1, Ending(status="errored", reason="no")),
        (
            {"phase": "cancelled"},
            "cancelled_before_sending",
            Ending(status="cancelled", reason="cancelled_before_sending"),
        ),
        ({"end": "completed"}, "too_large", Ending(status="errored", reason="too_large")),
        (
            {"end": "completed"},
            "no_answer_to_go_on_from",
            Ending(status="cancelled", reason="no_answer_to_go_on_from"),
        ),
    ],
    ids=[
        "missing", "expired", "cancelled at the provider", "failed whole", "named", "beside the named", "names no line",
        "names a line that is none", "stopped by the provider", "stopped for the account", "refused with a code",
        "refused", "cancelled before", "too large", "nothing to go on from",
    ],
)  # fmt: skip
def test_a_request_that_no_line_answers_ends_as_its_batch_did(
    batch: dict[str, Any], line: int | Unsent, ending: Ending
) -> None:
    assert ending_without_line(a_sending(**batch), line) == ending


# Sent again, or not


@pytest.mark.parametrize(("send", "again"), [(1, True), (2, True), (3, False), (4, False)])
@pytest.mark.parametrize("ending", [MISSING, EXPIRED, OVERLOADED])
def test_it_is_sent_so_often_and_the_first_is_1(ending: Ending, send: int, again: bool) -> None:
    assert final_ending(a_sending(attempts=3, send=send), ending, 1) == (None if again else ending)


@pytest.mark.parametrize(
    ("batch", "ending"),
    [
        ({"end": "failed", "faults": LINE_2}, Ending(status="errored", reason="batch_failed", again=True)),
        ({"end": "failed", "fault": "rate"}, Ending(status="missing", reason="batch_stopped", again=True)),
        ({"end": "expired", "fault": "account"}, OVERLOADED),
        ({"end": "completed"}, Ending(status="errored", reason="no_money", again=True, unpaid=True)),
    ],
    ids=["beside the named", "stopped by the provider", "stopped for the account", "no money"],
)
def test_a_send_that_was_not_the_requests_fault_does_not_count(batch: dict[str, Any], ending: Ending) -> None:
    assert final_ending(a_sending(attempts=3, send=3, **batch), ending, 1) is None


def test_a_line_that_was_named_has_had_its_last_send() -> None:
    named = a_sending(attempts=1, end="failed", faults=LINE_2)
    assert final_ending(named, OVERLOADED, 2) == OVERLOADED
    assert final_ending(named, OVERLOADED, 1) is None


def test_live_calls_without_money_count_because_nobody_pauses_them() -> None:
    unpaid = Ending(status="errored", reason="no_money", again=True, unpaid=True)
    assert final_ending(a_sending(attempts=3, send=3, is_live=True), unpaid, 1) == unpaid


@pytest.mark.parametrize(
    ("ending", "last"),
    [
        (MISSING, Ending(status="cancelled", reason="cancelled_at_provider")),
        (EXPIRED, Ending(status="cancelled", reason="cancelled_at_provider")),
        (OVERLOADED, OVERLOADED),
        (Ending(status="ok", value="first"), Ending(status="ok", value="first")),
    ],
)
@pytest.mark.parametrize("batch", [{}, {"fault": "rate"}, {"end": "failed", "faults": LINE_2}])
def test_what_is_cancelled_is_never_sent_again_and_answers_are_kept(
    batch: dict[str, Any], ending: Ending, last: Ending
) -> None:
    assert final_ending(a_sending(cancel_asked=True, **batch), ending, 1) == last


@given(
    st.builds(
        Ending,
        status=st.sampled_from(["ok", "unparsed", "refused", "truncated", "errored", "expired", "missing"]),
        again=st.booleans(),
    ),
    st.integers(1, 5),
    st.integers(1, 5),
    st.booleans(),
)
def test_nothing_is_sent_again_that_has_its_answer(ending: Ending, send: int, attempts: int, cancelled: bool) -> None:
    last = final_ending(a_sending(send=send, attempts=attempts, cancel_asked=cancelled), ending, 1)
    assert (last is None) == (ending.again and send < attempts and not cancelled)
