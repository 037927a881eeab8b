"""Vertex's batch prediction jobs: create, look up, list, cancel, delete."""

import re

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.simulator.calls import notes_of
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.jobs import Job, Order
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
from pipeline.simulator.wires.vertex.storage import Storage, file_id_of

_STATES = {
    "validating": "PENDING", "in_progress": "RUNNING", "finalizing": "RUNNING", "cancelling": "CANCELLING",
    "completed": "SUCCEEDED", "failed": "FAILED", "expired": "EXPIRED", "cancelled": "CANCELLED",
}  # fmt: skip
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_FILTER = re.compile(r'display_?[nN]ame\s*=\s*"([^"]*)"')
_MODEL = re.compile(r"(?:projects/[^/]+/locations/[^/]+/)?publishers/google/models/([a-z0-9.-]+)")


class Jobs:
    """The routes under `/batchPredictionJobs`."""

    def __init__(self, engine: Engine, wire: str, storage: Storage) -> None:
        self._engine = engine
        self._wire = wire
        self._storage = storage
        self._speaker = Speaker(engine, wire, GoogleManner(needs_key=False))

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route, record = self._speaker.route, self._speaker.record_create
        jobs = f"{prefix}/{{version}}/projects/{{project}}/locations/{{location}}/batchPredictionJobs"
        return [
            route(jobs, "create", self._create, method="POST", seen=record),
            route(jobs, "list", self._list),
            route(f"{jobs}/{{job}}:cancel", "cancel", self._cancel, method="POST"),
            route(f"{jobs}/{{job}}", "poll", self._retrieve),
        ]

    async def _create(self, request: Request) -> Response:
        body = decoded(await request.body())
        notes = notes_of(request)
        notes.metadata = {"displayName": str(body.get("displayName"))}
        source, destination, model = _asked(body)
        notes.input_file_id = source
        metadata = {
            "displayName": body["displayName"],
            "parent": _parent(request),
            "source": source,
            "destination": destination,
            **{f"label.{name}": value for name, value in (body.get("labels") or {}).items()},
        }
        order = Order(
            wire=self._wire,
            input_file_id=file_id_of(source),
            endpoint=model,
            metadata=metadata,
            completion_window="24h",
        )
        batch_id = str(int(self._engine.clock.nonce()[-15:], 16))
        job = self._speaker.create(request, order, batch_id, remote_id=_name(metadata["parent"], batch_id))
        return json_answer(self._rendered(job))

    async def _retrieve(self, request: Request) -> Response:
        job = self._found(request)
        (shown,) = await run_in_threadpool(self._moved, [job])
        return json_answer(shown)

    async def _list(self, request: Request) -> Response:
        query = request.query_params
        listed, parent = self._engine.listed_jobs(wire=self._wire), _parent(request)
        jobs = [job for job in listed if (job.order.metadata or {})["parent"] == parent]
        if "filter" in query:
            wanted = _FILTER.fullmatch(query["filter"])
            if wanted is None:
                raise RefusedError(invalid(f"Invalid filter: {query['filter']}"))
            jobs = [job for job in jobs if (job.order.metadata or {})["displayName"] == wanted[1]]
        size = number_of(request, "pageSize", default=100)
        begin = number_of(request, "pageToken", default=0)
        page = jobs[begin : begin + size]
        answer: JsonObject = {"batchPredictionJobs": await run_in_threadpool(self._moved, page)} if page else {}
        return json_answer(answer | ({"nextPageToken": str(begin + size)} if begin + size < len(jobs) else {}))

    async def _cancel(self, request: Request) -> Response:
        job = self._found(request)
        if not await run_in_threadpool(self._engine.cancel, job):
            message = "The job has ended and cannot be cancelled."
            raise RefusedError(Problem(status=400, kind="FAILED_PRECONDITION", message=message))
        return json_answer({})

    def _moved(self, jobs: list[Job]) -> list[JsonObject]:
        """Return the jobs as they are now; what an ended one wrote is in the bucket before its end is told."""
        self._engine.poll(jobs)
        shown = [self._rendered(job) for job in jobs]
        for job, told in zip(jobs, shown, strict=True):
            if "outputInfo" in told:
                self._storage.publish(job, _directory(job))
        return shown

    def _found(self, request: Request) -> Job:
        job = self._engine.job(request.path_params["job"], wire=self._wire)
        if job is None:
            raise RefusedError(problem_of(404, f"The job {request.path_params['job']} does not exist."))
        return job

    def _rendered(self, job: Job) -> JsonObject:
        with self._engine.lock:
            return _job(job)


