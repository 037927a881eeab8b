"""OpenAI: an input file, then a batch on it, for chat completions or responses.

Odd about it: create accepts a file that does not exist and fails minutes later; one bad line fails the whole batch
(nothing is billed, the lines are named); `completed` may come without an output file, and every end but `failed`
may carry paid answers. Our key travels in `metadata`, which listing shows: the proof for an uncertain create is exact.
Limits: 50,000 requests and 200 MB a batch, 24 h, files kept 30 days.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import PROMPT, REQUEST_ID, Frame, Judge, Limits, Mode, Output
from pipeline.errors import ConfigError, OutcomeUnknownError, RejectedError
from pipeline.events import End, Fault, LineFault
from pipeline.providers import LiveCall, RemoteBatch, Submission
from pipeline.providers._chat import chat_body, decode_line, decode_live_line, responses_body
from pipeline.providers._http import Body, Http, decoded, fingerprint
from pipeline.settings import Secret, Settings

MODES: tuple[Mode, ...] = ("batch", "live")
KEYS = ("OPENAI_API_KEY",)
LIMITS = Limits(max_requests=50_000, max_bytes=200_000_000)

_EFFORTS = {  # known to be refused elsewhere; a model that is not listed is sent as it is (providers.md 2.8)
    "gpt-6-astra": {"low", "medium", "high", "xhigh", "max"},
    "gpt-6.1-sol": {"low", "medium", "high", "xhigh", "max"},
    "gpt-6-sol": {"none", "low", "medium", "high", "xhigh", "max"},
    "gpt-6-luna": {"none", "low", "medium", "high", "xhigh", "max"},
    "gpt-5.4": {"none", "low", "medium", "high", "xhigh"},
    "gpt-5.1": {"none", "low", "medium", "high"},
    "gpt-5": {"minimal", "low", "medium", "high"},
    "gpt-5-mini": {"minimal", "low", "medium", "high"},
    "gpt-5-nano": {"minimal", "low", "medium", "high"},
}
_BASE = "https://api.openai.com/v1"
_PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
_ACCOUNT_FAULTS = ("token_limit_exceeded", "insufficient_quota", "billing_hard_limit_reached", "quota")
_SKEW = timedelta(minutes=15)
_MOST_PAGES = 500

_ENDS: dict[str, End] = {
    "completed": "completed",
    "expired": "expired",
    "cancelled": "cancelled",
    "failed": "failed",
}


class _File(msgspec.Struct):
    id: str


class _Created(msgspec.Struct):
    id: str | None = None


class _Fault(msgspec.Struct):
    code: str | None = None
    line: int | None = None
    message: str | None = None


class _Faults(msgspec.Struct):
    data: list[_Fault] | None = None


class _RequestCounts(msgspec.Struct):
    total: int | None = None
    completed: int | None = None
    failed: int | None = None


class _Batch(msgspec.Struct):
    id: str
    status: str
    created_at: float | str | None = None
    input_file_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Faults | None = None
    request_counts: _RequestCounts | None = None
    metadata: dict[str, object] | None = None


class _Page(msgspec.Struct):
    data: list[_Batch]
    has_more: bool = False
    last_id: str | None = None


class _Models(msgspec.Struct):
    data: list[object]


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if OpenAI is known to refuse this judge."""
    if judge.endpoint not in {None, *_PATHS}:
        raise ConfigError(f"endpoint {judge.endpoint!r} of {judge.model} is unknown; use chat or responses")
    efforts = _EFFORTS.get(judge.model)
    if judge.reasoning != "default" and efforts is not None and judge.reasoning not in efforts:
        known = ", ".join(sorted(efforts))
        raise ConfigError(f"reasoning {judge.reasoning!r} is refused by {judge.model}; it takes {known}")
    if judge.temperature is not None and judge.reasoning not in {"none", "default"}:
        raise ConfigError(f"temperature is refused by {judge.model} with reasoning {judge.reasoning}; leave it out")


def frame(judge: Judge, *, schema: Mapping[str, object] | None) -> Frame:
    """Return the request line with gaps for id and prompt."""
    build_body = responses_body if judge.endpoint == "responses" else chat_body
    body = build_body(judge, prompt=PROMPT, schema=schema)
    return Frame.of({"custom_id": REQUEST_ID, "method": "POST", "url": _path(judge), "body": body})


def decode(line: bytes) -> Output:
    """Return what one line of an output or error file says."""
    return decode_line(line)


def live_frame(judge: Judge, *, schema: Mapping[str, object] | None) -> Frame:
    """Return the body of one live call with a gap for the prompt."""
    build_body = responses_body if judge.endpoint == "responses" else chat_body
    return Frame.of(build_body(judge, prompt=PROMPT, schema=schema))


def live_call(settings: Settings, judge: Judge) -> LiveCall:
    """Return where live calls go."""
    base = settings.address("OPENAI_BASE_URL", _BASE).removesuffix("/v1")
    return LiveCall(base + _path(judge), {"authorization": f"Bearer {settings.key(*KEYS).reveal()}"})


