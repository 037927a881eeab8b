"""Together: files and batches for chat completions, with an upload and objects of its own.

Odd about it: the upload is signed (announce, put elsewhere without our key, have it read); identical bytes are kept
once, under the name they came with first; create wraps the job, the listing is a bare array without pages; statuses
are upper case, a failure is one text; a line's error stands alone, without a status; there are no counts.
A batch carries no key of ours: it is found by its input file, whose name is our key. Two attempts at one batch have the
same lines and would share a file: a create of the first that comes late would find its input again, and run. That is
why each further attempt begins with one more space, which no line minds. A file that has our bytes under another name
is deleted and sent anew. The wire offers no other key: two batches of equal bytes have one file id, and cannot be told
apart by it. No two of ours have equal bytes, for no request id is in two runs or, since runs have an origin, in two
stores.
Limits: 50,000 requests and 100 MB a batch, 24 h at best. Live calls have a host of their own unless
`TOGETHER_BASE_URL` is set, with or without `/v1`.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import QUESTION, Frame, Judge, Limits, Message, Mode, Output
from pipeline.errors import AccountError, RejectedError, UnavailableError
from pipeline.events import LineFault
from pipeline.providers import LiveCall, RemoteBatch, Sought, Submission
from pipeline.providers._asking import (
    CHAT,
    check_plain,
    compatible_body,
    line_frame,
)
from pipeline.providers._bodies import Body, Reply
from pipeline.providers._chat import decode_block, decode_line, decode_live_line
from pipeline.providers._compatible import (
    ENDS,
    Dialect,
    FilesAndBatches,
    bearer,
    file_name,
    moment,
    parts,
    provider_at,
    sent_again,
)
from pipeline.providers._failures import failure, keeping_answers
from pipeline.providers._http import Http, decoded, quoted
from pipeline.providers._listings import Entry, entries
from pipeline.settings import Settings

MODES: tuple[Mode, ...] = ("batch", "live")
KEYS: tuple[str, ...] = ("TOGETHER_API_KEY",)
_ROOM = 10_000  # for the spaces of further attempts
LIMITS = Limits(max_requests=50_000, max_bytes=100_000_000 - _ROOM)

decode_live = decode_live_line

_BASE = "https://api.together.ai/v1"
_LIVE_BASE = "https://api-inference.together.ai/v1"
_LINE = re.compile(r"\bline (\d{1,7})\b")


class _File(msgspec.Struct):
    id: str
    filename: str | None = None


class _Files(msgspec.Struct):
    data: list[msgspec.Raw]


class _Taken(msgspec.Struct):
    file_id: str


class _Job(msgspec.Struct):
    id: str
    status: str
    created_at: float | str | None = None
    input_file_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    error: object = None


class _Created(msgspec.Struct):
    id: str | None = None


class _Wrapped(_Created):
    """The answer to a create call: wrapped as documented, or bare as everywhere else."""

    job: _Created | None = None


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if Together is known to refuse this judge."""
    check_plain(judge)


def frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the request line with gaps for id and messages."""
    return line_frame(_body(judge, schema, messages), url=None)


def decode(line: bytes) -> Output:
    """Return what one line of an output or error file says."""
    return sent_again(decode_line(line))


def decode_lines(block: bytes) -> list[Output]:
    """Return what the lines of an output or error file say."""
    return list(map(sent_again, decode_block(block)))


def live_frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the body of one live call with gaps for its messages."""
    return Frame.of(_body(judge, schema, messages))


def live_call(settings: Settings, judge: Judge) -> LiveCall:  # noqa: ARG001 - every model has the same address
    """Return where live calls go."""
    return LiveCall(f"{_base(settings, _LIVE_BASE)}/chat/completions", bearer(settings.key(*KEYS)))


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> FilesAndBatches[_Job]:
    """Return the provider for the key and address of the environment."""
    return provider_at(_base(settings, _BASE), settings.key(*KEYS), _DIALECT, clock=clock, transport=transport)


def _base(settings: Settings, default: str) -> str:
    return settings.address("TOGETHER_BASE_URL", default).removesuffix("/v1") + "/v1"


def _body(judge: Judge, schema: Mapping[str, object] | None, messages: Sequence[Message]) -> dict[str, object]:
    body = compatible_body(judge, schema=schema, messages=messages)
    if judge.reasoning == "none":
        del body["reasoning_effort"]
        body["reasoning"] = {"enabled": False}
    return body


