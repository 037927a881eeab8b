"""The store on Google Cloud Storage: a create is one multipart upload with `ifGenerationMatch=0`.

Bodies above one part go through a resumable upload, which becomes an object in one step at its end; one that was
abandoned is dropped by Google after a week. Nothing is cached.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from pipeline.clock import Clock, SystemClock
from pipeline.errors import MissingError, StoreError
from pipeline.ids import digest
from pipeline.storage import keys
from pipeline.storage._addresses import place_of
from pipeline.storage._gcs_client import GcsClient, RefusedCallError, Reply, explain
from pipeline.storage._parts import put_stream
from pipeline.storage._patience import Calls, Patience
from pipeline.storage._ranges import Range, range_file

_MARK = "pairlog-write"  # metadata by which a write that was not acknowledged is recognised
_IF_ABSENT = {"ifGenerationMatch": "0"}
_PLAIN = "application/octet-stream"


class _Object(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    size: str = "0"
    metadata: dict[str, str] = {}


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[_Object, ...] = ()
    next: str = msgspec.field(name="nextPageToken", default="")


_pages = msgspec.json.Decoder(_Page)
_objects = msgspec.json.Decoder(_Object)


class GcsStore:
    """Objects below a prefix of a bucket."""

    def __init__(self, url: str, *, clock: Clock | None = None, patience: Patience | None = None) -> None:
        self._place = place_of(url)
        self._clock = clock or SystemClock()
        self._calls = Calls(explain=explain, clock=self._clock, patience=patience or Patience())
        self._client = GcsClient(self._place.bucket)

    @property
    def url(self) -> str:
        """Where the store is."""
        return self._place.url

    def put_new(self, key: str, body: bytes) -> None:
        """Create the object whole, or raise ConflictError if the key is taken."""
        mark = self._clock.nonce()
        boundary, related = _related(self._about(keys.checked(key), mark), body)
        self._calls.make(
            self._what("create", key),
            lambda: self._client.upload(
                params={"uploadType": "multipart", **_IF_ABSENT},
                headers={"Content-Type": f"multipart/related; boundary={boundary}"},
                body=related,
            ),
            settled=lambda: self._written(key, mark),
        )

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        """Create an object of any size whole, or raise ConflictError; nothing is visible before the end."""
        put_stream(self, key, chunks)

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        """Create the object of its parts, or raise ConflictError; nothing is visible before the end."""
        mark = self._clock.nonce()
        session = self._opened(key, mark)
        try:
            at = 0
            for part, is_last in _with_last(parts):
                self._put_part(key, session, part, at=at, is_last=is_last, mark=mark)
                at += len(part)
        except BaseException:
            with contextlib.suppress(Exception):  # what ended the upload is the error; the rest is dropped in a week
                self._client.call("DELETE", session)
            raise

    def _opened(self, key: str, mark: str) -> str:
        """Return the address of a new resumable upload."""
        name, about = self._place.name(key), self._about(key, mark)
        reply = self._calls.make(
            self._what("create", key),
            lambda: self._client.upload(
                params={"uploadType": "resumable", "name": name, **_IF_ABSENT},
                headers={"Content-Type": "application/json", "X-Upload-Content-Type": _PLAIN},
                body=about,
            ),
        )
        return reply.headers["Location"]

    def _put_part(self, key: str, session: str, part: bytes, *, at: int, is_last: bool, mark: str) -> None:
        """Send one part until all of it is kept; what the server has already is not sent again."""
        end = at + len(part)
        while at < end:
            reply = self._sent(key, session, part[at - end :], place=(at, end if is_last else None), mark=mark)
            kept = _kept(reply) if reply.status == 308 else end
            if kept <= at or (reply.status != 308 and not is_last):
                raise StoreError(f"{self._what('create', key)}: its upload broke off; run the command again")
            at = kept

    def _sent(self, key: str, session: str, part: bytes, *, place: tuple[int, int | None], mark: str) -> Reply:
        at, total = place
        span = f"bytes {at}-{at + len(part) - 1}/{'*' if total is None else total}"
        return self._calls.make(
            self._what("create", key),
            lambda: self._client.call(
                "PUT", session, headers={"Content-Range": span, "Content-Type": _PLAIN}, body=part
            ),
            settled=lambda: self._written(key, mark),
        )

    def _about(self, key: str, mark: str) -> bytes:
        """Return what goes with an object: its name, and the mark of who writes it."""
        return msgspec.json.encode({"name": self._place.name(key), "metadata": {_MARK: mark}})

    def _written(self, key: str, mark: str) -> Reply | None:
        """Return what is known of the object if it was written under this mark."""
        with contextlib.suppress(MissingError):
            reply = self._look(key, fields="name,metadata")
            return reply if _objects.decode(reply.body).metadata.get(_MARK) == mark else None
        return None

    def get(self, key: str) -> bytes:
        """Return the object's bytes, or raise MissingError."""
        return self._fetch(key, {}).body

    def open(self, key: str) -> BinaryIO:
        """Return a seekable file of the object's bytes, or raise MissingError."""
        return range_file(lambda start, stop: self._fetch(key, {"Range": f"bytes={start}-{stop - 1}"}))

    def _fetch(self, key: str, headers: dict[str, str]) -> Range:
        name = self._place.name(key)

        def fetch() -> Range:
            try:
                reply = self._client.look(name, params={"alt": "media"}, headers=headers)
            except RefusedCallError as error:
                if error.reply.status == 416:  # an empty object has no range
                    return Range(body=b"", size=0)
                raise
            size = reply.headers.get("Content-Range", "").rpartition("/")[2]
            return Range(body=reply.body, size=int(size) if size.isdigit() else len(reply.body))

        return self._calls.make(self._what("read", key), fetch)

    def exists(self, key: str) -> bool:
        """Say whether there is such an object now."""
        try:
            self._look(key, fields="name")
        except MissingError:
            return False
        return True

    def _look(self, key: str, *, fields: str) -> Reply:
        name = self._place.name(key)
        return self._calls.make(self._what("look for", key), lambda: self._client.look(name, params={"fields": fields}))

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        """Return every key below the folder that sorts behind `after`, in order."""
        begin = {"startOffset": self._place.name(after)} if after else {}
        return sorted(key for key in self._sizes(folder, begin) if key > after)

    def sizes(self, folder: str) -> dict[str, int]:
        """Return every key below the folder with the size of its object."""
        return self._sizes(folder, {})

    def _sizes(self, folder: str, parameters: dict[str, str]) -> dict[str, int]:
        found = (each for page in self._pages(folder, parameters) for each in page.items)
        return {self._place.key(each.name): int(each.size) for each in found if not each.name.endswith("/")}

    def _pages(self, folder: str, parameters: dict[str, str]) -> Iterator[_Page]:
        asked = {
            **parameters,
            "prefix": self._place.name(f"{folder}/"),
            "fields": "items(name,size),nextPageToken",
        }
        while True:
            page = self._page(folder, asked)
            yield page
            if not page.next:
                return
            asked = {**asked, "pageToken": page.next}

    def _page(self, folder: str, asked: dict[str, str]) -> _Page:
        reply = self._calls.make(self._what("list", folder), lambda: self._client.look(params=asked))
        return _pages.decode(reply.body)

    def _what(self, verb: str, key: str) -> str:
        return f"cannot {verb} {key} in {self.url}"


def _kept(reply: Reply) -> int:
    """Return how many bytes of an unfinished upload the server has; it names no range while it has none."""
    last = reply.headers.get("Range", "").rpartition("-")[2]
    return int(last) + 1 if last.isdigit() else 0


def _related(about: bytes, body: bytes) -> tuple[str, bytes]:
    """Return a boundary that does not occur in the body, and description and body as one multipart message."""
    boundary = digest(body)[:32]
    while boundary.encode() in body:
        boundary = digest(boundary.encode())[:32]
    head = b"--%b\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n%b\r\n--%b\r\nContent-Type: %b\r\n\r\n"
    mark = boundary.encode()
    return boundary, b"%b%b\r\n--%b--\r\n" % (head % (mark, about, mark, _PLAIN.encode()), body, mark)


def _with_last(parts: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield every part and whether it is the last."""
    rest = iter(parts)
    held = next(rest)
    for part in rest:
        yield held, False
        held = part
    yield held, True
