"""All HTTP of the providers: one client, one retry policy, and one reading of what a failure means.

A call that may be repeated is repeated here while nothing happened; a create goes through `post_once`, which never
repeats and tells "refused" from "unknown". Nothing of httpx leaves this module.
"""

import contextlib
import hashlib
import re
import urllib.parse
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from typing import TypeVar

import httpx
import msgspec
import tenacity

from pipeline.clock import Clock
from pipeline.errors import AccountError, OutcomeUnknownError, RejectedError, UnavailableError, UnreachableError
from pipeline.providers._bodies import Body, Form, Reply, with_content
from pipeline.providers._lenient import lenient
from pipeline.providers._refusals import chunks_without_keys, fault_of, without_keys
from pipeline.settings import Secret, is_loopback

T = TypeVar("T")

_TIMEOUT = httpx.Timeout(60.0, connect=10.0, write=300.0)
_TIMEOUT_OF_LARGE_CREATES = httpx.Timeout(300.0, connect=10.0, write=60.0)  # over before a quiet period is
# Connections: on one that goes on, a server's second answer to a call would be taken for the answer to the next.
_ONE_CALL_EACH = httpx.Limits(max_connections=None, max_keepalive_connections=0)
_LARGEST_ANSWER = 64 * 2**20
_PACKINGS = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
_ID = re.compile(r"[!-~]{1,1024}")
_TRIES = 5
_LONGEST_WAIT_INSIDE_A_CALL = 30.0