def _upload(http: Http, submission: Submission) -> str:
    """Upload the lines under our key and return the file's id."""
    body = _body_of(submission)
    fields = {
        "purpose": "batch-api",
        "file_name": file_name(submission.batch_key),
        "file_type": "jsonl",
        "checksum": _checksum(body),
    }
    reply = http.form("/files", fields=fields, expected={302, 409})
    if reply.status == 409:
        taken = _taken(reply)
        if _name_of(http, taken) == file_name(submission.batch_key):
            return taken
        http.delete(f"/files/{quoted(taken)}")
        reply = http.form("/files", fields=fields, expected={302, 409})
    if reply.status == 409:
        raise AccountError(
            f"Together keeps these lines as {_taken(reply)} under another name; delete that file there",
            code="file_exists",
        )
    return _put(http, body, reply)


def _body_of(submission: Submission) -> Body:
    """Return the bytes of this attempt: the lines, behind as many spaces as there were attempts before."""
    spaces = b" " * (int(submission.labels.get("attempt", "1")) - 1)
    return Body(size=len(spaces) + submission.size, chunks=lambda: chain([spaces], submission.chunks()))


def _put(http: Http, body: Body, reply: Reply) -> str:
    """Put the bytes where Together wants them, have them read, and return the file's id."""
    file_id, location = reply.headers.get("x-together-file-id"), reply.headers.get("location")
    if not file_id or not location:
        raise UnavailableError(f"POST /files answered {reply.status} without a file id and a place to put it")
    http.put_signed(location, body)
    return http.post(f"/files/{quoted(file_id)}/preprocess", _File).id


def _name_of(http: Http, file_id: str) -> str | None:
    try:
        return http.get(f"/files/{quoted(file_id)}", _File).filename
    except RejectedError as error:
        if error.status not in {404, 410}:
            raise
        return None


def _checksum(body: Body) -> str:
    made = hashlib.sha256()
    for chunk in body.chunks():
        made.update(chunk)
    return made.hexdigest()


def _taken(reply: Reply) -> str:
    try:
        return msgspec.json.decode(reply.body, type=_Taken).file_id
    except msgspec.DecodeError as error:
        raise UnavailableError(f"POST /files answered 409 without the file's id: {error}") from error


def _order(submission: Submission, file_id: str | None) -> Mapping[str, object]:
    return {"endpoint": CHAT, "input_file_id": file_id, "model_id": submission.judge.model}


def _created(answer: bytes) -> str | None:
    wrapped = decoded(answer, _Wrapped)
    return wrapped.job.id if wrapped.job else wrapped.id


def _listed(http: Http, sought: Sought) -> Iterator[Entry[RemoteBatch]]:
    """Yield every batch with the key its input file is named after.

    A batch is looked for once more after its file was deleted, and equal lines have one file whatever its name: what
    was uploaded for the attempt that is looked for counts as named after it.
    """
    names: dict[str, str] = {}
    for entry in entries(http.get("/files", _Files).data, _File):
        if entry.batch and entry.batch.filename:
            names[entry.batch.id] = entry.batch.filename
        else:
            yield Entry(entry.raw, None)
    names |= dict.fromkeys(sought.files, file_name(sought.batch_key))
    for job in entries(http.get("/batches", list[msgspec.Raw]), _Job):
        name = names.get((job.batch.input_file_id if job.batch else None) or _named_in(job.raw, names), "")
        key = name.removesuffix(".jsonl")
        remote = msgspec.structs.replace(_remote(job.batch), batch_key=key or None) if job.batch else None
        yield Entry(job.raw + key.encode(), remote)


def _named_in(raw: bytes, names: Mapping[str, str]) -> str:
    """Return the file that an entry names somewhere, although it cannot be read where."""
    return next((file_id for file_id in names if file_id.encode() in raw), "")


def _remote(job: _Job) -> RemoteBatch:
    status = job.status.lower()
    said = str(job.error)[:300] if job.error else ""
    named = _LINE.search(said)
    remote = RemoteBatch(
        remote_id=job.id,
        status=status,
        running=status != "validating",
        end=ENDS.get(status),
        parts=parts(output=job.output_file_id, error=job.error_file_id),
        faults=(LineFault(line=int(named[1]) if named else None, reason=said),) if said else (),
        fault=failure(said) if status == "failed" else None,
        created_at=moment(job.created_at),
    )
    return keeping_answers(remote, answered=bool(remote.parts))


_DIALECT: Dialect[_Job] = Dialect(
    kind=_Job,
    remote=_remote,
    order=_order,
    listed=_listed,
    created=_created,
    upload=_upload,
)
