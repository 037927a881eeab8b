"""What only Gemini does: uploads in pieces to an address that must not see the key, cut names, waits inside bodies."""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from pipeline.clock import FixedClock
from pipeline.domain import Judge
from pipeline.errors import AccountError, ConfigError, RejectedError, UnavailableError
from pipeline.providers import Sought, Submission, gemini
from pipeline.settings import Settings

NOW = datetime(2026, 11, 16, tzinfo=UTC)
PIECE = 8 * 2**20
UPLOAD = "https://uploads.googleapis.com/upload/v1beta/files?upload_id=u1&upload_protocol=resumable"


def a_judge(model: str = "gemini-3.8-flash", **more: Any) -> Judge:
    return Judge(provider="gemini", model=model, **more)


def a_submission(size: int) -> Submission:
    return Submission(
        batch_key="pl-0123456789abcdef0123456789abcdef",
        labels={},
        judge=a_judge(),
        requests=1,
        size=size,
        chunks=lambda: iter([b"x" * min(3_000_000, size - begin) for begin in range(0, size, 3_000_000)]),
    )


def built(answer: Callable[[httpx.Request], httpx.Response], **environment: str) -> gemini.Gemini:
    settings = Settings({"GOOGLE_API_KEY": "canary-google", **environment})
    return gemini.build(settings, FixedClock(NOW), transport=httpx.MockTransport(answer))


class Uploads:
    """A place for uploads that remembers every call; the file it keeps may be busy for a while."""

    def __init__(self, *, url: str = UPLOAD, states: tuple[str, ...] = ("ACTIVE",), fail_first: bool = False) -> None:
        self.calls: list[httpx.Request] = []
        self.received = b""
        self._url, self._states, self._fail = url, list(states), fail_first

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.calls.append(request)
        command = request.headers.get("x-goog-upload-command")
        if command == "start":
            self.received = b""
            return httpx.Response(200, headers={"x-goog-upload-url": self._url})
        if command is None:
            return httpx.Response(200, json={"name": "files/q", "state": self._states.pop(0)})
        assert int(request.headers["x-goog-upload-offset"]) == len(self.received)
        if self._fail:
            self._fail = False
            return httpx.Response(503)
        self.received += request.content
        if "finalize" not in command:
            return httpx.Response(200)
        return httpx.Response(200, json={"file": {"name": "files/q", "state": self._states.pop(0)}})


@pytest.mark.parametrize(
    ("size", "pieces"), [(5, [5]), (PIECE, [PIECE]), (PIECE + 1, [PIECE, 1]), (2 * PIECE, [PIECE, PIECE])]
)
def test_a_file_is_sent_in_pieces_of_eight_mebibytes(size: int, pieces: list[int]) -> None:
    uploads = Uploads()
    with closing(built(uploads)) as provider:
        assert provider.upload(a_submission(size)) == "files/q"
    assert [len(call.content) for call in uploads.calls[1:]] == pieces
    commands = [call.headers["x-goog-upload-command"] for call in uploads.calls[1:]]
    assert commands == ["upload"] * (len(pieces) - 1) + ["upload, finalize"]
    assert uploads.calls[0].headers["x-goog-upload-header-content-length"] == str(size)
    assert json.loads(uploads.calls[0].content) == {"file": {"displayName": "pl-0123456789abcdef0123456789abcdef"}}


def test_the_address_of_an_upload_never_sees_the_key() -> None:
    uploads = Uploads()
    with closing(built(uploads)) as provider:
        provider.upload(a_submission(10))
    start, piece = uploads.calls
    assert start.headers["x-goog-api-key"] == "canary-google"
    assert "canary-google" not in str(piece.headers.raw)
    assert piece.url.params["upload_id"] == "u1"


def test_an_upload_to_a_place_without_https_is_refused() -> None:
    uploads = Uploads(url="http://uploads.example/x?upload_id=1")
    with closing(built(uploads)) as provider, pytest.raises(RejectedError):
        provider.upload(a_submission(10))
    assert len(uploads.calls) == 1


def test_an_upload_that_breaks_off_is_begun_anew() -> None:
    uploads = Uploads(fail_first=True)
    with closing(built(uploads)) as provider:
        provider.upload(a_submission(10))
    assert uploads.received == b"x" * 10
    assert len(uploads.calls) == 4


def test_a_file_that_is_being_processed_is_waited_for() -> None:
    uploads = Uploads(states=("PROCESSING", "PROCESSING", "ACTIVE"))
    with closing(built(uploads)) as provider:
        assert provider.upload(a_submission(10)) == "files/q"


def test_a_file_that_cannot_be_used_is_refused() -> None:
    with closing(built(Uploads(states=("FAILED",)))) as provider, pytest.raises(RejectedError, match="FAILED"):
        provider.upload(a_submission(10))


def refusal(status: int, *details: dict[str, str]) -> Callable[[httpx.Request], httpx.Response]:
    error = {"code": status, "message": "No.", "status": "RESOURCE_EXHAUSTED", "details": list(details)}
    return lambda request: httpx.Response(status, json={"error": error})


@pytest.mark.parametrize(
    ("delay", "seconds"), [("34s", 34.0), ("0.2s", 1.0), ("86400s", 900.0), ("soon", None), ("-4s", 1.0)]
)
def test_a_429_is_waited_for_as_its_body_says(delay: str, seconds: float | None) -> None:
    answer = refusal(429, {"@type": "x.QuotaFailure"}, {"@type": "x.RetryInfo", "retryDelay": delay})
    with closing(built(answer)) as provider, pytest.raises(UnavailableError) as raised:
        provider.create(a_submission(1), file_id="files/q")
    assert raised.value.retry_after == seconds


