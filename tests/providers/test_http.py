"""What a failure means: refused, nothing happened, or nobody knows."""

from collections.abc import Callable

import httpx
import pytest

from pipeline.clock import FixedClock
from pipeline.domain import Judge
from pipeline.errors import (
    AccountError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    UnavailableError,
)
from pipeline.providers import Provider, Submission, openai
from pipeline.settings import Settings

Handler = Callable[[httpx.Request], httpx.Response]
SUBMISSION = Submission(
    batch_key="pl-1",
    labels={},
    judge=Judge(provider="openai", model="gpt-6-luna"),
    requests=1,
    size=2,
    chunks=lambda: iter([b"{}"]),
)


def a_provider(handler: Handler, clock: FixedClock) -> Provider:
    settings = Settings({"OPENAI_API_KEY": "sk-canary"})
    return openai.build(settings, clock, transport=httpx.MockTransport(handler))


def raises(error: Exception) -> Handler:
    def handler(request: httpx.Request) -> httpx.Response:
        raise error

    return handler


def answers(status: int, body: object = None, **headers: str) -> Handler:
    json = {"error": {"message": "no", "type": "t", "code": "c"}} if body is None else body
    if isinstance(json, bytes):
        return lambda _: httpx.Response(status, content=json, headers=headers)
    return lambda _: httpx.Response(status, json=json, headers=headers)


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (raises(httpx.ConnectError("refused")), UnavailableError),
        (raises(httpx.ConnectTimeout("slow")), UnavailableError),
        (raises(httpx.ReadTimeout("slow")), OutcomeUnknownError),
        (raises(httpx.WriteError("broken pipe")), OutcomeUnknownError),
        (raises(httpx.ReadError("reset")), OutcomeUnknownError),
        (raises(httpx.RemoteProtocolError("closed")), OutcomeUnknownError),
        (answers(400), RejectedError),
        (answers(401), AccountError),
        (answers(403), AccountError),
        (answers(404), RejectedError),
        (answers(408), OutcomeUnknownError),
        (answers(409), OutcomeUnknownError),
        (answers(413), RejectedError),
        (answers(422), RejectedError),
        (answers(429), UnavailableError),
        (answers(429, {"error": {"type": "insufficient_quota", "message": "pay"}}), AccountError),
        (answers(429, {"error": {"type": "t", "code": "payment_required"}}), AccountError),
        (answers(429, {"error": "You exceeded your current quota"}), AccountError),
        (answers(429, {"error": "insufficient capacity, come back later"}), UnavailableError),
        (answers(500), OutcomeUnknownError),
        (answers(503), OutcomeUnknownError),
        (answers(504, b"<html>"), OutcomeUnknownError),
        (answers(302, b"", location="https://elsewhere.example/"), RejectedError),
        (answers(200, b"<html>captive portal</html>"), OutcomeUnknownError),
        (answers(200, {}), OutcomeUnknownError),
        (answers(200, {"id": ""}), OutcomeUnknownError),
        (answers(200, {"id": None}), OutcomeUnknownError),
        (answers(200, {"id": 7}), OutcomeUnknownError),
    ],
)
def test_a_create_is_made_once_and_its_failure_is_named(
    handler: Handler, expected: type[ProviderError], clock: FixedClock
) -> None:
    calls: list[httpx.Request] = []

    def counting(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        return handler(request)

    with pytest.raises(ProviderError) as caught:
        a_provider(counting, clock).create(SUBMISSION, file_id="file-1")
    assert type(caught.value) is expected
    assert len(calls) == 1
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "6800", "retry-after": "7"}, 6.8),
        ({"retry-after": "86400"}, 900.0),
        ({"retry-after": "-5"}, 1.0),
        ({"retry-after": "0"}, 1.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
        ({"retry-after": "Mon, 16 Nov 2026 09:00:30 GMT", "date": "Mon, 16 Nov 2026 09:00:00 GMT"}, 30.0),
        ({"retry-after": "Mon, 16 Nov 2026 09:00:30 GMT"}, None),
    ],
)
def test_retry_after_is_read_in_every_form_and_clamped(
    headers: dict[str, str], seconds: float | None, clock: FixedClock
) -> None:
    with pytest.raises(UnavailableError) as caught:
        a_provider(answers(429, None, **headers), clock).create(SUBMISSION, file_id="f")
    assert caught.value.retry_after == seconds


def test_a_harmless_call_is_repeated_while_nothing_happened(clock: FixedClock) -> None:
    replies = [
        httpx.Response(503),
        httpx.Response(429, headers={"retry-after": "2"}),
        httpx.Response(200, json={"id": "f"}),
    ]
    provider = a_provider(lambda _: replies.pop(0), clock)
    assert provider.upload(SUBMISSION) == "f"
    assert clock.monotonic() == 1.0 + 2.0


def test_a_long_wait_is_left_to_the_engine(clock: FixedClock) -> None:
    with pytest.raises(UnavailableError):
        a_provider(answers(429, None, **{"retry-after": "600"}), clock).status("b")
    assert clock.monotonic() == 0


def test_a_download_that_breaks_off_is_unavailable_not_complete(clock: FixedClock) -> None:
    class _Cut(httpx.SyncByteStream):
        def __iter__(self):
            yield b"half"
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")

    provider = a_provider(lambda _: httpx.Response(200, stream=_Cut()), clock)
    with pytest.raises(UnavailableError):
        list(provider.download("file-1"))


def test_the_key_shows_nowhere(clock: FixedClock) -> None:
    provider = a_provider(answers(500), clock)
    settings = Settings({"OPENAI_API_KEY": "sk-canary"})
    shown = f"{provider!r} {vars(provider)} {settings.key('OPENAI_API_KEY')!r} {settings.key('OPENAI_API_KEY')}"
    assert "canary" not in shown
    assert len(provider.account) == 8
