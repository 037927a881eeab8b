"""Mistral: files and batch jobs for chat completions.

Odd about it: the job, not the line, names the model; statuses are upper case and its own (`TIMEOUT_EXCEEDED` is an
expiry with partial answers); failures of lines are summed up as texts with counts; `message.content` may be a list
with thoughts in it. The listing's filter for metadata may not be honoured, so that our key is matched here: exact.
Limits: a million pending requests a workspace, 24 h as ordered; no size is documented, 200 MB is what others take.
`MISTRAL_BASE_URL` may end in `/v1`; the SDK reads no variable of that kind.
"""

from collections.abc import Iterator, Mapping, Sequence

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import QUESTION, Frame, Judge, Limits, Message, Mode
from pipeline.events import End, LineFault
from pipeline.providers import LiveCall, RemoteBatch, Sought, Submission
from pipeline.providers._asking import (
    CHAT,
    check_plain,
    compatible_body,
    line_frame,
)
from pipeline.providers._chat import decode_block, decode_line, decode_live_line
from pipeline.providers._compatible import (
    MOST_PAGES,
    Dialect,
    FilesAndBatches,
    bearer,
    key_in,
    moment,
    parts,
    provider_at,
    told,
)
from pipeline.providers._failures import failure, keeping_answers
from pipeline.providers._http import Http
from pipeline.providers._listings import Entry, cut_short, entries, remotes
from pipeline.settings import Settings

MODES: tuple[Mode, ...] = ("batch", "live")
KEYS: tuple[str, ...] = ("MISTRAL_API_KEY",)
LIMITS = Limits(max_requests=1_000_000, max_bytes=200_000_000)

decode, decode_lines, decode_live = decode_line, decode_block, decode_live_line

_BASE = "https://api.mistral.ai/v1"
_PAGE = 100
_ENDS: dict[str, End] = {
    "success": "completed",
    "failed": "failed",
    "timeout_exceeded": "expired",
    "cancelled": "cancelled",
}


class _Problem(msgspec.Struct):
    message: str | None = None


class _Job(msgspec.Struct):
    id: str
    status: str
    created_at: float | str | None = None
    metadata: dict[str, object] | None = None
    errors: list[_Problem] | None = None
    output_file: str | None = None
    error_file: str | None = None
    total_requests: int | None = None
    succeeded_requests: int | None = None
    failed_requests: int | None = None


class _Page(msgspec.Struct):
    data: list[msgspec.Raw]
    total: int | None = None


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if Mistral is known to refuse this judge."""
    check_plain(judge)


def frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the request line with gaps for id and messages; the model stands at the job."""
    body = compatible_body(judge, schema=schema, messages=messages)
    del body["model"]
    return line_frame(body, url=None)


def live_frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the body of one live call with gaps for its messages."""
    return Frame.of(compatible_body(judge, schema=schema, messages=messages))


def live_call(settings: Settings, judge: Judge) -> LiveCall:  # noqa: ARG001 - every model has the same address
    """Return where live calls go."""
    return LiveCall(f"{_base(settings)}/chat/completions", bearer(settings.key(*KEYS)))


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> FilesAndBatches[_Job]:
    """Return the provider for the key and address of the environment."""
    return provider_at(_base(settings), settings.key(*KEYS), _DIALECT, clock=clock, transport=transport)


def _base(settings: Settings) -> str:
    return settings.address("MISTRAL_BASE_URL", _BASE).removesuffix("/v1") + "/v1"


def _order(submission: Submission, file_id: str | None) -> Mapping[str, object]:
    return {
        "input_files": [file_id],
        "endpoint": CHAT,
        "model": submission.judge.model,
        "metadata": {"batch_key": submission.batch_key, **submission.labels},
        "timeout_hours": 24,
    }


def _listed(http: Http, sought: Sought) -> Iterator[Entry[RemoteBatch]]:
    """Yield the jobs created since then, newest first, to the page that shows nothing new: a total may be wrong."""
    seen: set[str] = set()
    for number in range(MOST_PAGES):
        query: dict[str, str | int] = {
            "page": number,
            "page_size": _PAGE,
            "created_after": sought.since.isoformat(),
            "order_by": "-created",
        }
        page = http.get("/batch/jobs", _Page, params=query)
        rows = entries(page.data, _Job)
        yield from remotes((entry for entry in rows if not entry.batch or entry.batch.id not in seen), _remote)
        new = {entry.batch.id if entry.batch else entry.raw.hex() for entry in rows} - seen
        seen |= new
        if not new and (len(seen) >= page.total if page.total is not None else not page.data):
            return
        if not new:
            break
    raise cut_short("/batch/jobs")


def _lines_told(job: _Job, end: End | None) -> dict[str, int]:
    """Return how many lines the files have; of requests that a job did not get to there may be none."""
    if end is None or end == "failed":
        return {}
    return told(output=job.succeeded_requests, error=job.failed_requests if end == "completed" else None)


def _remote(job: _Job) -> RemoteBatch:
    status = job.status.lower()
    messages = [(problem.message or "failed without a reason")[:300] for problem in job.errors or []]
    remote = RemoteBatch(
        remote_id=job.id,
        status=status,
        running=status != "queued",
        end=_ENDS.get(status),
        parts=parts(output=job.output_file, error=job.error_file),
        lines=_lines_told(job, _ENDS.get(status)),
        faults=tuple(LineFault(line=None, reason=message) for message in messages) if status == "failed" else (),
        fault=failure(" ".join(messages)) if status == "failed" else None,
        batch_key=key_in(job.metadata),
        requests=job.total_requests or None,
        created_at=moment(job.created_at),
    )
    return keeping_answers(remote, answered=bool(remote.parts), counted=job.succeeded_requests)


_DIALECT: Dialect[_Job] = Dialect(kind=_Job, remote=_remote, order=_order, listed=_listed, batches="/batch/jobs")