def test_a_wrong_key_is_the_accounts_fault_even_as_a_400() -> None:
    answer = refusal(400, {"@type": "x.ErrorInfo", "reason": "API_KEY_INVALID"})
    with closing(built(answer)) as provider, pytest.raises(AccountError) as raised:
        provider.create(a_submission(1), file_id="files/q")
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("pl-0123456789abcdef0123456789abcdef", True),
        ("pl-0123456789abcdef012345678", True),
        ("pl-0123456789abcdef0123456789abcdef and more", True),
        ("pl-0123", False),
        ("pl-ffffffffffffffffffffffffffffffff", False),
        ("", False),
    ],
)
def test_a_name_that_was_cut_is_still_ours(shown: str, found: bool) -> None:
    operation = {"name": "batches/q", "metadata": {"displayName": shown, "state": "BATCH_STATE_RUNNING"}}
    with closing(built(lambda request: httpx.Response(200, json={"operations": [operation]}))) as provider:
        ours = provider.find(Sought(batch_key="pl-0123456789abcdef0123456789abcdef", since=NOW))
    assert [batch.remote_id for batch in ours] == (["batches/q"] if found else [])


@pytest.mark.parametrize(
    "page",
    [
        {"operations": [], "nextPageToken": "again"},
        {"nextPageToken": "again"},
        {"message": "upstream is restarting"},
        {"error": {"code": 13, "message": "Internal."}},
        {"operations": [], "error": {"code": 13}},
        {"operations": "none"},
    ],
)
def test_what_is_no_whole_listing_proves_nothing(page: dict[str, Any]) -> None:
    with closing(built(lambda request: httpx.Response(200, json=page))) as provider, pytest.raises(UnavailableError):
        provider.find(Sought(batch_key="pl-1", since=NOW))


@pytest.mark.parametrize("page", [{}, {"operations": []}, {"operations": [], "kind": "new"}])
def test_an_empty_listing_may_have_no_members_at_all(page: dict[str, Any]) -> None:
    with closing(built(lambda request: httpx.Response(200, json=page))) as provider:
        assert provider.find(Sought(batch_key="pl-1", since=NOW)) == []


def test_results_are_also_looked_for_at_the_other_documented_address() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        known = request.url.path == "/download/v1beta/files/q:download"
        return httpx.Response(200, content=b"{}\n") if known else httpx.Response(404)

    with closing(built(answer)) as provider:
        assert b"".join(provider.download("files/q")) == b"{}\n"


@pytest.mark.parametrize(
    ("environment", "key"),
    [({"GEMINI_API_KEY": "one"}, "one"), ({"GOOGLE_API_KEY": "two", "GEMINI_API_KEY": "one"}, "two")],
)
def test_the_google_key_wins(environment: dict[str, str], key: str) -> None:
    assert gemini.live_call(Settings(environment), a_judge()).headers == {"x-goog-api-key": key}


def test_the_version_is_a_setting() -> None:
    settings = Settings({"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_API_VERSION": "v1"})
    url = gemini.live_call(settings, a_judge("models/gemini-3.8-flash")).url
    assert url == "https://generativelanguage.googleapis.com/v1/models/gemini-3.8-flash:generateContent"
    with pytest.raises(ConfigError, match="GOOGLE_GEMINI_API_VERSION"):
        gemini.live_call(Settings({"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_API_VERSION": "v1/x"}), a_judge())


@pytest.mark.parametrize(
    ("model", "reasoning", "thinking"),
    [
        ("gemini-3.8-flash", "default", None),
        ("gemini-3.8-flash", "low", {"thinkingLevel": "LOW", "includeThoughts": True}),
        ("gemini-3.8-flash", "none", {"thinkingLevel": "LOW"}),
        ("gemini-3.5-flash-lite", "none", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.6-flash", "minimal", {"thinkingLevel": "MINIMAL", "includeThoughts": True}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "high", {"thinkingBudget": 24576, "includeThoughts": True}),
        ("gemini-9-next", "high", {"thinkingLevel": "HIGH", "includeThoughts": True}),
    ],
)
def test_reasoning_is_asked_for_as_the_family_takes_it(model: str, reasoning: str, thinking: object) -> None:
    judge = a_judge(model, reasoning=reasoning)
    gemini.check_judge(judge)
    request = json.loads(b"x".join(gemini.frame(judge, schema=None).texts))["request"]
    assert request.get("generationConfig", {}).get("thinkingConfig") == thinking


@pytest.mark.parametrize(
    ("model", "more", "says"),
    [
        ("gemini-3.8-flash", {"reasoning": "minimal"}, "minimal"),
        ("gemini-3.6-flash", {"reasoning": "xhigh"}, "xhigh"),
        ("gemini-2.5-pro", {"reasoning": "none"}, "always thinks"),
        ("gemini-3.8-flash", {"temperature": 0.0}, "ignored"),
        ("gemini-4-argon", {"temperature": 1.0}, "ignored"),
    ],
)
def test_what_is_known_to_be_refused_or_ignored_is_refused(model: str, more: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        gemini.check_judge(a_judge(model, **more))


def test_a_temperature_is_sent_to_models_that_take_it() -> None:
    judge = a_judge("gemini-2.5-flash", temperature=0.0, max_output_tokens=50)
    gemini.check_judge(judge)
    request = json.loads(b"x".join(gemini.frame(judge, schema={"type": "object"}).texts))["request"]
    assert request["generationConfig"] == {
        "maxOutputTokens": 50,
        "temperature": 0.0,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
    }