def _parent(request: Request) -> str:
    """Return the project and place that the call is about: a place shows none of another's jobs."""
    return "projects/{project}/locations/{location}".format_map(request.path_params)


def _asked(body: JsonObject) -> tuple[str, str, str]:
    """Return the input, the output prefix and the model of a create call, or refuse it."""
    if not isinstance(body.get("displayName"), str) or not 1 <= len(body["displayName"]) <= 128:
        raise RefusedError(invalid("displayName is required and may have 128 characters."))
    model = _MODEL.fullmatch(str(body.get("model")))
    if model is None:
        raise RefusedError(invalid("model must be publishers/google/models/…"))
    for name, value in (body.get("labels") or {}).items():
        if not _LABEL.fullmatch(name) or not _LABEL.fullmatch(str(value)):
            raise RefusedError(invalid(f"The label {name!r} must be lower case letters, digits, '_' and '-'."))
    given, wanted = body.get("inputConfig") or {}, body.get("outputConfig") or {}
    uris = (given.get("gcsSource") or {}).get("uris") or []
    prefix = (wanted.get("gcsDestination") or {}).get("outputUriPrefix")
    if given.get("instancesFormat") != "jsonl" or wanted.get("predictionsFormat") != "jsonl":
        raise RefusedError(invalid("instancesFormat and predictionsFormat must be jsonl."))
    if len(uris) != 1 or not str(uris[0]).startswith("gs://") or not str(prefix).startswith("gs://"):
        raise RefusedError(invalid("One gcsSource and one gcsDestination, both gs://…, are required."))
    return uris[0], str(prefix), model[1]


def _directory(job: Job) -> str:
    prefix = (job.order.metadata or {})["destination"].rstrip("/")
    return f"{prefix}/prediction-model-{time_of(job.created_at)}"


def _name(parent: str, batch_id: str) -> str:
    return f"{parent}/batchPredictionJobs/{batch_id}"


def _job(job: Job) -> JsonObject:
    metadata, times = job.order.metadata or {}, list(job.at.values())
    labels = {name[6:]: value for name, value in metadata.items() if name.startswith("label.")}
    shown: JsonObject = {
        "name": _name(metadata["parent"], job.batch_id),
        "displayName": metadata["displayName"],
        "model": f"publishers/google/models/{job.order.endpoint}",
        "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [metadata["source"]]}},
        "outputConfig": {
            "predictionsFormat": "jsonl",
            "gcsDestination": {"outputUriPrefix": metadata["destination"]},
        },
        "state": f"JOB_STATE_{_STATES[job.phase]}",
        "createTime": time_of(job.created_at),
        "updateTime": time_of(times[-1] if times else job.created_at),
        "modelVersionId": "1",
    }
    if labels:
        shown["labels"] = labels
    if "in_progress" in job.at:
        shown["startTime"] = time_of(job.at["in_progress"])
    return shown | (_ended(job, times[-1]) if job.is_ended else {})


def _ended(job: Job, when: float) -> JsonObject:
    failed = job.counts.failed - job.unanswered
    stats = {"successfulCount": job.counts.completed, "failedCount": failed, "incompleteCount": job.unanswered}
    shown: JsonObject = {"endTime": time_of(when)}
    if any(stats.values()):
        shown["completionStats"] = {name: str(count) for name, count in stats.items() if count}
    if job.output_file_id is not None:
        shown["outputInfo"] = {"gcsOutputDirectory": _directory(job)}
    if job.problems:
        shown["error"] = rpc_error(job.problems[0])
    return shown
