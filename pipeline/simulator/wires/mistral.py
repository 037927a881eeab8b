"""Mistral's wire: files, batch jobs and chat completions under `/mistral/v1`.

Odd about it: the model stands at the job; statuses are upper case and its own; problems are texts with counts; requests
a job did not get to have no line at all; thoughts are chunks of the content; a job on an unknown file is refused.
"""

from collections import Counter
from datetime import datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pipeline.simulator.calls import Answered, notes_of
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.files import StoredFile
from pipeline.simulator.jobs import Job, Order, Phase
from pipeline.simulator.wires._compatible.lines import CompatibleLines, OpenAIRows, Why
from pipeline.simulator.wires._compatible.live import CompatibleLive
from pipeline.simulator.wires._compatible.performing import Dialect
from pipeline.simulator.wires._speaking import Problem, RefusedError
from pipeline.simulator.wires.openai.files import FileRoutes
from pipeline.simulator.wires.openai.keeping import Keeper
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker, as_asked, decoded, whole_number

WIRE = "mistral"
_PREFIX = "/mistral/v1"
_ENDPOINT = "/v1/chat/completions"
_LONGEST_TIMEOUT = 7 * 24
_FIELDS = frozenset(("input_files", "requests", "endpoint", "model", "agent_id", "metadata", "timeout_hours"))
_DIALECT = Dialect(
    wire=WIRE,
    models=("mistral-small-latest", "mistral-large-latest"),
    extras=frozenset(("safe_prompt", "random_seed", "prompt_mode")),
    thoughts="chunks",
    most_requests=1_000_000,
    most_bytes=512_000_000,
)
_STATUSES: dict[Phase, str] = {
    "validating": "QUEUED",
    "in_progress": "RUNNING",
    "finalizing": "RUNNING",
    "completed": "SUCCESS",
    "failed": "FAILED",
    "expired": "TIMEOUT_EXCEEDED",
    "cancelling": "CANCELLATION_REQUESTED",
    "cancelled": "CANCELLED",
}


class _Rows(OpenAIRows):
    """OpenAI's rows without a request id, and none for requests a job did not get to."""

    def unanswered(self, custom_id: str, why: Why, *, mark: str) -> JsonObject | None:  # noqa: ARG002 - as `Rows` has it
        """Return nothing."""
        return None


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    speaker = OpenAISpeaker(engine, WIRE, worded=_worded)
    engine.register(WIRE, CompatibleLines(engine, _DIALECT, _Rows(with_request_id=False), addressed=False))
    return [
        *FileRoutes(speaker, rendered=_file).routes(_PREFIX),
        *_Jobs(speaker).routes(_PREFIX),
        *CompatibleLive(_DIALECT, speaker).routes(_PREFIX),
    ]


def _worded(problem: Problem) -> JsonObject:
    return {
        "object": "error",
        "message": problem.message,
        "type": problem.kind,
        "param": problem.param,
        "code": problem.code,
    }


def _file(file: StoredFile) -> JsonObject:
    made = file.purpose == "batch_output"
    return {
        "id": file.file_id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created_at),
        "filename": file.filename,
        "purpose": "batch",
        "sample_type": "batch_result" if made else "batch_request",
        "source": "mistral" if made else "upload",
        "num_lines": None,
        "deleted": False,
    }


