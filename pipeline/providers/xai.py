"""xAI: an uploaded file, then a batch named after our key, with a wire of its own.

Odd about it: a batch has no status, only counts: it is done when it has requests and none is pending. `cancel_time`
says that it was cancelled, with `cancel_by_xai_message` that xAI refused it. Results come in pages of JSON, not as a
file; each is wrapped in one key named after its endpoint. Reasoning is counted beside the completion and added here.
Times may be bare dates. Our key is the batch's `name`: the proof for an uncertain create is exact.
Limits: none is documented; those of OpenAI are kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import QUESTION, Frame, Judge, Limits, Message, Mode, Output
from pipeline.events import End, LineFault
from pipeline.providers import RemoteBatch, Sought, Submission
from pipeline.providers._asking import check_plain, compatible_body, line_frame
from pipeline.providers._chat import decode_live_line
from pipeline.providers._compatible import Dialect, FilesAndBatches, moment, provider_at
from pipeline.providers._failures import failure, keeping_answers
from pipeline.providers._faults import errored
from pipeline.providers._http import Http, decoded, quoted
from pipeline.providers._lenient import LineDecoder
from pipeline.providers._listings import Entry, entries, pages, remotes
from pipeline.settings import Settings

MODES: tuple[Mode, ...] = ("batch",)
KEYS: tuple[str, ...] = ("XAI_API_KEY",)
LIMITS = Limits(max_requests=50_000, max_bytes=200_000_000)
ID_PATH = ("batch_request_id",)

_BASE = "https://api.x.ai/v1"
_PAGE = 100
_MOST_PAGES = 50_000  # pages may be shorter than asked for: one result each at worst
_SENT_AGAIN = frozenset({4, 8, 10, 13, 14})  # deadline, exhausted, aborted, internal, unavailable: gRPC's numbers
_CANCELLED = 1


class _State(msgspec.Struct):
    num_requests: int = 0
    num_pending: int | None = None
    num_success: int | None = None
    num_error: int | None = None
    num_cancelled: int | None = None

    def is_settled(self) -> bool:
        """Say whether no request is open: none is pending, or, where that is not told, each has come to an end."""
        if self.num_pending is not None:
            return self.num_pending == 0
        return 0 < self.num_requests <= sum(filter(None, (self.num_success, self.num_error, self.num_cancelled)))


class _Batch(msgspec.Struct):
    batch_id: str
    name: str | None = None
    create_time: str | None = None
    cancel_time: str | None = None
    cancel_by_xai_message: str | None = None
    state: _State | None = None


class _Created(msgspec.Struct):
    batch_id: str | None = None


class _Paged(msgspec.Struct):
    pagination_token: str | None = None


class _Batches(_Paged, kw_only=True):
    batches: list[msgspec.Raw]


class _Results(_Paged, kw_only=True):
    results: list[msgspec.Raw]


P = TypeVar("P", bound=_Paged)


class _Error(msgspec.Struct):
    code: int | str | None = None
    message: str | None = None


class _Result(msgspec.Struct):
    response: dict[str, msgspec.Raw] | None = None
    error: _Error | str | None = None


class _Line(msgspec.Struct):
    batch_request_id: str
    batch_result: _Result


class _Details(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    completion_tokens_details: _Details | None = None


class _Body(msgspec.Struct):
    usage: _Usage | None = None


class _Answer(msgspec.Struct):
    request_id: str
    status: int
    body: msgspec.Raw


_lines = LineDecoder(_Line)
_bodies = LineDecoder(_Body)


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if xAI is known to refuse this judge."""
    check_plain(judge)


def frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the request line with gaps for id and messages."""
    return line_frame(compatible_body(judge, schema=schema, messages=messages, limit="max_completion_tokens"))


def decode(line: bytes) -> Output:
    """Return what one result says."""
    row = _lines.decode(line)
    if not row.batch_result.response:
        return _failed(row.batch_request_id, row.batch_result.error)
    body = next(iter(row.batch_result.response.values()))
    plain = decode_live_line(msgspec.json.encode(_Answer(request_id=row.batch_request_id, status=200, body=body)))
    return _with_reasoning(plain, _bodies.decode(body).usage)


def _failed(request_id: str, error: _Error | str | None) -> Output:
    code = error.code if isinstance(error, _Error) else None
    message = error.message if isinstance(error, _Error) else error
    reason = ": ".join(str(part)[:200] for part in (code, message) if part is not None) or "no_response"
    if code == _CANCELLED:
        return Output(request_id=request_id, status="cancelled", reason=reason)
    return errored(request_id, reason, again=code in _SENT_AGAIN)


def _with_reasoning(output: Output, usage: _Usage | None) -> Output:
    """Return the output with reasoning counted as output, where the sum shows that it was counted beside it."""
    thought = usage.completion_tokens_details.reasoning_tokens if usage and usage.completion_tokens_details else None
    if usage is None or not thought or usage.completion_tokens is None:
        return output
    both = usage.completion_tokens + thought
    if usage.total_tokens != (usage.prompt_tokens or 0) + both:
        return output
    return msgspec.structs.replace(output, tokens=msgspec.structs.replace(output.tokens, output=both))


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> FilesAndBatches[_Batch]:
    """Return the provider for the key and address of the environment."""
    base = settings.address("XAI_BASE_URL", _BASE).removesuffix("/v1") + "/v1"
    return provider_at(base, settings.key(*KEYS), _DIALECT, clock=clock, transport=transport)


def _order(submission: Submission, file_id: str | None) -> Mapping[str, object]:
    return {"name": submission.batch_key, "input_file_id": file_id}


def _created(answer: bytes) -> str | None:
    return decoded(answer, _Created).batch_id


def _listed(http: Http, sought: Sought) -> Iterator[Entry[RemoteBatch]]:  # noqa: ARG001 - times may be bare dates
    """Yield all batches, whenever they were made."""
    rows = (entry for page in _pages(http, "/batches", _Batches) for entry in entries(page.batches, _Batch))
    return remotes(rows, _remote)


def _download(http: Http, handle: str) -> Iterator[bytes]:
    """Yield the results of a batch, a line each, as they came."""
    for page in _pages(http, f"/batches/{quoted(handle)}/results", _Results):
        yield from (_one_line(bytes(result)) for result in page.results)


def _pages(http: Http, path: str, kind: type[P]) -> Iterator[P]:
    """Yield every page to the last, or raise UnavailableError."""

    def page_at(token: str | None) -> P:
        query: dict[str, str | int] = {"limit": _PAGE} | ({"pagination_token": token} if token else {})
        return http.get(path, kind, params=query)

    return pages(path, page_at, lambda page: page.pagination_token, most=_MOST_PAGES)


def _one_line(result: bytes) -> bytes:
    """Return the result with a line end; white space between its members goes only if it would break the line."""
    return (msgspec.json.format(result, indent=-1) if b"\n" in result else result) + b"\n"


def _remote(batch: _Batch) -> RemoteBatch:
    state = batch.state or _State()
    status, end = _standing(batch, state)
    refusal = batch.cancel_by_xai_message
    remote = RemoteBatch(
        remote_id=batch.batch_id,
        status=status,
        running=status != "reading",
        end=end,
        parts={"results": batch.batch_id} if end and state.num_requests > 0 else {},
        lines=_lines_told(state, end),
        faults=(LineFault(line=None, reason=refusal[:300]),) if refusal else (),
        fault=failure(refusal) if refusal else None,
        batch_key=batch.name,
        requests=state.num_requests or None,
        created_at=moment(batch.create_time),
    )
    return keeping_answers(remote, answered=bool(state.num_success))


def _lines_told(state: _State, end: End | None) -> dict[str, int]:
    """Return how many results there are; whether cancelled requests have one is not documented."""
    if end is None or end == "failed" or state.num_success is None:
        return {}
    return {"results": state.num_success + (state.num_error or 0 if end == "completed" else 0)}


def _standing(batch: _Batch, state: _State) -> tuple[str, End | None]:
    """Return a word for how the batch stands, and its end once nothing is pending."""
    if batch.cancel_by_xai_message:
        return "rejected", "failed"
    settled = state.is_settled()
    if batch.cancel_time:
        return ("cancelled", "cancelled") if settled else ("cancelling", None)
    if state.num_requests == 0:
        return "reading", None
    return ("done", "completed") if settled else ("running", None)


_DIALECT: Dialect[_Batch] = Dialect(
    kind=_Batch,
    remote=_remote,
    order=_order,
    listed=_listed,
    created=_created,
    download=_download,
    cancel=":cancel",
)
