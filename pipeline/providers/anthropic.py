"""Anthropic's Message Batches: the requests travel inside the create call; there is no file and no name for a batch.

Odd about it: nothing of ours can be seen in a listing, so that an uncertain create has only probable candidates (time
and number of requests) until they have ended and the `custom_id`s of their results tell. `ended` is the only end, also
of a cancelled or expired batch; the counts stay 0 until then. Every request has its own line in one result file, whose
errors are nested twice. The answer's `results_url` is only taken as a sign that there are results: they are fetched
from our own base address, so that the key goes nowhere else. `2026-10-21` refuses sampling parameters; a judge with a
temperature is sent under `2023-06-01`. `max_tokens` is required: 4,096 for the answer plus room to think by effort.
Limits: 100,000 requests and 256 MB a batch, 24 h, results kept 29 days.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import QUESTION, REQUEST_ID, Frame, Judge, Limits, Message, Mode, Output
from pipeline.errors import UnavailableError
from pipeline.events import End
from pipeline.providers import LiveCall, RemoteBatch, Sought, Submission
from pipeline.providers._asking import check_plain
from pipeline.providers._bodies import Body
from pipeline.providers._claude import (
    OLD_VERSION,
    Problem,
    Reply,
    answered,
    check_thinking,
    failed,
    message_body,
)
from pipeline.providers._compatible import is_past, moment
from pipeline.providers._faults import errored
from pipeline.providers._http import Http, checked_id, decoded, fingerprint, quoted
from pipeline.providers._lenient import LineDecoder
from pipeline.providers._listings import cut_short, entries
from pipeline.settings import Secret, Settings

_HEAD, _TAIL = b'{"requests":[', b"]}"

MODES: tuple[Mode, ...] = ("batch", "live")
KEYS: tuple[str, ...] = ("ANTHROPIC_API_KEY",)
LIMITS = Limits(max_requests=100_000, max_bytes=256_000_000 - len(_HEAD) - len(_TAIL))

_BASE = "https://api.anthropic.com"
_VERSION = "2026-10-21"
_BATCHES = "/v1/messages/batches"
_SKEW = timedelta(minutes=15)
_PAGE = 1_000
_MOST_PAGES = 100
_LONGEST_LINE = 16 * 2**20


class _RequestCounts(msgspec.Struct):
    processing: object = 0
    succeeded: object = 0
    errored: object = 0
    canceled: object = 0
    expired: object = 0

    def total(self) -> int | None:
        """Return how many requests there are; None if a count cannot be read: without it the sum is another size."""
        counts = (self.processing, self.succeeded, self.errored, self.canceled, self.expired)
        read = [count for count in counts if isinstance(count, int)]
        return sum(read) if len(read) == len(counts) else None


class _Batch(msgspec.Struct):
    id: str
    processing_status: str
    request_counts: _RequestCounts | None = None
    created_at: str | None = None
    cancel_initiated_at: str | None = None
    results_url: str | None = None


class _Created(msgspec.Struct):
    id: str | None = None


class _Page(msgspec.Struct):
    data: list[msgspec.Raw]
    has_more: bool = False


class _Result(msgspec.Struct):
    type: str
    message: Reply | None = None
    error: Problem | None = None


class _Line(msgspec.Struct):
    custom_id: str
    result: _Result


class _LineId(msgspec.Struct):
    custom_id: str


class _LiveLine(msgspec.Struct):
    request_id: str
    status: int
    body: Reply | str | None = None


_lines = LineDecoder(_Line)
_line_ids = msgspec.json.Decoder(_LineId)
_live_lines = LineDecoder(_LiveLine)


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if Anthropic is known to refuse this judge."""
    check_plain(judge)
    check_thinking(judge)


def frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the request item with gaps for id and messages."""
    return Frame.of({"custom_id": REQUEST_ID, "params": message_body(judge, schema=schema, messages=messages)})


def decode(line: bytes) -> Output:
    """Return what one line of a batch's results says."""
    return _output(_lines.decode(line))


def decode_lines(block: bytes) -> list[Output]:
    """Return what the lines of a batch's results say."""
    return list(map(_output, _lines.decode_lines(block)))


def _output(row: _Line) -> Output:
    match row.result.type:
        case "succeeded":
            return answered(row.custom_id, row.result.message)
        case "expired":
            return Output(request_id=row.custom_id, status="expired", reason="expired", again=True)
        case "canceled":
            return Output(request_id=row.custom_id, status="cancelled", reason="canceled")
        case "errored":
            return failed(row.custom_id, row.result.error)
        case other:
            return errored(row.custom_id, other[:200])


