"""What a failure means: refused, nothing happened, or nobody knows."""

import gzip
from collections.abc import Callable
from itertools import count

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
from tests.providers.twice import answering_twice

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


KEY = "sk-canary/ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def a_provider_with_a_long_key(handler: Handler, clock: FixedClock) -> Provider:
    return openai.build(Settings({"OPENAI_API_KEY": KEY}), clock, transport=httpx.MockTransport(handler))


@pytest.mark.parametrize("status", [400, 401, 402, 403, 429, 500])
@pytest.mark.parametrize(
    "error",
    [
        {"message": "y" * 470 + " " + KEY},
        {"message": "bad", "code": f"bad key {KEY}"},
        {"message": "bad", "type": f"bad key {KEY.lower()}"},
        f"bare {KEY}",
    ],
    ids=["cut", "code", "type", "bare"],
)
def test_a_key_that_is_repeated_is_in_no_error(clock: FixedClock, status: int, error: object) -> None:
    provider = a_provider_with_a_long_key(answers(status, {"error": error}), clock)
    with pytest.raises(ProviderError) as caught:
        provider.create(SUBMISSION, file_id="file-1")
    assert "canary" not in f"{caught.value} {getattr(caught.value, 'code', '')}".lower()


@pytest.mark.parametrize("written", [KEY, KEY.lower(), KEY.replace("/", r"\/"), KEY.replace("s", r"\u0073")])
def test_a_key_that_is_repeated_is_in_nothing_a_batch_says(clock: FixedClock, written: str) -> None:
    body = '{"id":"batch_1","status":"weird KEY","errors":{"data":[{"code":"KEY","message":"Bearer KEY","line":1}]}}'
    shown = a_provider_with_a_long_key(answers(200, body.replace("KEY", written).encode()), clock).status("batch_1")
    assert (shown.remote_id, shown.status, shown.faults[0].reason) == ("batch_1", "weird ***", "***: Bearer ***")


@pytest.mark.parametrize("before", [0, 1, 2**20 - 30, 2**20 - 1])
@pytest.mark.parametrize("written", [KEY, KEY.lower(), KEY.replace("/", r"\/"), KEY.replace("s", r"\u0073")])
def test_a_key_that_is_repeated_is_in_nothing_that_is_fetched(clock: FixedClock, written: str, before: int) -> None:
    body = b"x" * before + f'{{"error":"{written}"}}\n{{"a":"{written}'.encode()
    fetched = b"".join(a_provider_with_a_long_key(answers(200, body), clock).download("file-1"))
    assert fetched == b"x" * before + b'{"error":"***"}\n{"a":"***'


def everything_said(error: BaseException | None) -> str:
    """Return what a traceback shows: the error's words, and those of its causes."""
    said = ""
    while error is not None:
        said += f"{error}\n"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return said


@pytest.mark.parametrize(
    "handler",
    [
        raises(httpx.RemoteProtocolError(f"illegal header line: bytearray(b'Bearer {KEY}')")),
        raises(httpx.RemoteProtocolError(f"illegal status line: bytearray(b'{KEY.lower()}')")),
        answers(200, {}, **{"content-encoding": KEY}),
    ],
    ids=["header", "status", "packing"],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda provider: provider.status("batch_1"),
        lambda provider: provider.create(SUBMISSION, file_id="file-1"),
        lambda provider: list(provider.download("file-1")),
    ],
    ids=["status", "create", "download"],
)
def test_a_key_that_is_repeated_outside_of_a_body_is_in_no_error_nor_its_causes(
    clock: FixedClock, handler: Handler, call: Callable[[Provider], object]
) -> None:
    with pytest.raises(ProviderError, match=r"failed|broke off") as caught:
        call(a_provider_with_a_long_key(handler, clock))
    assert "canary" not in everything_said(caught.value).lower()
    assert "***" in str(caught.value)


def test_a_second_answer_to_one_create_is_not_taken_for_the_answer_to_the_next(clock: FixedClock) -> None:
    numbers = count(1)
    with answering_twice(lambda _: b'{"id":"batch_%d"}' % next(numbers)) as address:
        provider = openai.build(Settings({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{address}/v1"}), clock)
        made = [provider.create(SUBMISSION, file_id="file-1") for _ in range(3)]
        provider.close()
    assert made == ["batch_1", "batch_2", "batch_3"]


def packed(body: bytes, packing: str) -> Handler:
    """Return an answer that comes in pieces, as from a socket."""
    pieces = [body[start : start + 2**16] for start in range(0, len(body), 2**16)]
    return lambda _: httpx.Response(200, content=iter(pieces), headers={"content-encoding": packing})


def test_an_answer_that_unpacks_to_more_than_an_answer_is_not_read_to_its_end(clock: FixedClock) -> None:
    bomb = gzip.compress(b'{"id":"' + b"a" * (200 * 2**20), 1)
    provider = a_provider(packed(bomb, "gzip"), clock)
    with pytest.raises(RejectedError, match="more than 67108864 bytes"):
        provider.status("batch_1")
    with pytest.raises(OutcomeUnknownError, match="more than 67108864 bytes"):
        provider.create(SUBMISSION, file_id="file-1")


def test_what_is_packed_as_nobody_asked_for_is_not_unpacked(clock: FixedClock) -> None:
    provider = a_provider(packed(gzip.compress(gzip.compress(b"{}")), "gzip, gzip"), clock)
    with pytest.raises(UnavailableError, match="packed as gzip, gzip"):
        provider.status("batch_1")
    with pytest.raises(UnavailableError, match="packed as gzip, gzip"):
        list(provider.download("file-1"))


def test_what_comes_packed_as_asked_is_read(clock: FixedClock) -> None:
    provider = a_provider(packed(gzip.compress(b'{"id":"batch_1","status":"completed"}'), "gzip"), clock)
    assert provider.status("batch_1").end == "completed"