class Http:
    """A provider's address with its headers."""

    def __init__(
        self,
        base: str,
        headers: Mapping[str, str],
        clock: Clock,
        *,
        transport: httpx.BaseTransport | None = None,
        sign: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.base = base
        self._clock = clock
        self._own_headers = tuple(headers)
        self._client = httpx.Client(
            headers={"user-agent": "pairlog", "accept-encoding": "gzip", **headers},
            auth=None if sign is None else _Signed(sign),
            timeout=_TIMEOUT,
            limits=_ONE_CALL_EACH,
            transport=transport,
            trust_env=False,
        )

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def get(self, path: str, kind: type[T], *, params: Mapping[str, str | int] | None = None) -> T:
        """Return what the address answers; repeated while nothing happened."""
        return self.repeated(lambda: _decoded(self._answer("GET", path, params=params), kind))

    def shown(self, path: str, kind: type[T]) -> T:
        """Return what the address shows, read in spite of odd members that have a default."""
        return self.repeated(lambda: _shown(self._answer("GET", path), kind))

    def post(self, path: str, kind: type[T]) -> T:
        """Make a call without a body that does no harm when it is made twice."""
        return self.repeated(lambda: _decoded(self._answer("POST", path), kind))

    def stop(self, path: str) -> None:
        """Post a wish that something end; that it has ended already is success."""

        def send() -> None:
            with self._translated("POST", path):
                response = self._sent(self._client.build_request("POST", self.base + path))
            if not response.is_success:
                fault = fault_of(response, "POST", path)
                if response.status_code not in {400, 409} or isinstance(fault, AccountError):
                    raise fault

        self.repeated(send)

    def delete(self, path: str) -> None:
        """Delete; that it is gone already is success."""
        try:
            self.repeated(lambda: self._answer("DELETE", path))
        except RejectedError as error:
            if error.status not in {404, 410}:
                raise

    def upload(self, path: str, kind: type[T], *, fields: Mapping[str, str], name: str, body: Body) -> T:
        """Send a form with one file, streamed; repeated from its start while nothing happened."""

        def send() -> T:
            form = Form(fields, name, body, boundary=self._clock.nonce())
            return _decoded(self._answer("POST", path, content=form, headers=form.headers), kind)

        return self.repeated(send)

    def form(self, path: str, *, fields: Mapping[str, str], expected: Container[int]) -> Reply:
        """Send a form without a file; return the answer, also one whose status is among the `expected`."""
        parts = [(name, (None, value)) for name, value in fields.items()]

        def send() -> Reply:
            with self._translated("POST", path):
                response = self._sent(self._client.build_request("POST", self.base + path, files=parts))
            if not response.is_success and response.status_code not in expected:
                raise fault_of(response, "POST", path)
            return Reply(status=response.status_code, headers=response.headers, body=response.content)

        return self.repeated(send)

    def put_signed(self, url: str, body: Body) -> None:
        """Put bytes to an address the provider signed, without our headers: it knows nothing of our key."""
        host = checked_host(url)

        def send() -> None:
            headers = {"content-type": "application/octet-stream", "content-length": str(body.size)}
            request = self._client.build_request("PUT", url, content=body.chunks(), headers=headers)
            for name in self._own_headers:
                del request.headers[name]
            with self._translated("PUT", f"to {host}"):
                response = self._sent(request)
            if not response.is_success:
                raise UnavailableError(f"PUT to {host} answered {response.status_code}; the upload starts again")

        self.repeated(send)

    def exchange(
        self,
        path: str,
        *,
        content: bytes | Iterable[bytes],
        headers: Mapping[str, str],
        params: Mapping[str, str | int] | None = None,
    ) -> Reply:
        """Post once and return the answer with its headers: one step of what is `repeated` as a whole."""
        response = self._response("POST", path, params=params, content=content, headers=headers)
        return Reply(status=response.status_code, headers=response.headers, body=response.content)

    def repeated(self, call: Callable[[], T]) -> T:
        """Return what the call returns; made again from its start while nothing happened."""
        return repeated(call, self._clock)

    def post_once(
        self, path: str, *, json: object = None, body: Body | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Make a call that must not be made twice, with `json` or a streamed `body`; return the answer's bytes.

        Raises UnavailableError (nothing happened), RejectedError or AccountError (refused), OutcomeUnknownError.
        """
        size = {} if body is None else {"content-length": str(body.size)}
        try:
            request = self._client.build_request(
                "POST",
                self.base + path,
                content=msgspec.json.encode(json) if body is None else body.chunks(),
                headers={"content-type": "application/json", **size, **(headers or {})},
                timeout=_TIMEOUT if body is None else _TIMEOUT_OF_LARGE_CREATES,
            )
            response = self._sent(request)
        except httpx.InvalidURL as error:
            raise _no_address("POST", path) from error
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise UnavailableError(f"POST {path} did not reach {self._host}: {_named(error)}") from _cause(error)
        except httpx.HTTPError as error:
            raise OutcomeUnknownError(f"POST {path} to {self._host} broke off: {_named(error)}") from _cause(error)
        if response.is_success:
            return response.content
        fault = fault_of(response, "POST", path)
        known = isinstance(fault, RejectedError | AccountError) or response.status_code == 429
        raise fault if known else OutcomeUnknownError(str(fault))

    def stream(self, path: str) -> Iterator[bytes]:
        """Yield a large answer's bytes without our keys; raises UnavailableError if it breaks off before its end."""
        with self._translated("GET", path), contextlib.ExitStack() as stack:
            request = self._client.build_request("GET", self.base + path)
            response = self._client.send(request, stream=True, follow_redirects=False)
            stack.callback(response.close)
            if not response.is_success:
                raise fault_of(_plain(response), "GET", path)
            _check_packing(response)
            yield from chunks_without_keys(response.iter_bytes(1 << 20), response.request)

    def _sent(self, request: httpx.Request) -> httpx.Response:
        """Send the request; return what came back, read no further than an answer is long, without our keys."""
        response = self._client.send(request, stream=True, follow_redirects=False)
        try:
            return _plain(response)
        finally:
            response.close()

    def _answer(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        content: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        return self._response(method, path, params=params, content=content, headers=headers).content

    def _response(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None,
        content: bytes | Iterable[bytes] | None,
        headers: Mapping[str, str] | None,
    ) -> httpx.Response:
        with self._translated(method, path):
            request = self._client.build_request(
                method, self.base + path, params=params, content=content, headers=headers
            )
            response = self._sent(request)
        if not response.is_success:
            raise fault_of(response, method, path)
        return response

    @contextlib.contextmanager
    def _translated(self, method: str, path: str) -> Iterator[None]:
        try:
            yield
        except httpx.InvalidURL as error:
            raise _no_address(method, path) from error
        except _TooLargeError as error:
            raise RejectedError(f"{method} {path} at {self._host} failed: {error}") from error
        except httpx.HTTPError as error:
            is_nobody_there = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            kind = UnreachableError if is_nobody_there else UnavailableError
            raise kind(f"{method} {path} at {self._host} failed: {_named(error)}") from _cause(error)

    @property
    def _host(self) -> str:
        return httpx.URL(self.base).netloc.decode()


class _Signed(httpx.Auth):
    """Puts headers on every request that are made when it is sent, such as a token that grows old."""

    def __init__(self, sign: Callable[[], Mapping[str, str]]) -> None:
        self._sign = sign

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sign the request and send it."""
        request.headers.update(self._sign())
        yield request


def repeated(call: Callable[[], T], clock: Clock) -> T:
    """Return what the call returns, made again while nothing happened: the one policy of all providers."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_worth_repeating),
        wait=_wait,
        stop=tenacity.stop_after_attempt(_TRIES),
        sleep=clock.sleep,
        reraise=True,
    )(call)


def fingerprint(key: Secret) -> str:
    """Return eight hex digits that tell two keys apart and reveal neither."""
    return hashlib.blake2b(key.reveal().encode(), digest_size=4, salt=b"pairlog account").hexdigest()


def checked_host(url: str) -> str:
    """Return the host of an address that came from a provider, or raise RejectedError if texts may not go there."""
    parts = urllib.parse.urlsplit(url)
    if not parts.hostname or (parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname))):
        raise RejectedError(f"the provider names {parts.scheme}://{parts.hostname or ''}, which is not https")
    return parts.hostname


