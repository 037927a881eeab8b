"""Gemini Developer API: an uploaded file, then a batch on it, which is a long-running operation.

Odd about it: the model stands in the address; a batch's state, output and counts stand in `metadata`, its error beside
it; states come with two prefixes, zero counts are left out, whole numbers are strings. A batch that expires (48 h) has
no results at all. Our key is the `displayName`, which might come back cut. A 429 tells its wait inside the body. The
inline way is not used: its results have been seen without keys. A listing has no documented order: all of it is read.
Limits: 2 GB a file; no number of requests is documented, so Vertex's 200,000 is ours; files are kept 48 h.
"""

import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import QUESTION, REQUEST_ID, Frame, Judge, Limits, Message, Mode, Output
from pipeline.errors import ConfigError, RejectedError, UnavailableError
from pipeline.events import End
from pipeline.providers import LiveCall, RemoteBatch, Sought, Submission
from pipeline.providers._asking import check_plain
from pipeline.providers._failures import keeping_answers
from pipeline.providers._gemini import (
    Content,
    RpcError,
    answered,
    batch_fault,
    batch_faults,
    check_thinking,
    content_body,
    end_of,
    failed,
    moment,
    plain_state,
    whole,
)
from pipeline.providers._google import Page, google_pages, quoted_name
from pipeline.providers._http import Http, checked_host, checked_id, decoded, fingerprint
from pipeline.providers._lenient import LineDecoder
from pipeline.providers._listings import Entry, carrying, entries, raw, remotes
from pipeline.settings import Secret, Settings
from pipeline.wording import counted

MODES: tuple[Mode, ...] = ("batch", "live")
KEYS: tuple[str, ...] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
LIMITS = Limits(max_requests=200_000, max_bytes=2_000_000_000)
ID_PATH = ("key",)
KEPT = timedelta(hours=48)  # told of uploaded files; of answers nothing is told

_BASE = "https://generativelanguage.googleapis.com"
_VERSION = "v1beta"
_PIECE = 8 * 2**20
_SURE_LENGTH = 24
_LOOKS_AT_A_FILE = 10


class _File(msgspec.Struct):
    name: str
    state: str = "ACTIVE"


class _Uploaded(msgspec.Struct):
    file: _File


class _Output(msgspec.Struct, rename="camel"):
    responses_file: str | None = None


class _Stats(msgspec.Struct, rename="camel"):
    request_count: object = 0
    successful_request_count: object = 0
    failed_request_count: object = 0
    pending_request_count: object = 0

    def answered(self) -> int:
        return whole(self.successful_request_count)

    def done(self) -> int:
        return self.answered() + whole(self.failed_request_count)

    def none_begun(self) -> bool:
        return 0 < whole(self.request_count) == whole(self.pending_request_count) and not self.done()


class _Metadata(msgspec.Struct, rename="camel"):
    state: str = ""
    display_name: str | None = None
    create_time: str | None = None
    batch_stats: _Stats | None = None
    output: _Output | None = None


class _Operation(msgspec.Struct):
    name: str
    metadata: _Metadata | None = None
    done: bool = False
    response: _Output | None = None
    error: RpcError | None = None


class _Created(msgspec.Struct):
    name: str | None = None


class _Operations(Page):
    operations: tuple[object, ...] = ()


class _Models(msgspec.Struct):
    models: list[object] = []


class _Key(msgspec.Struct):
    key: str | None = None


class _Line(msgspec.Struct):
    key: str | None = None
    metadata: _Key | None = None
    response: Content | None = None
    error: RpcError | None = None


class _LiveLine(msgspec.Struct):
    request_id: str
    status: int
    body: Content | str | None = None


_lines = LineDecoder(_Line)
_live_lines = LineDecoder(_LiveLine)


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if Gemini is known to refuse or to ignore this judge's settings."""
    check_plain(judge)
    check_thinking(judge)


def frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the request line with gaps for id and messages."""
    return Frame.of({"key": REQUEST_ID, "request": content_body(judge, schema=schema, messages=messages)})


def decode(line: bytes) -> Output:
    """Return what one line of a batch's results says."""
    return _output(_lines.decode(line))


def decode_lines(block: bytes) -> list[Output]:
    """Return what the lines of a batch's results say."""
    return list(map(_output, _lines.decode_lines(block)))


