"""Together's batch routes: create, look up, list, cancel."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.simulator.calls import Answered, notes_of
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.jobs import Job, Order, Phase
from pipeline.simulator.wires._speaking import Problem, RefusedError, iso_time
from pipeline.simulator.wires.openai.keeping import Keeper
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker, as_asked, decoded

WIRE = "together"
_ENDPOINT = "/v1/chat/completions"
_FIELDS = frozenset(("endpoint", "input_file_id", "completion_window", "model_id", "priority"))
_STATUSES: dict[Phase, str] = {
    "validating": "VALIDATING",
    "in_progress": "IN_PROGRESS",
    "finalizing": "IN_PROGRESS",
    "completed": "COMPLETED",
    "failed": "FAILED",
    "expired": "EXPIRED",
    "cancelling": "IN_PROGRESS",
    "cancelled": "CANCELLED",
}


class Jobs:
    """The routes under `/batches`."""

    def __init__(self, speaker: OpenAISpeaker) -> None:
        self._speaker = speaker
        self._engine = speaker.engine
        self._keeper = Keeper(speaker, rendered=self._rendered, unknown=_no_batch, ended=_has_ended)

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route, path = self._speaker.route, f"{prefix}/batches"
        return [
            route(path, "create", self._create, method="POST", seen=self._record_create, reads_first=True),
            route(path, "list", self._list),
            route(f"{path}/{{batch_id}}", "poll", self._keeper.retrieve),
            route(f"{path}/{{batch_id}}/cancel", "cancel", self._keeper.cancel, method="POST"),
        ]

    async def _create(self, request: Request) -> Response:
        body = decoded(notes_of(request).body)
        if set(body) - _FIELDS or body.get("endpoint") != _ENDPOINT:
            raise RefusedError(
                Problem(message=f"invalid request: endpoint must be {_ENDPOINT}, fields {sorted(_FIELDS)}")
            )
        file = self._engine.files.get(str(body.get("input_file_id")), wire=WIRE)
        if file is None:
            raise RefusedError(Problem(message="input file not found", status=404))
        order = Order(wire=WIRE, input_file_id=file.file_id, endpoint=_ENDPOINT, metadata=None, completion_window="24h")
        job = self._speaker.create(request, order, _uuid(self._engine.clock.nonce()))
        return self._speaker.json({"job": self._keeper.shown(job), "warning": None}, 201)

    def _record_create(self, request: Request, answered: Answered) -> None:
        notes = notes_of(request)
        notes.input_file_id = as_asked(notes.body, _Asked).input_file_id
        self._speaker.record_create(request, answered)

    async def _list(self, request: Request) -> Response:  # noqa: ARG002 - a route takes the request
        return self._speaker.json(await self._keeper.all_shown(self._engine.listed_jobs(wire=WIRE)))

    def _rendered(self, job: Job) -> JsonObject:
        file = self._engine.files.get(job.order.input_file_id, wire=WIRE)
        return _job(job, size=file.bytes if file else 0, window=self._engine.settings.window_seconds)


class _Asked(msgspec.Struct, frozen=True):
    input_file_id: str | None = None


def _no_batch(_: str) -> Problem:
    return Problem(message="batch not found", status=404)


def _has_ended(job: Job) -> Problem:
    return Problem(message=f"batch is {_STATUSES[job.phase]} and cannot be cancelled")


def _uuid(name: str) -> str:
    return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-8{name[17:20]}-{name[20:32]}"


def _job(job: Job, *, size: int, window: float) -> JsonObject:
    counts = job.counts
    done = counts.completed + counts.failed
    shown: JsonObject = {
        "id": job.batch_id,
        "user_id": "user_simulated",
        "input_file_id": job.order.input_file_id,
        "file_size_bytes": size,
        "status": _STATUSES[job.phase],
        "job_deadline": iso_time(job.created_at + window),
        "created_at": iso_time(job.created_at),
        "endpoint": job.order.endpoint,
        "progress": 100.0 * done / counts.total if counts.total else 0.0,
        "model_id": job.model,
    }
    if job.is_ended:
        shown |= {
            "output_file_id": job.output_file_id,
            "error_file_id": job.error_file_id,
            "completed_at": iso_time(job.at[job.phase]),
            "error": _error(job),
        }
    return shown


def _error(job: Job) -> str | None:
    problem = next(iter(job.problems), None)
    if problem is None:
        return None
    return problem.message if problem.line is None else f"validation failed: line {problem.line}: {problem.message}"
