"""Files and batches as OpenAI has them: the core of every provider that took that API over.

A `Dialect` says what one of them does its own way. What stands here is OpenAI's way: an input file, a batch on it with
our key in its `metadata`, a listing newest first, one file of answers and one of errors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

import httpx
import msgspec
from msgspec.structs import replace

from pipeline.clock import Clock
from pipeline.domain import Output
from pipeline.errors import UnavailableError
from pipeline.events import End, Fault, LineFault
from pipeline.providers import RemoteBatch, Sought, Submission
from pipeline.providers._asking import CHAT, endpoint_path
from pipeline.providers._bodies import Body
from pipeline.providers._failures import fault_in, keeping_answers, own_fault
from pipeline.providers._faults import blames_provider
from pipeline.providers._http import Http, checked_id, decoded, fingerprint, quoted
from pipeline.providers._listings import Entry, carrying, cut_short, entries, remotes
from pipeline.settings import Secret
from pipeline.wording import counted

B = TypeVar("B")

SKEW = timedelta(hours=26)  # our key is exact, so looking back far costs pages only; a clock may be a day ahead
MOST_PAGES = 500
_FIRST = datetime(2023, 1, 1, tzinfo=UTC)
_MOST_FAULTS = 1000
_TRANSIENT = ("rate_limit", "server_error", "internal", "timeout", "overloaded", "unavailable")
ENDS: dict[str, End] = {
    "completed": "completed",
    "expired": "expired",
    "cancelled": "cancelled",
    "failed": "failed",
}


class _File(msgspec.Struct):
    id: str
    filename: str | None = None


class _Files(msgspec.Struct):
    data: list[_File]


class _Size(msgspec.Struct):
    bytes: int | None = None


class _Created(msgspec.Struct):
    id: str | None = None


class _Problem(msgspec.Struct):
    code: str | None = None
    line: int | None = None
    message: str | None = None


class _Problems(msgspec.Struct):
    data: list[_Problem] | None = None


class _RequestCounts(msgspec.Struct):
    total: int | None = None
    completed: int | None = None
    failed: int | None = None


class Batch(msgspec.Struct):
    """A batch as OpenAI shows it: only what is read of it."""

    id: str
    status: str
    created_at: float | str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Problems | None = None
    request_counts: _RequestCounts | None = None
    metadata: dict[str, object] | None = None


class _Page(msgspec.Struct):
    data: list[msgspec.Raw] | None = None
    value: list[msgspec.Raw] | None = None
    has_more: bool | None = None

    def __post_init__(self) -> None:
        if self.data is None and self.value is None:
            raise ValueError("a listing without a list")


def upload_form(http: Http, submission: Submission) -> str:
    """Upload the lines as a form, named after our key, and return the file's id."""
    body = Body(size=submission.size, chunks=submission.chunks)
    name = file_name(submission.batch_key)
    return http.upload("/files", _File, fields={"purpose": "batch"}, name=name, body=body).id


def file_name(batch_key: str) -> str:
    """Return what the input of the attempt with this key is called."""
    return f"{batch_key}.jsonl"


def download_file(http: Http, handle: str) -> Iterator[bytes]:
    """Yield one file's bytes as they arrive; counts may be missing, but a file that comes empty must be empty."""
    begun = False
    for chunk in http.stream(f"/files/{quoted(handle)}/content"):
        begun = True
        yield chunk
    size = 0 if begun else http.shown(f"/files/{quoted(handle)}", _Size).bytes
    if size:
        raise UnavailableError(f"file {handle} came without any of its {size} bytes")


def created_id(answer: bytes) -> str | None:
    """Return the id of the batch that was just created."""
    return decoded(answer, _Created).id


class Dialect(msgspec.Struct, Generic[B], frozen=True, kw_only=True):
    """What one provider does its own way.

    `kind` is the batch as its wire has it and `remote` reads one; `order` is the body of a create call, `listed` yields
    batches newest first, back to when the attempt was opened; `cancel` is what the path of a batch ends in.
    """

    kind: type[B]
    remote: Callable[[B], RemoteBatch]
    order: Callable[[Submission, str | None], Mapping[str, object]]
    listed: Callable[[Http, Sought], Iterator[Entry[RemoteBatch]]]
    created: Callable[[bytes], str | None] = created_id
    upload: Callable[[Http, Submission], str] = upload_form
    download: Callable[[Http, str], Iterator[bytes]] = download_file
    batches: str = "/batches"
    cancel: str = "/cancel"


