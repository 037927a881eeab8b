"""The little of Google Cloud Storage that Vertex needs, and the token for both: plain HTTP on the JSON API."""

import contextlib
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.errors import AccountError, ConfigError, RejectedError, UnavailableError
from pipeline.providers._bodies import Body
from pipeline.providers._google import Page, google_pages
from pipeline.providers._http import Http
from pipeline.settings import is_loopback

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_NAME = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,221})/?(.*)")

Sign = Callable[[], Mapping[str, str]]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An object or a prefix in a bucket."""

    bucket: str
    name: str

    @classmethod
    def of(cls, uri: str, *, source: str) -> "Place":
        """Return the place, or raise ConfigError with where the address came from."""
        match = _NAME.fullmatch(uri)
        if match is None:
            raise ConfigError(f"{source} is {uri!r}; give an address like gs://bucket/prefix")
        return cls(bucket=match[1], name=match[2].strip("/"))

    def __truediv__(self, name: str) -> "Place":
        return Place(bucket=self.bucket, name=f"{self.name}/{name}".lstrip("/"))

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.name}"


class _Object(msgspec.Struct):
    name: str
    size: str | int = 0


class _Objects(Page):
    kind: str = ""
    items: tuple[_Object, ...] = ()


class Bucket:
    """Objects of Google Cloud Storage."""

    def __init__(self, base: str, sign: Sign, clock: Clock, *, transport: httpx.BaseTransport | None) -> None:
        self._http = Http(base, {}, clock, transport=transport, sign=sign)

    def put_new(self, place: Place, body: Body) -> None:
        """Create the object; that it is there already, whole, is success: an earlier try got through."""
        headers = {"content-type": "application/jsonl", "content-length": str(body.size)}
        params: dict[str, str | int] = {"uploadType": "media", "name": place.name, "ifGenerationMatch": 0}
        path = f"/upload/storage/v1/b/{place.bucket}/o"
        try:
            self._http.repeated(
                lambda: self._http.exchange(path, content=body.chunks(), headers=headers, params=params)
            )
        except RejectedError as error:
            if error.status != 412:
                raise
            size = int(self._http.get(_path(place), _Object).size)
            if size != body.size:
                raise RejectedError(f"{place} is already there with {size} bytes in place of {body.size}") from error

    def names(self, place: Place) -> list[str]:
        """Return the names of all objects under the prefix."""
        path, query = f"/storage/v1/b/{place.bucket}/o", {"prefix": f"{place.name}/"}
        listed = google_pages(self._http, path, _Objects, query)
        return sorted(item.name for page in listed for item in page.items)

    def read(self, place: Place) -> Iterator[bytes]:
        """Yield the object's bytes as they arrive."""
        return self._http.stream(f"{_path(place)}?alt=media")

    def delete(self, place: Place) -> None:
        """Delete the object; that it is gone already is success."""
        self._http.delete(_path(place))

    def close(self) -> None:
        """Close every connection."""
        self._http.close()


def _path(place: Place) -> str:
    return f"/storage/v1/b/{place.bucket}/o/{urllib.parse.quote(place.name, safe='')}"


def signer(base: str) -> Sign:
    """Return what puts a token of the application default credentials on each request; none to this machine."""
    if is_loopback(urllib.parse.urlsplit(base).hostname or ""):
        return dict
    return _default_token().headers


class Credentials(Protocol):
    """What google-auth offers, as far as it is used."""

    @property
    def token(self) -> object:
        """The token itself, a text."""
        ...

    @property
    def valid(self) -> bool:
        """Whether the token can still be used."""
        ...

    def refresh(self, request: object) -> None:
        """Make a new token."""
        ...


class Token:
    """An access token, made anew when it is old."""

    def __init__(self, credentials: Credentials, request: object) -> None:
        self._credentials = credentials
        self._request = request

    def headers(self) -> dict[str, str]:
        """Return the header, with a token that is valid now."""
        if not self._credentials.valid:
            with _translated():
                self._credentials.refresh(self._request)
        return {"authorization": f"Bearer {self._credentials.token}"}


def _default_token() -> Token:
    try:
        import google.auth  # noqa: PLC0415 - slow, and only Vertex needs it
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
        from google.auth.transport.requests import Request  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError('Vertex needs google-auth; run pip install "google-auth[requests]"') from error
    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except GoogleAuthError as error:
        raise ConfigError(
            "no application default credentials were found; run gcloud auth application-default login or set "
            "GOOGLE_APPLICATION_CREDENTIALS"
        ) from error
    return Token(credentials, Request())


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    from google.auth.exceptions import GoogleAuthError, TransportError  # noqa: PLC0415 - as above

    try:
        yield
    except TransportError as error:
        raise UnavailableError("no token was made: Google's token service cannot be reached") from error
    except GoogleAuthError as error:
        raise AccountError("no token was made: the application default credentials are refused") from error
