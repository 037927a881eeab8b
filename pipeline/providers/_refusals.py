"""What an answer other than success means: read from its status, its headers and the provider's words."""

import contextlib
import email.utils
import functools
import re
from collections.abc import Iterable, Iterator

import httpx
import msgspec

from pipeline.errors import AccountError, ProviderError, RejectedError, UnavailableError
from pipeline.providers._faults import wants_money

_REFUSALS = frozenset({400, 401, 403, 404, 405, 410, 411, 412, 413, 414, 415, 422})
_SECRET_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_SHORTEST_KEY = 12
_LONGEST_ESCAPE = 6
_ESCAPED = re.compile(rb"\\u00(?:2[bBdDeEfF]|3[0-9dD]|[4-7])")  # letters of keys; servers escape quotes, <, > and &
_ACCOUNT_AT_400 = ("api_key_invalid", "api key not valid", "credit balance")  # Google's and Anthropic's words


def retry_after(response: httpx.Response) -> float | None:
    """Return how many seconds the answer asks us to wait, between 1 s and 15 min, or None."""
    text = response.headers.get("retry-after-ms")
    with contextlib.suppress(ValueError, TypeError):
        return _clamped(float(text) / 1000)
    text = response.headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        return _clamped(float(text))
    with contextlib.suppress(ValueError, TypeError):
        now = email.utils.parsedate_to_datetime(response.headers.get("date", ""))
        return _clamped((email.utils.parsedate_to_datetime(text) - now).total_seconds())
    return None


def _clamped(seconds: float) -> float | None:
    return min(max(seconds, 1.0), 900.0) if seconds == seconds else None  # noqa: PLR0124 - NaN is unequal to itself


def fault_of(response: httpx.Response, method: str, path: str) -> ProviderError:
    """Return the error that says what the caller can do about this answer."""
    status, detail = response.status_code, _detail(response)
    message = f"{method} {path} answered {status}: {detail.message}"
    kind = f"{detail.code or ''} {detail.type or ''}"
    if status == 402 or (status in {403, 429} and wants_money(kind)):
        return AccountError(message, code=detail.code or detail.type)
    if status in {401, 403} or (status == 400 and any(word in detail.words for word in _ACCOUNT_AT_400)):
        return AccountError(message, code=detail.code or detail.type or f"http_{status}")
    if status == 429:
        return UnavailableError(message, retry_after=retry_after(response) or detail.retry_delay)
    if status in _REFUSALS or 300 <= status < 400:
        return RejectedError(message, status=status, code=detail.code or detail.type or f"http_{status}")
    return UnavailableError(message, retry_after=retry_after(response))


def without_keys(body: bytes, request: httpx.Request) -> bytes:
    """Return what came back without the keys that were sent, which some servers repeat, in whatever case or escape.

    What is shorter than any key may be a common word and stays: it is no secret.
    """
    for key in _keys_in(request):
        if key.lower().encode() in body.lower() or _may_escape(body, key):
            body = _as_it_may_stand(key).sub(b"***", body)
    return body


def chunks_without_keys(chunks: Iterable[bytes], request: httpx.Request) -> Iterator[bytes]:
    """Yield the same of what comes in chunks, the end of one held back while a key may go on in the next."""
    longest = max((_LONGEST_ESCAPE * len(key) for key in _keys_in(request)), default=1)
    held = b""
    for chunk in chunks:
        held = without_keys(held + chunk, request)
        ready = max(len(held) - longest + 1, 0)
        if ready:
            yield held[:ready]
        held = held[ready:]
    if held:
        yield held


def _keys_in(request: httpx.Request) -> list[str]:
    sent = (request.headers.get(name, "").removeprefix("Bearer ") for name in _SECRET_HEADERS)
    return [key for key in sent if len(key) >= _SHORTEST_KEY]


@functools.lru_cache(maxsize=16)
def _as_it_may_stand(key: str) -> re.Pattern[bytes]:
    """Return what finds the key in JSON; it is slow."""
    written = (rf"(?:{re.escape(letter)}|\\{_behind_a_backslash(letter)})" for letter in key)
    return re.compile("".join(written).encode(), re.IGNORECASE)


def _may_escape(body: bytes, key: str) -> bool:
    """Say whether some letter of a key may stand as an escape in what came back; in most answers none does."""
    return bool(_ESCAPED.search(body)) or ("/" in key and rb"\/" in body)


def _behind_a_backslash(letter: str) -> str:
    """Return how an escape may name the letter; a bare one of a word's letters names something else."""
    code = f"u{ord(letter):04x}"
    return code if letter.isalnum() else f"(?:{code}|{re.escape(letter)})"


class _Detail(msgspec.Struct, frozen=True):
    message: str = "no reason given"
    type: str | None = None
    code: str | None = None
    retry_delay: float | None = None
    words: str = ""


class _Problem(msgspec.Struct):
    message: object = None
    type: object = None
    code: object = None
    status: object = None
    details: object = None


class _Envelope(msgspec.Struct):
    """An error in its envelope, or, as Mistral and old servers of vLLM have it, without one."""

    error: _Problem | str | None = None
    message: object = None
    type: object = None
    code: object = None


def _detail(response: httpx.Response) -> _Detail:
    """Return what the body says is wrong, shortened; tolerant of HTML and of errors that are bare text."""
    try:
        body = without_keys(response.content, response.request)
        envelope = msgspec.json.decode(body, type=_Envelope)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _Detail(message=f"{len(response.content)} bytes that are not the provider's JSON")
    if isinstance(envelope.error, str):
        return _Detail(message=envelope.error[:500], type=_money_in(envelope.error))
    if envelope.error is None and envelope.message is None:
        return _Detail()
    error = envelope.error or _Problem(message=envelope.message, type=envelope.type, code=envelope.code)
    return _Detail(
        message=str(error.message)[:500],
        type=_text(error.type),
        code=_text(error.status or error.code),
        retry_delay=_retry_delay(error.details),
        words=f"{error.message} {error.details}".lower(),
    )


class _Info(msgspec.Struct, rename="camel"):
    retry_delay: str | None = None


def _retry_delay(details: object) -> float | None:
    """Return the wait that Google asks for inside the body, as in `[{"retryDelay": "34s"}]`, or None."""
    with contextlib.suppress(msgspec.ValidationError, ValueError):
        delays = [info.retry_delay for info in msgspec.convert(details, list[_Info]) if info.retry_delay]
        return _clamped(float(delays[0].removesuffix("s"))) if delays else None
    return None


def _money_in(text: str) -> str | None:
    """Return the kind of an error that is a bare text, where the text speaks of money."""
    return "insufficient_quota" if wants_money(text) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:200]
