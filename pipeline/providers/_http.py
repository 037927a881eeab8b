"""All HTTP of the providers: one client, one retry policy, and one reading of what a failure means.

A call that may be repeated is repeated here while nothing happened; a create goes through `post_once`, which never
repeats and tells "refused" from "unknown". Nothing of httpx leaves this module.
"""

import contextlib
import email.utils
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import httpx
import msgspec
import tenacity

from pipeline.clock import Clock
from pipeline.errors import (
    AccountError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    UnavailableError,
)
from pipeline.settings import Secret

T = TypeVar("T")

_REFUSALS = frozenset({400, 401, 403, 404, 405, 410, 411, 413, 414, 415, 422})
_MONEY = ("insufficient_quota", "billing", "credit", "payment")
_TIMEOUT = httpx.Timeout(60.0, connect=10.0, write=300.0)
_LARGEST_ANSWER = 64 * 2**20
_TRIES = 5
_LONGEST_WAIT_INSIDE_A_CALL = 30.0


class Http:
    """A provider's address with its headers."""

    def __init__(
        self, base: str, headers: Mapping[str, str], clock: Clock, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.base = base
        self._clock = clock
        self._client = httpx.Client(
            headers={"user-agent": "pairlog", **headers}, timeout=_TIMEOUT, transport=transport, trust_env=False
        )

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def get(self, path: str, kind: type[T], *, params: Mapping[str, str | int] | None = None) -> T:
        """Return what the address answers; repeated while nothing happened."""
        return self._repeated(lambda: _decoded(self._answer("GET", path, params=params), kind))

    def post(self, path: str, kind: type[T], *, json: object = None) -> T:
        """Make a call that does no harm when it is made twice."""
        body = None if json is None else msgspec.json.encode(json)
        headers = {} if body is None else {"content-type": "application/json"}
        return self._repeated(lambda: _decoded(self._answer("POST", path, content=body, headers=headers), kind))

    def delete(self, path: str) -> None:
        """Delete; that it is gone already is success."""
        try:
            self._repeated(lambda: self._answer("DELETE", path))
        except RejectedError as error:
            if error.status not in {404, 410}:
                raise

    def upload(self, path: str, kind: type[T], *, fields: Mapping[str, str], name: str, body: "Body") -> T:
        """Send a form with one file, streamed; repeated from its start while nothing happened."""

        def send() -> T:
            form = _Form(fields, name, body, boundary=self._clock.nonce())
            return _decoded(self._answer("POST", path, content=form, headers=form.headers), kind)

        return self._repeated(send)

    def post_once(self, path: str, *, json: object) -> bytes:
        """Make a call that must not be made twice and return the answer's bytes.

        Raises UnavailableError (nothing happened), RejectedError or AccountError (refused), OutcomeUnknownError.
        """
        try:
            response = self._client.post(
                self.base + path,
                content=msgspec.json.encode(json),
                headers={"content-type": "application/json"},
                follow_redirects=False,
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise UnavailableError(f"POST {path} did not reach {self._host}: {_named(error)}") from error
        except httpx.HTTPError as error:
            raise OutcomeUnknownError(f"POST {path} to {self._host} broke off: {_named(error)}") from error
        if response.is_success:
            return response.content
        fault = _fault(response, "POST", path)
        known = isinstance(fault, RejectedError | AccountError) or response.status_code == 429
        raise fault if known else OutcomeUnknownError(str(fault))

    def stream(self, path: str, *, headers: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """Yield the bytes of a large answer; raises UnavailableError if it breaks off before its end."""
        with self._translated("GET", path), contextlib.ExitStack() as stack:
            request = self._client.build_request("GET", self.base + path, headers=headers)
            response = self._client.send(request, stream=True, follow_redirects=False)
            stack.callback(response.close)
            if not response.is_success:
                response.read()
                raise _fault(response, "GET", path)
            yield from response.iter_bytes(1 << 20)

    def _answer(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        content: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        with self._translated(method, path):
            response = self._client.request(
                method, self.base + path, params=params, content=content, headers=headers, follow_redirects=False
            )
        if not response.is_success:
            raise _fault(response, method, path)
        if len(response.content) > _LARGEST_ANSWER:
            raise RejectedError(f"{method} {path} answered with {len(response.content)} bytes; that is no answer")
        return response.content

    @contextlib.contextmanager
    def _translated(self, method: str, path: str) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            raise UnavailableError(f"{method} {path} at {self._host} failed: {_named(error)}") from error

    def _repeated(self, call: Callable[[], T]) -> T:
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(_worth_repeating),
            wait=_wait,
            stop=tenacity.stop_after_attempt(_TRIES),
            sleep=self._clock.sleep,
            reraise=True,
        )(call)

    @property
    def _host(self) -> str:
        return httpx.URL(self.base).netloc.decode()


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a known size that can be produced again."""

    size: int
    chunks: Callable[[], Iterator[bytes]]


class _Form:
    """A multipart form with one file that is streamed."""

    def __init__(self, fields: Mapping[str, str], name: str, body: Body, *, boundary: str) -> None:
        lead = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
            for field, value in fields.items()
        )
        lead += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        self._lead = f"{lead}Content-Type: application/octet-stream\r\n\r\n".encode()
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self._body = body
        self.headers = {
            "content-type": f"multipart/form-data; boundary={boundary}",
            "content-length": str(len(self._lead) + body.size + len(self._tail)),
        }

    def __iter__(self) -> Iterator[bytes]:
        yield self._lead
        yield from self._body.chunks()
        yield self._tail


def fingerprint(key: Secret) -> str:
    """Return eight hex digits that tell two keys apart and reveal neither."""
    return hashlib.blake2b(key.reveal().encode(), digest_size=4, salt=b"pairlog account").hexdigest()


def decoded(body: bytes, kind: type[T]) -> T:
    """Return the answer, or raise OutcomeUnknownError: it came back from a call that may have worked."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise OutcomeUnknownError(f"the answer cannot be read: {error}") from error


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


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise UnavailableError(f"the answer cannot be read: {error}") from error


def _fault(response: httpx.Response, method: str, path: str) -> ProviderError:
    """Return the error that says what the caller can do about this answer."""
    status, detail = response.status_code, _detail(response)
    message = f"{method} {path} answered {status}: {detail.message}"
    kind = f"{detail.code or ''} {detail.type or ''}".lower()
    if status in {402, 403, 429} and any(word in kind for word in _MONEY):
        return AccountError(message, code=detail.code or detail.type)
    if status in {401, 403}:
        return AccountError(message, code=detail.code or detail.type or f"http_{status}")
    if status == 429:
        return UnavailableError(message, retry_after=retry_after(response))
    if status in _REFUSALS or 300 <= status < 400:
        return RejectedError(message, status=status, code=detail.code or detail.type or f"http_{status}")
    return UnavailableError(message, retry_after=retry_after(response))


class _Detail(msgspec.Struct, frozen=True):
    message: str = "no reason given"
    type: str | None = None
    code: str | None = None


class _Problem(msgspec.Struct):
    message: object = None
    type: object = None
    code: object = None


class _Envelope(msgspec.Struct):
    error: _Problem | str | None = None


def _detail(response: httpx.Response) -> _Detail:
    """Return what the body says is wrong, shortened; tolerant of HTML and of errors that are bare text."""
    try:
        error = msgspec.json.decode(response.content, type=_Envelope).error
    except msgspec.DecodeError:
        return _Detail(message=f"{len(response.content)} bytes that are not the provider's JSON")
    if isinstance(error, str):
        return _Detail(message=error[:500])
    if error is None:
        return _Detail()
    return _Detail(message=str(error.message)[:500], type=_text(error.type), code=_text(error.code))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _named(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()


def _worth_repeating(error: BaseException) -> bool:
    if not isinstance(error, UnavailableError):
        return False
    return error.retry_after is None or error.retry_after <= _LONGEST_WAIT_INSIDE_A_CALL


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, UnavailableError) else None
    return asked if asked is not None else min(0.5 * 2.0**state.attempt_number, 8.0)