class _Jobs:
    """The routes under `/batch/jobs`."""

    def __init__(self, speaker: OpenAISpeaker) -> None:
        self._speaker = speaker
        self._engine = speaker.engine
        self._keeper = Keeper(speaker, rendered=_job, unknown=_no_batch, ended=_has_ended)

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route, path = self._speaker.route, f"{prefix}/batch/jobs"
        return [
            route(path, "create", self._create, method="POST", seen=self._record_create, reads_first=True),
            route(path, "list", self._list),
            route(f"{path}/{{batch_id}}", "poll", self._keeper.retrieve),
            route(f"{path}/{{batch_id}}/cancel", "cancel", self._keeper.cancel, method="POST"),
        ]

    async def _create(self, request: Request) -> Response:
        order = _order(decoded(notes_of(request).body))
        if self._engine.files.get(order.input_file_id, wire=WIRE) is None:
            raise RefusedError(Problem(message=f"File {order.input_file_id} was not found.", status=404))
        job = self._speaker.create(request, order, self._engine.clock.nonce())
        return self._speaker.json(self._keeper.shown(job))

    def _record_create(self, request: Request, answered: Answered) -> None:
        notes = notes_of(request)
        asked = as_asked(notes.body, _Asked)
        notes.input_file_id, notes.metadata = next(iter(asked.input_files), None), asked.metadata
        self._speaker.record_create(request, answered)

    async def _list(self, request: Request) -> Response:
        size = whole_number(request, "page_size", default=100, most=1000)
        page = request.query_params.get("page", "0")
        if not page.isdecimal():
            raise RefusedError(Problem(message="page must be a whole number.", status=422))
        jobs = [job for job in self._engine.listed_jobs(wire=WIRE) if job.created_at > _created_after(request)]
        shown = jobs[int(page) * size : (int(page) + 1) * size]
        rows = await self._keeper.all_shown(shown)
        return self._speaker.json({"object": "list", "total": len(jobs), "data": rows})


class _Asked(msgspec.Struct, frozen=True):
    input_files: list[str] = []
    metadata: dict[str, str] | None = None


def _no_batch(_: str) -> Problem:
    return Problem(message="Job was not found.", status=404)


def _has_ended(job: Job) -> Problem:
    return Problem(message=f"Job is {_STATUSES[job.phase]} and cannot be cancelled.")


def _order(body: JsonObject) -> Order:
    """Return what a create call asks for, or refuse it."""
    files, hours, metadata = body.get("input_files"), body.get("timeout_hours", 24), body.get("metadata")
    unknown = sorted(set(body) - _FIELDS)
    if unknown:
        raise RefusedError(Problem(message=f"Extra inputs are not permitted: {unknown[0]}.", status=422))
    if not isinstance(files, list) or len(files) != 1 or not isinstance(files[0], str):
        raise RefusedError(
            Problem(message="input_files must name one file; the simulator takes no others.", status=422)
        )
    if body.get("endpoint") != _ENDPOINT or not isinstance(body.get("model"), str):
        raise RefusedError(Problem(message=f"endpoint must be {_ENDPOINT} and model a name.", status=422))
    if not isinstance(hours, int) or not 0 < hours <= _LONGEST_TIMEOUT:
        raise RefusedError(Problem(message="timeout_hours must be between 1 and 168.", status=422))
    if not (metadata is None or (isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values()))):
        raise RefusedError(Problem(message="metadata must map texts to texts.", status=422))
    return Order(
        wire=WIRE,
        input_file_id=files[0],
        endpoint=_ENDPOINT,
        metadata=metadata,
        completion_window=f"{hours}h",
        model=body["model"],
    )


def _created_after(request: Request) -> float:
    given = request.query_params.get("created_after")
    try:
        return datetime.fromisoformat(given).timestamp() if given else 0.0
    except ValueError as error:
        raise RefusedError(Problem(message="created_after must be a time.", status=422)) from error


def _job(job: Job) -> JsonObject:
    reasons = Counter(
        problem.message if problem.line is None else f"line {problem.line}: {problem.message}"
        for problem in job.problems
    )
    counts = job.counts
    return {
        "id": job.batch_id,
        "object": "batch",
        "input_files": [job.order.input_file_id],
        "endpoint": job.order.endpoint,
        "model": job.order.model,
        "agent_id": None,
        "metadata": job.order.metadata,
        "errors": [{"message": reason, "count": count} for reason, count in reasons.items()],
        "status": _STATUSES[job.phase],
        "created_at": int(job.created_at),
        "started_at": int(job.at["in_progress"]) if "in_progress" in job.at else None,
        "completed_at": int(job.at[job.phase]) if job.is_ended else None,
        "total_requests": counts.total,
        "completed_requests": counts.completed + counts.failed,
        "succeeded_requests": counts.completed,
        "failed_requests": counts.failed,
        "output_file": job.output_file_id if job.is_ended else None,
        "error_file": job.error_file_id if job.is_ended else None,
        "outputs": None,
    }