def quoted(remote_id: str) -> str:
    """Return an id that came from a provider as a part of an address."""
    return urllib.parse.quote(remote_id, safe="")


def checked_id(remote_id: str | None, path: str) -> str:
    """Return the id that a create at this path answered with, or raise OutcomeUnknownError if it cannot be one."""
    if not remote_id:
        raise OutcomeUnknownError(f"POST {path} answered without an id")
    if not _ID.fullmatch(remote_id):
        raise OutcomeUnknownError(f"POST {path} answered with an id that cannot be one: {remote_id[:40]!r}")
    return remote_id


def decoded(body: bytes, kind: type[T]) -> T:
    """Return the answer, or raise OutcomeUnknownError: it came back from a call that may have worked."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise OutcomeUnknownError(f"the answer cannot be read: {error}") from error


def _shown(body: bytes, kind: type[T]) -> T:
    try:
        return lenient(body, kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UnavailableError(f"the answer cannot be read: {error}") from error


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UnavailableError(f"the answer cannot be read: {error}") from error


class _TooLargeError(httpx.DecodingError):
    """An answer that goes on for longer than any answer does."""


def _plain(response: httpx.Response) -> httpx.Response:
    """Return the answer read and unpacked, as far as an answer may go, and without the keys we sent."""
    _check_packing(response)
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > _LARGEST_ANSWER:
            told = f"it answered with more than {_LARGEST_ANSWER} bytes; that is no answer"
            raise _TooLargeError(told, request=response.request)
    return with_content(response, without_keys(bytes(body), response.request))


def _check_packing(response: httpx.Response) -> None:
    """Refuse what is packed twice, or in a way we did not ask for: a little of it may unpack to more than memory."""
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in _PACKINGS:
        said = without_keys(packing.encode(), response.request).decode()[:40]
        raise httpx.DecodingError(f"it is packed as {said}, which was not asked for", request=response.request)


def _no_address(method: str, path: str) -> RejectedError:
    return RejectedError(f"{method} {path[:200]!r} is no address; an id in it cannot be one")


def _named(error: httpx.HTTPError) -> str:
    return f"{type(error).__name__} {_without_keys(error)}".strip()


def _without_keys(error: httpx.HTTPError) -> str:
    """Return what the error says without our keys: of an answer that is not HTTP it quotes a line."""
    return without_keys(str(error).encode(errors="replace"), error.request).decode()


def _cause(error: httpx.HTTPError) -> httpx.HTTPError | None:
    """Return the error as the cause of ours, unless it says a key: causes are printed too."""
    return error if _without_keys(error) == str(error) else None


def _worth_repeating(error: BaseException) -> bool:
    if not isinstance(error, UnavailableError):
        return False
    return error.retry_after is None or error.retry_after <= _LONGEST_WAIT_INSIDE_A_CALL


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, UnavailableError) else None
    return asked if asked is not None else min(0.5 * 2.0**state.attempt_number, 8.0)
