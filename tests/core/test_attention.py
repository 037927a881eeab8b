"""What a person is told of a batch: why it is worth a look, what helps, and what it waits for."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from pipeline import providers
from pipeline.attention import Attention, alarm, attention, remark
from pipeline.ids import BatchId, RunId
from pipeline.state import BatchState

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)


def a_batch() -> BatchState:
    return BatchState(batch_id=BatchId("s000-1"), segment=0, send=1, requests=3, after=None)


@pytest.mark.parametrize(
    ("status", "submitted", "since", "said"),
    [
        ("validating", 5, 5, None),
        ("validating", 7, 7, "validating for 7 hours; it is not sent again"),
        ("in_progress", 25, 25, None),
        ("finalizing", 25, 1, None),
        ("finalizing", 25, 7, "finalizing for 7 hours"),
        ("in_progress", 27, 27, "at the provider for 27 hours; it is not sent again"),
    ],
)
def test_a_person_is_told_of_what_takes_too_long(status: str, submitted: int, since: int, said: str | None) -> None:
    batch = replace(
        a_batch(),
        phase="running",
        remote_status=status,
        submitted_at=NOW - timedelta(hours=submitted),
        status_at=NOW - timedelta(hours=since),
    )
    found = alarm(batch, NOW, kept=timedelta(days=28))
    assert (found or "").startswith(said or "")
    assert (found is None) == (said is None)


@pytest.mark.parametrize(
    ("provider", "hours", "said"),
    [
        ("openai", 167, None),
        ("openai", 169, "ended 169 hours ago and not fetched; the provider keeps answers for some 672 hours"),
        ("gemini", 11, None),
        ("gemini", 13, "ended 13 hours ago and not fetched; the provider keeps answers for some 48 hours"),
        ("azure", 85, "ended 85 hours ago and not fetched; the provider keeps answers for some 336 hours"),
    ],
)
def test_a_person_is_told_of_answers_that_the_provider_will_delete(provider: str, hours: int, said: str | None) -> None:
    ended = replace(a_batch(), phase="ended", ended_at=NOW - timedelta(hours=hours))
    assert alarm(ended, NOW, kept=providers.particulars(provider).KEPT) == said


RUN = RunId("essays--default--openai--m--default--forward")
SETTLE = (
    f"`pairlog adopt {RUN} s000-1 REMOTE_ID` if the provider has it",
    f"`pairlog void {RUN} s000-1` if it does not",
)
SETTLES = "`pairlog resume` settles it: it is taken over if the provider has it, else sent again"
MEND = ("mend the account; `pairlog resume` then sends it at once",)
LONG_AGO = NOW - timedelta(hours=30)
LATE = "at the provider for 30 hours; it is not sent again while it is open there"
UNFETCHED = "ended 30 hours ago and not fetched; the provider keeps answers for some 48 hours"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"phase": "planned"}, None),
        ({"phase": "prepared"}, None),
        ({"phase": "submitting"}, None),
        ({"phase": "voided", "note": "nobody had it"}, None),
        ({"phase": "running", "submitted_at": NOW}, None),
        ({"phase": "stored", "ended_at": LONG_AGO}, None),
        ({"phase": "published", "note": "bad key", "needs_person": True}, None),
        ({"phase": "cancelled", "note": "cancelled before it was sent", "needs_person": True}, None),
        ({"phase": "held", "note": "two may be ours"}, ("two may be ours", SETTLE, True)),
        ({"phase": "held"}, ("held, and nobody said why", SETTLE, True)),
        ({"phase": "refused", "note": "bad key", "needs_person": True}, ("bad key", MEND, True)),
        ({"phase": "prepared", "note": "no credit", "needs_person": True}, ("no credit", MEND, True)),
        ({"phase": "submitted", "submitted_at": LONG_AGO}, (LATE, (), True)),
        ({"phase": "running", "submitted_at": LONG_AGO, "note": "once uncertain"}, (LATE, (), True)),
        ({"phase": "ended", "ended_at": LONG_AGO}, (UNFETCHED, (), True)),
        ({"phase": "refused", "note": "too many requests"}, ("too many requests", (), False)),
        ({"phase": "uncertain", "note": "no answer came"}, ("no answer came", (SETTLES,), False)),
        (
            {"phase": "uncertain", "note": "no answer came", "cancel_asked": True},
            ("no answer came", (SETTLES.replace("taken over", "stopped").replace("sent again", "cancelled"),), False),
        ),
        (
            {"phase": "uncertain", "uncertain_at": NOW},
            (
                "uncertain, and nobody said why",
                (f"{SETTLES}, which it waits for until about {NOW + timedelta(minutes=10):%H:%M:%S} UTC",),
                False,
            ),
        ),
    ],
)
def test_a_batch_is_worth_a_look_for_one_reason(
    known: dict[str, object], expected: tuple[str, tuple[str, ...], bool] | None
) -> None:
    found = attention(RUN, replace(a_batch(), **known), NOW, kept=timedelta(hours=48), quiet=timedelta(minutes=10))
    if expected is None:
        assert found is None
    else:
        assert found == Attention(reason=expected[0], remedies=expected[1], needs_person=expected[2])


CANCELLING = "being cancelled; what is answered until it ends is kept"
UNSHOWN = (
    "the provider calls it expired and shows no answers; they are waited for until about "
    f"{NOW + timedelta(minutes=30):%H:%M:%S} UTC, since they would be paid for"
)
UNPROVEN = "to be cancelled, but not stopped at the provider: it is not proven to be ours yet"


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"phase": "running", "note": "once uncertain"}, "once uncertain"),
        ({"phase": "running", "cancel_asked": True}, CANCELLING),
        ({"phase": "submitted", "cancel_asked": True, "proven": False}, UNPROVEN),
        ({"phase": "running", "awaits_files": True, "status_at": NOW, "remote_status": "expired"}, UNSHOWN),
        ({"phase": "ended", "cancel_asked": True}, None),
        (
            {"phase": "cancelled", "cancel_asked": True, "note": "cancelled before it was sent"},
            "cancelled before it was sent",
        ),
    ],
)
def test_what_is_said_of_a_batch_that_goes_on_by_itself(known: dict[str, object], said: str | None) -> None:
    assert remark(replace(a_batch(), **known), timedelta(minutes=10)) == said