class FilesAndBatches(Generic[B]):
    """A provider with files and batches, in its dialect."""

    def __init__(self, http: Http, dialect: Dialect[B], *, account: str) -> None:
        self.account = account
        self._http = http
        self._dialect = dialect

    def upload(self, submission: Submission) -> str:
        """Upload the lines as a file named after our key and return its id."""
        return self._dialect.upload(self._http, submission)

    def create(self, submission: Submission, *, file_id: str | None) -> str:
        """Create the batch, once, and return the provider's id."""
        path = self._dialect.batches
        answer = self._http.post_once(path, json=self._dialect.order(submission, file_id))
        return checked_id(self._dialect.created(answer), path)

    def find(self, sought: Sought) -> list[RemoteBatch]:
        """Return the batches that carry our key."""
        batch_key = sought.batch_key
        listed = self._dialect.listed(self._http, replace(sought, since=sought.since - SKEW))
        return carrying(listed, lambda batch: batch.batch_key == batch_key, batch_key)

    def status(self, remote_id: str) -> RemoteBatch:
        """Return the batch as it is now."""
        path = f"{self._dialect.batches}/{quoted(remote_id)}"
        return self._dialect.remote(self._http.shown(path, self._dialect.kind))

    def download(self, handle: str) -> Iterator[bytes]:
        """Yield the bytes of answers as they arrive."""
        return self._dialect.download(self._http, handle)

    def cancel(self, remote_id: str) -> None:
        """Ask the provider to stop; a batch that has ended meanwhile is no error."""
        self._http.stop(f"{self._dialect.batches}/{quoted(remote_id)}{self._dialect.cancel}")

    def discard(self, file_id: str) -> None:
        """Delete an uploaded file."""
        self._http.delete(f"/files/{quoted(file_id)}")

    def inputs(self, batch_key: str) -> list[str]:
        """Return the files named after the key, as far as one listing shows them."""
        return [file.id for file in self._http.get("/files", _Files).data if file.filename == file_name(batch_key)]

    def check(self) -> str:
        """List the models, which is free."""
        return check_models(self._http)

    def close(self) -> None:
        """Close every connection."""
        self._http.close()


def provider_at(
    base: str, key: Secret, dialect: Dialect[B], *, clock: Clock, transport: httpx.BaseTransport | None
) -> FilesAndBatches[B]:
    """Return the provider at this address, asked with this key in the header that most have it in."""
    http = Http(base, bearer(key), clock, transport=transport)
    return FilesAndBatches(http, dialect, account=fingerprint(key))


def check_models(http: Http) -> str:
    """List the models, which is free, and return how many there are; the list comes with or without an envelope."""
    answer = http.get("/models", object)
    rows = answer.get("data") if isinstance(answer, dict) else answer
    return counted(len(rows), "model") if isinstance(rows, list) else "an answer without a list of models"


def newest(http: Http, sought: Sought, *, page_size: int | None = 100) -> Iterator[Entry[RemoteBatch]]:
    """Yield batches newest first, page by page, until a whole page is older than the attempt or the listing ends."""
    after: str | None = None
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        params = ({"limit": page_size} if page_size else {}) | ({"after": after} if after else {})
        page = http.get("/batches", _Page, params=params)
        rows = list(remotes(entries(page.data or page.value or [], Batch), remote_batch))
        yield from (entry for entry in rows if not entry.batch or entry.batch.remote_id not in seen)
        shown = [entry.batch for entry in rows if entry.batch]
        batches = [batch for batch in shown if batch.remote_id not in seen]
        seen.update(batch.remote_id for batch in batches)
        may_go_on = page.has_more is None and page_size is not None and len(batches) >= page_size
        if not (page.has_more or may_go_on) or is_past(batches, sought.since):
            return
        if not batches:
            break
        after = shown[-1].remote_id
    raise cut_short("/batches")