def live_frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the body of one live call with gaps for its messages."""
    return Frame.of(message_body(judge, schema=schema, messages=messages))


def live_call(settings: Settings, judge: Judge) -> LiveCall:
    """Return where live calls go."""
    base = settings.address("ANTHROPIC_BASE_URL", _BASE)
    headers = {"x-api-key": settings.key(*KEYS).reveal(), "anthropic-version": _version(settings), **_older(judge)}
    return LiveCall(f"{base}/v1/messages", headers)


def decode_live(line: bytes) -> Output:
    """Return what one live answer says."""
    row = _live_lines.decode(line)
    message = row.body if isinstance(row.body, Reply) else None
    if 200 <= row.status < 300:
        return answered(row.request_id, message)
    return failed(row.request_id, message.error if message else None, status=row.status)


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> "Anthropic":
    """Return the provider for the key and address of the environment."""
    base = settings.address("ANTHROPIC_BASE_URL", _BASE)
    return Anthropic(base, settings.key(*KEYS), clock, version=_version(settings), transport=transport)


class Anthropic:
    """The Message Batches API."""

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
        headers = {"x-api-key": key.reveal(), "anthropic-version": version}
        self._http = Http(base, headers, clock, transport=transport)

    def upload(self, submission: Submission) -> None:  # noqa: ARG002 - the protocol's
        """Do nothing: create takes the lines itself."""
        return

    def create(self, submission: Submission, *, file_id: str | None) -> str:  # noqa: ARG002 - there is no file
        """Create the batch, once, its requests streamed; return Anthropic's id."""
        size = len(_HEAD) + submission.size + len(_TAIL)
        body = Body(size=size, chunks=lambda: _enveloped(submission.chunks()))
        answer = self._http.post_once(_BATCHES, body=body, headers=_older(submission.judge))
        return checked_id(decoded(answer, _Created).id, _BATCHES)

    def find(self, sought: Sought) -> list[RemoteBatch]:  # noqa: ARG002 - the protocol's
        """Return nothing: no batch carries our key; see `candidates`."""
        return []

    def candidates(self, *, since: datetime, requests: int) -> list[RemoteBatch]:
        """Return the batches made since then, or 15 minutes before, with that many requests or none counted yet."""
        return [batch for batch in self._newest(since - _SKEW) if batch.requests in {requests, None}]

    def custom_ids(self, remote_id: str) -> Iterator[str]:
        """Yield the ids of the requests in an ended batch, read from its results; damaged lines are left out."""
        for line in _split(self.download(remote_id)):
            try:
                yield _line_ids.decode(line).custom_id
            except (ValueError, RecursionError):
                continue

    def _newest(self, since: datetime) -> Iterator[RemoteBatch]:
        after: str | None = None
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            page = self._http.get(_BATCHES, _Page, params={"limit": _PAGE} | ({"after_id": after} if after else {}))
            rows = entries(page.data, _Batch)
            if any(entry.batch is None and entry.raw.startswith(b"{") for entry in rows):
                raise UnavailableError(f"GET {_BATCHES} shows a batch that cannot be read and may be ours")
            shown = [entry.batch for entry in rows if entry.batch]
            batches = [_remote(batch) for batch in shown if batch.id not in seen]
            yield from (batch for batch in batches if batch.created_at is None or batch.created_at >= since)
            seen.update(batch.remote_id for batch in batches)
            if not page.has_more or is_past(batches, since):
                return
            if not batches:
                break
            after = shown[-1].id
        raise cut_short(_BATCHES)

    def status(self, remote_id: str) -> RemoteBatch:
        """Return the batch as it is now."""
        return _remote(self._http.shown(f"{_BATCHES}/{quoted(remote_id)}", _Batch))

    def download(self, handle: str) -> Iterator[bytes]:
        """Yield the bytes of a batch's results as they arrive."""
        return self._http.stream(f"{_BATCHES}/{quoted(handle)}/results")

    def cancel(self, remote_id: str) -> None:
        """Ask Anthropic to stop; a batch that has ended meanwhile is no error."""
        self._http.stop(f"{_BATCHES}/{quoted(remote_id)}/cancel")

    def discard(self, file_id: str) -> None:
        """Do nothing: there are no files."""

    def check(self) -> str:
        """List one batch, which is free."""
        self._http.get(_BATCHES, _Page, params={"limit": 1})
        return "batches can be listed"

    def close(self) -> None:
        """Close every connection."""
        self._http.close()


def _version(settings: Settings) -> str:
    return settings.value("ANTHROPIC_VERSION") or _VERSION


def _older(judge: Judge) -> dict[str, str]:
    return {} if judge.temperature is None else {"anthropic-version": OLD_VERSION}


def _enveloped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the create body around the lines: commas for newlines, but for the last, which is white space in JSON."""
    yield _HEAD
    held = b""
    for chunk in chunks:
        block = held + chunk
        held = b"\n" if block.endswith(b"\n") else b""
        yield block[: len(block) - len(held)].replace(b"\n", b",")
    yield held + _TAIL


def _split(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines, one longer than any answer left out."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())
        rest = rest if len(rest) <= _LONGEST_LINE else b""
    if rest.strip():
        yield rest


def _remote(batch: _Batch) -> RemoteBatch:
    total = batch.request_counts.total() if batch.request_counts else None
    has_results = batch.processing_status == "ended" and bool(batch.results_url)
    return RemoteBatch(
        remote_id=batch.id,
        status=batch.processing_status,
        end=_end(batch) if batch.processing_status == "ended" else None,
        parts={"output": batch.id} if has_results else {},
        lines={"output": total} if total is not None and has_results else {},
        requests=total or None,
        created_at=moment(batch.created_at),
    )


def _end(batch: _Batch) -> End:
    """Tell how it ended; one whose results are gone is "completed" without parts, which a person must look at."""
    counts = batch.request_counts or _RequestCounts()
    if batch.results_url and batch.cancel_initiated_at:
        return "cancelled"
    return "expired" if batch.results_url and counts.expired else "completed"