def _output(row: _Line) -> Output:
    key = row.key or (row.metadata.key if row.metadata else None)
    if not key:
        raise ValueError("a result line without a key")
    return failed(key, row.error) if row.error is not None else answered(key, row.response)


def live_frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the body of one live call with gaps for its messages."""
    return Frame.of(content_body(judge, schema=schema, messages=messages))


def live_call(settings: Settings, judge: Judge) -> LiveCall:
    """Return where live calls go."""
    base = settings.address("GOOGLE_GEMINI_BASE_URL", _BASE)
    url = f"{base}/{_version(settings)}/{_model(judge)}:generateContent"
    return LiveCall(url, {"x-goog-api-key": settings.key(*KEYS).reveal()})


def decode_live(line: bytes) -> Output:
    """Return what one live answer says."""
    row = _live_lines.decode(line)
    content = row.body if isinstance(row.body, Content) else None
    if 200 <= row.status < 300:
        return answered(row.request_id, content)
    return failed(row.request_id, content.error if content else None, status=row.status)


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> "Gemini":
    """Return the provider for the key and address of the environment."""
    base = settings.address("GOOGLE_GEMINI_BASE_URL", _BASE)
    return Gemini(base, settings.key(*KEYS), clock, version=_version(settings), transport=transport)


class Gemini:
    """The Files and Batches API."""

    def __init__(
        self,
        base: str,
        key: Secret,
        clock: Clock,
        *,
        version: str = _VERSION,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.account = fingerprint(key)
        self._clock = clock
        self._transport = transport
        self._version = version
        self._http = Http(base, {"x-goog-api-key": key.reveal()}, clock, transport=transport)

    def upload(self, submission: Submission) -> str:
        """Upload the lines in pieces and return the file's name; what breaks off is begun anew."""
        file = self._http.repeated(lambda: self._upload_once(submission))
        for _ in range(_LOOKS_AT_A_FILE):
            if file.state != "PROCESSING":
                break
            self._clock.sleep(1.0)
            file = self._http.get(f"/{self._version}/{quoted_name(file.name)}", _File)
        if file.state == "FAILED":
            raise RejectedError(f"the uploaded file {file.name} cannot be used: {file.state}")
        return file.name

    def _upload_once(self, submission: Submission) -> _File:
        headers = {
            "content-type": "application/json",
            "x-goog-upload-protocol": "resumable",
            "x-goog-upload-command": "start",
            "x-goog-upload-header-content-length": str(submission.size),
            "x-goog-upload-header-content-type": "application/jsonl",
        }
        content = msgspec.json.encode({"file": {"displayName": submission.batch_key}})
        started = self._http.exchange(f"/upload/{self._version}/files", content=content, headers=headers)
        url = started.headers.get("x-goog-upload-url")
        if not url:
            raise UnavailableError("the upload was not begun: the answer names no address for it")
        return self._send_pieces(url, submission)

    def _send_pieces(self, url: str, submission: Submission) -> _File:
        """Send the bytes to the address we were given, which knows the upload and must not see the key."""
        checked_host(url)
        parts = urllib.parse.urlsplit(url)
        params = dict(urllib.parse.parse_qsl(parts.query))
        bare = Http(f"{parts.scheme}://{parts.netloc}", {}, self._clock, transport=self._transport)
        offset, body = 0, b""
        try:
            for piece in _pieces(submission.chunks()):
                last = offset + len(piece) == submission.size
                headers = {
                    "x-goog-upload-offset": str(offset),
                    "x-goog-upload-command": "upload, finalize" if last else "upload",
                }
                body = bare.exchange(parts.path, content=piece, headers=headers, params=params).body
                offset += len(piece)
        finally:
            bare.close()
        try:
            return msgspec.json.decode(body, type=_Uploaded).file
        except msgspec.DecodeError as error:
            raise UnavailableError(f"the uploaded file has no name: {error}") from error

    def create(self, submission: Submission, *, file_id: str | None) -> str:
        """Create the batch, once, and return the name of its operation."""
        path = f"/{self._version}/{_model(submission.judge)}:batchGenerateContent"
        batch = {"displayName": submission.batch_key, "inputConfig": {"fileName": file_id}}
        return checked_id(decoded(self._http.post_once(path, json={"batch": batch}), _Created).name, path)

    def find(self, sought: Sought) -> list[RemoteBatch]:
        """Return the batches whose display name is our key, or what is left of it."""
        return carrying(self._all(), lambda batch: _carries(batch.batch_key, sought.batch_key), sought.batch_key)

    def _all(self) -> Iterator[Entry[RemoteBatch]]:
        for page in google_pages(self._http, f"/{self._version}/batches", _Operations, {"pageSize": 100}):
            yield from remotes(entries(raw(page.operations), _Operation), _remote)

    def status(self, remote_id: str) -> RemoteBatch:
        """Return the batch as it is now."""
        return _remote(self._http.shown(self._path(remote_id), _Operation))

    def download(self, handle: str) -> Iterator[bytes]:
        """Yield one file's bytes as they arrive; two addresses are documented, and not every host knows both."""
        path = f"/{self._version}/{quoted_name(handle)}:download?alt=media"
        try:
            yield from self._http.stream(path)
        except RejectedError as error:
            if error.status not in {400, 404}:
                raise
            yield from self._http.stream(f"/download{path}")

    def cancel(self, remote_id: str) -> None:
        """Ask Gemini to stop; a batch that has ended meanwhile is no error."""
        self._http.stop(f"{self._path(remote_id)}:cancel")

    def discard(self, file_id: str) -> None:
        """Delete an uploaded file."""
        self._http.delete(f"/{self._version}/{quoted_name(file_id)}")

    def check(self) -> str:
        """List the models, which is free."""
        models = self._http.get(f"/{self._version}/models", _Models, params={"pageSize": 1000}).models
        return counted(len(models), "model")

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def _path(self, remote_id: str) -> str:
        return f"/{self._version}/batches/{quoted_name(remote_id.removeprefix('batches/'))}"


