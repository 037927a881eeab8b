"""Gemini's batch routes: create, look up, list, cancel, delete; the live route and the models beside them."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.simulator.calls import notes_of
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.jobs import Job, Order
from pipeline.simulator.wires._google.content import perform
from pipeline.simulator.wires._google.speaking import (
    GoogleManner,
    decoded,
    invalid,
    number_of,
    problem_of,
    rpc_error,
    time_of,
)
from pipeline.simulator.wires._speaking import Problem, RefusedError, Speaker, json_answer
from pipeline.simulator.wires.gemini.files import output_name

_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
_STATES = {
    "validating": "PENDING", "in_progress": "RUNNING", "finalizing": "RUNNING", "cancelling": "RUNNING",
    "completed": "SUCCEEDED", "failed": "FAILED", "expired": "EXPIRED", "cancelled": "CANCELLED",
}  # fmt: skip
_ERRORS = {"expired": (4, "The batch expired."), "cancelled": (1, "The batch was cancelled.")}
_MODELS = ("gemini-4-argon", "gemini-3.8-flash", "gemini-3.6-flash", "gemini-3.5-flash-lite", "gemini-2.5-flash")


class Batches:
    """The routes under `/batches` and `/models`."""

    def __init__(self, engine: Engine, wire: str) -> None:
        self._engine = engine
        self._wire = wire
        self._speaker = Speaker(engine, wire, GoogleManner(needs_key=True))

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route, record = self._speaker.route, self._speaker.record_create
        root = f"{prefix}/{{version}}"
        batch = f"{root}/batches/{{batch}}"
        return [
            route(f"{root}/models/{{model}}:batchGenerateContent", "create", self._create, method="POST", seen=record),
            route(f"{root}/models/{{model}}:generateContent", "live", self._live, method="POST"),
            route(f"{root}/models", "poll", self._models),
            route(f"{root}/batches", "list", self._list),
            route(f"{batch}:cancel", "cancel", self._cancel, method="POST"),
            route(batch, "poll", self._retrieve),
        ]

    async def _create(self, request: Request) -> Response:
        asked = decoded(await request.body()).get("batch") or {}
        name = asked.get("displayName") or asked.get("display_name")
        source = asked.get("inputConfig") or asked.get("input_config") or {}
        file_name = source.get("fileName") or source.get("file_name")
        notes = notes_of(request)
        notes.input_file_id, notes.metadata = file_name, {"displayName": str(name)}
        if not isinstance(name, str) or not name:
            raise RefusedError(invalid("* GenerateContentBatch.display_name: is required"))
        if "requests" in source:
            raise RefusedError(invalid("The simulator takes files only: input_config.requests is not spoken here."))
        if not isinstance(file_name, str) or not file_name.startswith("files/"):
            raise RefusedError(invalid("* GenerateContentBatch.input_config.file_name: must be files/…"))
        order = Order(
            wire=self._wire,
            input_file_id=file_name,
            endpoint=request.path_params["model"],
            metadata={"displayName": name},
            completion_window="24h",
            requests=self._lines(file_name),
        )
        batch_id = f"b{self._engine.clock.nonce()[-20:]}"
        job = self._speaker.create(request, order, batch_id, remote_id=_name(batch_id))
        return json_answer(self._rendered(job))

    def _lines(self, file_name: str) -> int:
        """Return how many requests a file holds, which is told from the first answer on."""
        file = self._engine.files.get(file_name, wire=self._wire)
        return 0 if file is None else len(file.path.read_bytes().splitlines())

    async def _retrieve(self, request: Request) -> Response:
        job = self._found(request)
        await run_in_threadpool(self._engine.poll, [job])
        return json_answer(self._rendered(job))

    async def _list(self, request: Request) -> Response:
        size = number_of(request, "pageSize", default=50)
        begin = number_of(request, "pageToken", default=0)
        jobs = self._engine.listed_jobs(wire=self._wire)
        page = jobs[begin : begin + size]
        await run_in_threadpool(self._engine.poll, page)
        answer: JsonObject = {"operations": [self._rendered(job) for job in page]} if page else {}
        return json_answer(answer | ({"nextPageToken": str(begin + size)} if begin + size < len(jobs) else {}))

    async def _cancel(self, request: Request) -> Response:
        job = self._found(request)
        if not await run_in_threadpool(self._engine.cancel, job):
            message = "The batch has finished and cannot be cancelled."
            raise RefusedError(Problem(status=400, kind="FAILED_PRECONDITION", message=message))
        return json_answer({})

    async def _live(self, request: Request) -> Response:
        return await run_in_threadpool(self._perform, request.path_params["model"], await request.body())

    def _perform(self, model: str, content: bytes) -> Response:
        mark, twist = self._engine.clock.nonce(), self._engine.twist()
        done = perform(self._engine, model, decoded(content), mark=mark, twist=twist)
        if isinstance(done, Problem):
            raise RefusedError(done)
        self._engine.bill_live(self._wire, done.ask, done.reply)
        return json_answer(done.response)

    async def _models(self, request: Request) -> Response:  # noqa: ARG002 - a route takes the request
        return json_answer({"models": [{"name": f"models/{name}"} for name in self._engine.settings.models or _MODELS]})

    def _found(self, request: Request) -> Job:
        batch_id = request.path_params["batch"]
        job = self._engine.job(batch_id, wire=self._wire)
        if job is None:
            raise RefusedError(problem_of(404, f"There is no batch {_name(batch_id)}."))
        return job

    def _rendered(self, job: Job) -> JsonObject:
        with self._engine.lock:
            return _operation(job)


def _name(batch_id: str) -> str:
    return f"batches/{batch_id}"


def _operation(job: Job) -> JsonObject:
    name, times = _name(job.batch_id), list(job.at.values())
    metadata: JsonObject = {
        "@type": _TYPE,
        "model": f"models/{job.order.endpoint}",
        "displayName": (job.order.metadata or {})["displayName"],
        "inputConfig": {"fileName": job.order.input_file_id},
        "createTime": time_of(job.created_at),
        "updateTime": time_of(times[-1] if times else job.created_at),
        "batchStats": _stats(job),
        "state": f"BATCH_STATE_{_STATES[job.phase]}",
        "name": name,
    }
    operation: JsonObject = {"name": name, "metadata": metadata}
    if not job.is_ended:
        return operation
    metadata["endTime"] = time_of(times[-1])
    operation["done"] = True
    if job.output_file_id is not None:
        output = {"responsesFile": output_name(job.output_file_id)}
        metadata["output"] = output
        return operation | {"response": {"@type": f"{_TYPE}Output", **output}}
    return operation | ({"error": error} if (error := _error(job)) else {})


def _error(job: Job) -> JsonObject | None:
    if job.problems:
        return rpc_error(job.problems[0])
    code, message = _ERRORS.get(job.phase, (0, ""))
    return {"code": code, "message": message} if code else None


def _stats(job: Job) -> dict[str, str]:
    """Return the counts as strings, those that are zero left out."""
    counts = job.counts
    total = 0 if job.problems else job.order.requests or 0
    failed = counts.failed - job.unanswered
    stats = {
        "requestCount": total,
        "successfulRequestCount": counts.completed,
        "failedRequestCount": failed,
        "pendingRequestCount": max(total - counts.completed - failed, 0),
    }
    return {name: str(count) for name, count in stats.items() if count}
