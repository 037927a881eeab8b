"""Listings and polls with odd entries: a colleague's stop nothing, and one that may be ours is never passed over."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import httpx
import msgspec
import pytest

from pipeline.clock import FixedClock
from pipeline.domain import Judge
from pipeline.errors import OutcomeUnknownError, RejectedError, UnavailableError
from pipeline.providers import Provider, Sought, Submission, anthropic, openai, together, xai
from pipeline.settings import Settings

SINCE = datetime(2026, 11, 16, tzinfo=UTC)
KEY = "pl-essays-1"
OURS = {"id": "batch_1", "status": "in_progress", "metadata": {"batch_key": KEY}}
SUBMISSION = Submission(
    batch_key=KEY,
    labels={},
    judge=Judge(provider="openai", model="m"),
    requests=1,
    size=2,
    chunks=lambda: iter([b"{}"]),
)


def over(answers: Mapping[str, object]) -> httpx.MockTransport:
    """Return a way to a provider that gives these answers, by the ends of paths."""

    def handler(request: httpx.Request) -> httpx.Response:
        (body,) = [body for ending, body in answers.items() if request.url.path.endswith(ending)]
        return httpx.Response(200, content=msgspec.json.encode(body))

    return httpx.MockTransport(handler)


def at_openai(answers: Mapping[str, object], clock: FixedClock) -> Provider:
    return openai.build(Settings({"OPENAI_API_KEY": "k"}), clock, transport=over(answers))


@pytest.mark.parametrize(
    "odd",
    [
        None, 7, [], {}, {"id": "x"}, {"id": "x", "status": None}, {"id": "x", "status": "failed", "errors": []},
        {"id": "x", "status": "failed", "errors": {"data": [{"line": "3", "code": 400, "message": {}}]}},
        {"id": "x", "status": "completed", "request_counts": {"total": 1.5, "completed": "1", "failed": None}},
        {"id": "x", "status": "completed", "metadata": [], "created_at": {}, "output_file_id": {"id": "x"}},
        {"id": "x", "status": None, "metadata": {"batch_key": f"{KEY}0"}},
    ],
)  # fmt: skip
def test_an_odd_entry_of_a_colleague_hides_nothing(clock: FixedClock, odd: object) -> None:
    found = at_openai({"/batches": {"data": [odd, OURS, odd]}}, clock).find(Sought(batch_key=KEY, since=SINCE))
    assert [batch.remote_id for batch in found] == ["batch_1"]


@pytest.mark.parametrize(
    "odd",
    [
        {"id": "x", "metadata": {"batch_key": KEY}},
        {"id": None, "status": "completed", "metadata": {"batch_key": KEY}},
        {"id": "x", "status": "completed", "metadata": [{"batch_key": KEY}]},
    ],
)
def test_an_odd_entry_with_our_key_leaves_it_open_whether_there_is_a_batch(clock: FixedClock, odd: object) -> None:
    with pytest.raises(UnavailableError, match="may be ours"):
        at_openai({"/batches": {"data": [odd]}}, clock).find(Sought(batch_key=KEY, since=SINCE))


def test_an_odd_entry_on_the_file_of_our_key_leaves_it_open_too(clock: FixedClock) -> None:
    files = {"data": [{"id": "file-1", "filename": f"{KEY}.jsonl"}, {"id": "file-2", "filename": "other.jsonl"}]}
    settings = Settings({"TOGETHER_API_KEY": "k"})

    def find(odd: object) -> object:
        answers = {"/files": files, "/batches": [odd]}
        return together.build(settings, clock, transport=over(answers)).find(Sought(batch_key=KEY, since=SINCE))

    assert find({"id": "x", "status": None, "input_file_id": "file-2"}) == []
    with pytest.raises(UnavailableError, match="may be ours"):
        find({"id": "x", "status": None, "input_file_id": "file-1"})


@pytest.mark.parametrize("count", [None, 1.5, "many", []])
def test_a_batch_with_a_count_that_cannot_be_read_may_be_of_any_size(clock: FixedClock, count: object) -> None:
    shown = {"id": "x", "processing_status": "in_progress", "request_counts": {"processing": 3, "succeeded": count}}
    settings = Settings({"ANTHROPIC_API_KEY": "k"})
    provider = anthropic.build(settings, clock, transport=over({"/batches": {"data": [shown, None]}, "/x": shown}))
    assert (provider.status("x").status, provider.status("x").requests) == ("in_progress", None)
    assert [batch.remote_id for batch in provider.candidates(since=SINCE, requests=9)] == ["x"]


def test_a_batch_without_an_id_leaves_it_open_where_no_key_tells(clock: FixedClock) -> None:
    answers = {"/batches": {"data": [{"processing_status": "ended"}]}}
    provider = anthropic.build(Settings({"ANTHROPIC_API_KEY": "k"}), clock, transport=over(answers))
    with pytest.raises(UnavailableError, match="may be ours"):
        provider.candidates(since=SINCE, requests=9)


@pytest.mark.parametrize(("done", "end"), [(2, None), (3, "completed")])
def test_a_batch_is_not_done_because_it_does_not_tell_what_is_pending(
    clock: FixedClock, done: int, end: str | None
) -> None:
    shown = {"batch_id": "x", "state": {"num_requests": 3, "num_pending": None, "num_success": done, "num_error": "0"}}
    provider = xai.build(Settings({"XAI_API_KEY": "k"}), clock, transport=over({"/batches/x": shown}))
    assert provider.status("x").end == end


@pytest.mark.parametrize("remote_id", ["batch 1", "batch\n1", "b\u00e4tch", "x" * 1025, "\x7f"])
def test_an_id_that_cannot_be_one_leaves_it_open_what_was_created(clock: FixedClock, remote_id: str) -> None:
    with pytest.raises(OutcomeUnknownError, match="cannot be one"):
        at_openai({"/batches": {"id": remote_id}}, clock).create(SUBMISSION, file_id="file-1")


@pytest.mark.parametrize(
    "ask",
    [
        lambda provider, odd: provider.status(odd),
        lambda provider, odd: provider.cancel(odd),
        lambda provider, odd: list(provider.download(odd)),
        lambda provider, odd: provider.discard(odd),
    ],
    ids=["status", "cancel", "download", "discard"],
)
def test_an_odd_id_stays_one_part_of_its_address(clock: FixedClock, ask: Callable[[Provider, str], object]) -> None:
    asked: list[bytes] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path)
        return httpx.Response(404)

    provider = openai.build(Settings({"OPENAI_API_KEY": "k"}), clock, transport=httpx.MockTransport(handler))
    for odd in ("a b\n/../c?d#e", "x" * 70_000):
        try:
            ask(provider, odd)
        except RejectedError as error:
            assert error.status in {404, None}  # noqa: PT017 - deleting what is not there is success
    assert [path for path in asked if b"a%20b%0A%2F..%2Fc%3Fd%23e" not in path] == []
    assert len(asked) == 1