def decode_live(line: bytes) -> Output:
    """Return what one live answer says."""
    return decode_live_line(line)


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> "OpenAI":
    """Return the provider for the key and address of the environment."""
    base = settings.address("OPENAI_BASE_URL", _BASE)
    return OpenAI(base, settings.key(*KEYS), clock, transport=transport)


class OpenAI:
    """The Files and Batches API."""

    def __init__(self, base: str, key: Secret, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> None:
        self.account = fingerprint(key)
        self._http = Http(base, {"authorization": f"Bearer {key.reveal()}"}, clock, transport=transport)

    def upload(self, submission: Submission) -> str:
        """Upload the lines as a file named after our key and return its id."""
        body = Body(size=submission.size, chunks=submission.chunks)
        name = f"{submission.batch_key}.jsonl"
        return self._http.upload("/files", _File, fields={"purpose": "batch"}, name=name, body=body).id

    def create(self, submission: Submission, *, file_id: str | None) -> str:
        """Create the batch, once, and return OpenAI's id."""
        answer = self._http.post_once(
            "/batches",
            json={
                "input_file_id": file_id,
                "endpoint": _path(submission.judge),
                "completion_window": "24h",
                "metadata": {"batch_key": submission.batch_key, **submission.labels},
            },
        )
        remote_id = decoded(answer, _Created).id
        if not remote_id:
            raise OutcomeUnknownError("POST /batches answered without an id")
        return remote_id

    def find(self, batch_key: str, *, since: datetime) -> list[RemoteBatch]:
        """Return the batches whose metadata carries our key."""
        return [batch for batch in self._newest(since - _SKEW) if batch.batch_key == batch_key]

    def _newest(self, since: datetime) -> Iterator[RemoteBatch]:
        after: str | None = None
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            page = self._http.get("/batches", _Page, params={"limit": 100} | ({"after": after} if after else {}))
            batches = [_remote(batch) for batch in page.data if batch.id not in seen]
            yield from batches
            seen.update(batch.remote_id for batch in batches)
            oldest = min((batch.created_at for batch in batches if batch.created_at), default=None)
            if not page.has_more or not batches or (oldest is not None and oldest < since):
                return
            after = page.data[-1].id

    def status(self, remote_id: str) -> RemoteBatch:
        """Return the batch as it is now."""
        return _remote(self._http.get(f"/batches/{remote_id}", _Batch))

    def download(self, handle: str) -> Iterator[bytes]:
        """Yield one file's bytes as they arrive."""
        return self._http.stream(f"/files/{handle}/content")

    def cancel(self, remote_id: str) -> None:
        """Ask OpenAI to stop; a batch that has ended meanwhile is no error."""
        try:
            self._http.post(f"/batches/{remote_id}/cancel", _Batch)
        except RejectedError as error:
            if error.status not in {400, 409}:
                raise

    def discard(self, file_id: str) -> None:
        """Delete an uploaded file."""
        self._http.delete(f"/files/{file_id}")

    def check(self) -> str:
        """List the models, which is free."""
        return f"{len(self._http.get('/models', _Models).data)} models"

    def close(self) -> None:
        """Close every connection."""
        self._http.close()


def _path(judge: Judge) -> str:
    return _PATHS[judge.endpoint or "chat"]


def _remote(batch: _Batch) -> RemoteBatch:
    status = batch.status.lower()
    key = (batch.metadata or {}).get("batch_key")
    counts = batch.request_counts or _RequestCounts()
    parts = {"output": batch.output_file_id, "error": batch.error_file_id}
    return RemoteBatch(
        remote_id=batch.id,
        status=status,
        running=status != "validating",
        end=_ENDS.get(status),
        parts={name: handle for name, handle in parts.items() if handle},
        faults=_faults(batch),
        fault=_account_fault(batch) if status == "failed" else None,
        batch_key=key if isinstance(key, str) else None,
        requests=counts.total or None,
        done=(counts.completed or 0) + (counts.failed or 0),
        created_at=_moment(batch.created_at),
    )


def _faults(batch: _Batch) -> tuple[LineFault, ...]:
    found = (batch.errors.data if batch.errors else None) or []
    return tuple(LineFault(line=fault.line, reason=_reason(fault)) for fault in found[:1000])


def _reason(fault: _Fault) -> str:
    return ": ".join(part[:300] for part in (fault.code, fault.message) if part) or "failed without a reason"


def _account_fault(batch: _Batch) -> Fault | None:
    """Tell a full queue or a missing file, which our lines cannot help, from lines that are wrong."""
    found = (batch.errors.data if batch.errors else None) or []
    kinds: list[Literal["rate", "account"]] = []
    for fault in found:
        if fault.code in {"token_limit_exceeded", "rate_limit_exceeded"} or "Cannot find file" in (fault.message or ""):
            kinds.append("rate")
        elif any(word in (fault.code or "") for word in _ACCOUNT_FAULTS):
            kinds.append("account")
    return kinds[0] if kinds else None


def _moment(value: float | str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else datetime.fromtimestamp(value or 0, UTC)
    except (ValueError, OverflowError, OSError):
        return None