def _version(settings: Settings) -> str:
    version = settings.value("GOOGLE_GEMINI_API_VERSION") or _VERSION
    if not re.fullmatch(r"v[0-9a-z]+", version):
        raise ConfigError(f"GOOGLE_GEMINI_API_VERSION is {version!r}; give one like v1beta or v1")
    return version


def _model(judge: Judge) -> str:
    return f"models/{urllib.parse.quote(judge.model.removeprefix('models/'), safe='')}"


def _pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces of one size and the rest; the last one only when the chunks have proved complete."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) > _PIECE:
            yield bytes(held[:_PIECE])
            del held[:_PIECE]
    yield bytes(held)


def _carries(name: str | None, batch_key: str) -> bool:
    """Say whether this is our key, perhaps cut, perhaps with something after it."""
    if not name:
        return False
    return name.startswith(batch_key) or (len(name) >= _SURE_LENGTH and batch_key.startswith(name))


def _remote(operation: _Operation) -> RemoteBatch:
    metadata = operation.metadata or _Metadata()
    stats = metadata.batch_stats or _Stats()
    state = plain_state(metadata.state) or _state_without_word(operation)
    end = end_of(state) or (end_of(_state_without_word(operation)) if operation.done else None)
    output = (metadata.output or _Output()).responses_file or (operation.response or _Output()).responses_file
    remote = RemoteBatch(
        remote_id=operation.name,
        status=state,
        running=state != "pending",
        end=end,
        parts={"output": output} if output and end else {},
        lines=_lines_told(stats, end, shown=bool(output)) if metadata.batch_stats else {},
        faults=batch_faults(operation.error) if end == "failed" else (),
        fault=batch_fault(operation.error) if end == "failed" else None,
        batch_key=metadata.display_name,
        requests=whole(stats.request_count) or None,
        created_at=moment(metadata.create_time),
    )
    return keeping_answers(remote, answered=bool(remote.parts), counted=stats.answered())


def _lines_told(stats: _Stats, end: End | None, *, shown: bool) -> dict[str, int]:
    """Return how many lines the results have: errors are among them, but nothing is promised of a batch cut short.

    While no file is shown, counts tell nothing, for zeros are left out; but if a batch was cancelled and every request
    of it is said to be pending, there are no answers. One that expired is not trusted so: all of it is sent again.
    """
    if not shown:
        return {"output": 0} if end == "cancelled" and stats.none_begun() else {}
    if end is None or end == "failed":
        return {}
    return {"output": stats.done() if end == "completed" else stats.answered()}


def _state_without_word(operation: _Operation) -> str:
    if not operation.done:
        return "pending"
    return "failed" if operation.error else "succeeded"