def is_past(batches: Iterable[RemoteBatch], since: datetime) -> bool:
    """Say whether a page shows that a listing has come to what is older than `since`: all of it is, newest first.

    One entry with an old or a wrong time proves nothing about those that follow.
    """
    times = [batch.created_at for batch in batches if batch.created_at]
    return bool(times) and times[0] < since and times == sorted(times, reverse=True)


def order(submission: Submission, file_id: str | None, *, endpoint: str = CHAT) -> Mapping[str, object]:
    """Return the body of a create call."""
    return {
        "input_file_id": file_id,
        "endpoint": endpoint,
        "completion_window": "24h",
        "metadata": {"batch_key": submission.batch_key, **submission.labels},
    }


def order_at_endpoint(submission: Submission, file_id: str | None) -> Mapping[str, object]:
    """Return the body of a create call at the endpoint of the submission's judge."""
    return order(submission, file_id, endpoint=endpoint_path(submission.judge))


_TOLD = frozenset({"completed", "expired", "cancelled"})  # ends whose counts say how many lines there are


def remote_batch(batch: Batch) -> RemoteBatch:
    """Return the batch in our words; statuses are compared without regard to letter case."""
    status = batch.status.lower()
    counts = batch.request_counts or _RequestCounts()
    problems = (batch.errors.data if batch.errors else None) or []
    remote = RemoteBatch(
        remote_id=batch.id,
        status=status,
        running=status != "validating",
        end=ENDS.get(status),
        parts=parts(output=batch.output_file_id, error=batch.error_file_id),
        lines=told(output=counts.completed, error=counts.failed) if status in _TOLD else {},
        faults=tuple(LineFault(line=problem.line, reason=_reason(problem)) for problem in problems[:_MOST_FAULTS]),
        fault=_fault(problems) if status == "failed" else None,
        batch_key=key_in(batch.metadata),
        requests=counts.total or None,
        created_at=moment(batch.created_at),
    )
    return keeping_answers(remote, answered=bool(remote.parts), counted=counts.completed)


def parts(**handles: str | None) -> dict[str, str]:
    """Return the files that are there; an empty id is none."""
    return {name: handle for name, handle in handles.items() if handle}


def told(**counts: int | None) -> dict[str, int]:
    """Return how many lines the parts have, as far as it is told."""
    return {name: count for name, count in counts.items() if count is not None}


def key_in(metadata: Mapping[str, object] | None) -> str | None:
    """Return our key, if the batch carries one."""
    key = (metadata or {}).get("batch_key")
    return key if isinstance(key, str) else None


def _reason(problem: _Problem) -> str:
    return ": ".join(part[:300] for part in (problem.code, problem.message) if part) or "failed without a reason"


def _fault(problems: list[_Problem]) -> Fault | None:
    """Tell what our lines cannot help (a full queue, a missing file, a broken server) from lines that are wrong."""
    known = [fault for problem in problems if (fault := fault_in(problem.code or ""))]
    if known:
        return known[0]
    named = any(problem.line is not None for problem in problems)
    return None if named else own_fault(" ".join(map(_reason, problems)))


def moment(value: float | str | None) -> datetime | None:
    """Return the time an answer names, as seconds or as ISO text with any number of digits; None if it names none.

    A time before there were batches, a zero above all, is none.
    """
    if value is None:
        return None
    try:
        made = datetime.fromisoformat(value) if isinstance(value, str) else datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    made = made if made.tzinfo else made.replace(tzinfo=UTC)
    return made if made >= _FIRST else None


def bearer(key: Secret) -> dict[str, str]:
    """Return the header the key belongs in."""
    return {"authorization": f"Bearer {key.reveal()}"}


def sent_again(output: Output) -> Output:
    """Return the output of a line that holds only an error, marked where its code blames the provider.

    Lines without a status tell by their code alone: a number of HTTP or a word.
    """
    code = (output.reason or "").lower()
    if output.status != "errored" or output.again:
        return output
    numbered = code.isdecimal() and blames_provider(int(code))
    return msgspec.structs.replace(output, again=numbered or any(word in code for word in _TRANSIENT))
