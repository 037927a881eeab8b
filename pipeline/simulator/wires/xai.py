"""xAI's wire: files, batches that are counts, and results in pages, under `/xai/v1`.

Odd about it: a batch has a name and counts in place of metadata and a status; a refused batch is one that xAI cancelled
with a message; results are read page by page while they come; reasoning is counted beside the completion.
"""

from datetime import UTC, datetime
from itertools import islice

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pipeline.simulator.calls import Answered, notes_of
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.jobs import Job, Order
from pipeline.simulator.judge import Reply
from pipeline.simulator.wires._compatible.lines import CompatibleLines, Why
from pipeline.simulator.wires._compatible.live import CompatibleLive
from pipeline.simulator.wires._compatible.performing import Dialect
from pipeline.simulator.wires._speaking import Problem, RefusedError
from pipeline.simulator.wires.openai.files import FileRoutes
from pipeline.simulator.wires.openai.keeping import Keeper
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker, as_asked, decoded, missing, whole_number

WIRE = "xai"
_PREFIX = "/xai/v1"
_ENDPOINT = "/v1/chat/completions"
_CODES = {400: 3, 404: 5, 429: 8, 500: 13, 503: 14}  # HTTP's statuses as gRPC's
_UNANSWERED: dict[Why, JsonObject] = {
    "expired": {"code": 4, "message": "deadline exceeded"},
    "cancelled": {"code": 1, "message": "cancelled"},
}


def _usage(reply: Reply) -> JsonObject:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens - reply.reasoning_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
    }


_DIALECT = Dialect(wire=WIRE, models=("grok-4.3", "grok-4.20"), usage=_usage, most_bytes=200_000_000)


class _Rows:
    """Results wrapped in the name of their endpoint."""

    def answered(self, custom_id: str, body: JsonObject, *, mark: str) -> JsonObject:  # noqa: ARG002 - as `Rows` has it
        """Return the result of an answer."""
        return {"batch_request_id": custom_id, "batch_result": {"response": {"chat_get_completion": body}}}

    def failed(self, custom_id: str, problem: Problem, *, mark: str) -> JsonObject:  # noqa: ARG002 - as `Rows` has it
        """Return the result of a request that failed."""
        error = {"code": _CODES.get(problem.status, 13), "message": problem.message}
        return {"batch_request_id": custom_id, "batch_result": {"error": error}}

    def unanswered(self, custom_id: str, why: Why, *, mark: str) -> JsonObject | None:  # noqa: ARG002 - as `Rows` has it
        """Return the result of a request the batch did not get to."""
        return {"batch_request_id": custom_id, "batch_result": {"error": _UNANSWERED[why]}}


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    speaker = OpenAISpeaker(engine, WIRE)
    engine.register(WIRE, CompatibleLines(engine, _DIALECT, _Rows(), addressed=True))
    return [
        *FileRoutes(speaker).routes(_PREFIX),
        *_Batches(speaker).routes(_PREFIX),
        *CompatibleLive(_DIALECT, speaker).routes(_PREFIX),
    ]


class _Batches:
    """The routes under `/batches`."""

    def __init__(self, speaker: OpenAISpeaker) -> None:
        self._speaker = speaker
        self._engine = speaker.engine
        self._keeper = Keeper(speaker, rendered=_batch, unknown=_no_batch, ended=_has_ended)

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route, path = self._speaker.route, f"{prefix}/batches"
        return [
            route(path, "create", self._create, method="POST", seen=self._record_create, reads_first=True),
            route(path, "list", self._list),
            route(f"{path}/{{batch_id}}:cancel", "cancel", self._keeper.cancel, method="POST"),
            route(f"{path}/{{batch_id}}", "poll", self._keeper.retrieve),
            route(f"{path}/{{batch_id}}/results", "download", self._results),
        ]

    async def _create(self, request: Request) -> Response:
        body = decoded(notes_of(request).body)
        name, file_id = body.get("name"), body.get("input_file_id")
        if not isinstance(name, str) or not name:
            raise RefusedError(missing("name"))
        if not isinstance(file_id, str) or self._engine.files.get(file_id, wire=WIRE) is None:
            raise RefusedError(Problem(message="The simulator makes batches of uploaded files only.", status=404))
        order = Order(
            wire=WIRE, input_file_id=file_id, endpoint=_ENDPOINT, metadata={"name": name}, completion_window="24h"
        )
        job = self._speaker.create(request, order, f"batch_{self._engine.clock.nonce()}")
        return self._speaker.json(self._keeper.shown(job))

    def _record_create(self, request: Request, answered: Answered) -> None:
        notes = notes_of(request)
        asked = as_asked(notes.body, _Asked)
        notes.input_file_id, notes.metadata = asked.input_file_id, {"name": asked.name or ""}
        self._speaker.record_create(request, answered)

    async def _list(self, request: Request) -> Response:
        begin, end = _page(request)
        jobs = self._engine.listed_jobs(wire=WIRE)
        rows = await self._keeper.all_shown(jobs[begin:end])
        return self._speaker.json({"batches": rows, "pagination_token": str(end) if end < len(jobs) else None})

    async def _results(self, request: Request) -> Response:
        job = self._keeper.found(request)
        begin, end = _page(request)
        found = await run_in_threadpool(self._read, job, begin, end + 1)
        token = str(end) if len(found) > end - begin else None
        body = b'{"results":[%b],"pagination_token":%b}' % (b",".join(found[: end - begin]), msgspec.json.encode(token))
        return Response(body, media_type="application/json")

    def _read(self, job: Job, begin: int, end: int) -> list[bytes]:
        """Return a slice of the lines of both files; a damaged line has no place in a page of JSON."""
        handles = (job.output_file_id, job.error_file_id)  # there as soon as no request is pending
        files = [self._engine.files.get(handle, wire=WIRE) for handle in handles if handle]
        lines = (line.strip() for file in files if file for line in file.path.read_bytes().split(b"\n"))
        return list(islice((line for line in lines if _is_json(line)), begin, end))


class _Asked(msgspec.Struct, frozen=True):
    name: str | None = None
    input_file_id: str | None = None


def _no_batch(_: str) -> Problem:
    return Problem(message="There is no such batch.", status=404)


def _has_ended(_: Job) -> Problem:
    return Problem(message="The batch has ended.")


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def _page(request: Request) -> tuple[int, int]:
    limit = whole_number(request, "limit", default=100, most=1000)
    token = request.query_params.get("pagination_token", "0")
    if not token.isdecimal():
        raise RefusedError(Problem(message="The pagination token is not one of ours."))
    return int(token), int(token) + limit


def _batch(job: Job) -> JsonObject:
    counts, day = job.counts, _day(job.created_at)
    stopped = job.phase in ("cancelling", "cancelled", "failed")
    left = 0 if job.is_ended else counts.total - counts.completed - counts.failed
    unmade = counts.failed if job.phase == "cancelled" else 0
    return {
        "batch_id": job.batch_id,
        "name": (job.order.metadata or {}).get("name"),
        "create_time": day,
        "expire_time": _day(job.created_at + 30 * 86_400),
        "create_api_key_id": "key_simulated",
        "cancel_time": day if stopped else None,
        "cancel_by_xai_message": "; ".join(problem.message for problem in job.problems) or None,
        "state": {
            "num_requests": counts.total,
            "num_pending": left,
            "num_success": counts.completed,
            "num_error": counts.failed - unmade,
            "num_cancelled": unmade,
        },
        "input_file_id": job.order.input_file_id,
    }


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
