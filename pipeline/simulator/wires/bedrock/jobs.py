"""Bedrock's job routes: create, look up, list, stop."""

import re
from datetime import datetime

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.ids import digest
from pipeline.simulator.calls import notes_of
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.jobs import Job, Order, Phase
from pipeline.simulator.wires._speaking import Speaker, iso_time, json_answer
from pipeline.simulator.wires.bedrock.objects import Objects, file_id
from pipeline.simulator.wires.bedrock.speaking import refused, region_of

WIRE = "bedrock"
_ARN = "arn:aws:bedrock:{region}:123456789012:model-invocation-job/{batch_id}"
_NAME = re.compile(r"[a-zA-Z0-9]{1,63}(-*[a-zA-Z0-9+\-.])*")
_TOKEN = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}")
_STATUSES: dict[Phase, str] = {
    "validating": "Submitted",
    "in_progress": "InProgress",
    "finalizing": "InProgress",
    "completed": "Completed",
    "failed": "Failed",
    "expired": "PartiallyCompleted",
    "cancelling": "Stopping",
    "cancelled": "Stopped",
}


class _Place(msgspec.Struct, frozen=True, rename="camel"):
    s3_uri: str
    s3_input_format: str = "JSONL"


class _Input(msgspec.Struct, frozen=True):
    place: _Place = msgspec.field(name="s3InputDataConfig")


class _Output(msgspec.Struct, frozen=True):
    place: _Place = msgspec.field(name="s3OutputDataConfig")


class _Asked(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    job_name: str
    role_arn: str
    model_id: str
    input_data_config: _Input
    output_data_config: _Output
    client_request_token: str | None = None
    timeout_duration_in_hours: int = 24
    model_invocation_type: str = "InvokeModel"
    tags: list[JsonObject] = []


_asked = msgspec.json.Decoder(_Asked)


class Jobs:
    """The routes under `/model-invocation-job`. A region knows nothing of another's jobs, nor of its tokens."""

    def __init__(self, speaker: Speaker, objects: Objects) -> None:
        self._speaker = speaker
        self._engine = speaker.engine
        self._objects = objects

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route, path = self._speaker.route, f"{prefix}/model-invocation-job"
        return [
            route(path, "create", self._create, method="POST", seen=self._speaker.record_create),
            route(f"{prefix}/model-invocation-jobs", "list", self._list),
            route(f"{path}/{{arn:path}}/stop", "cancel", self._stop, method="POST"),
            route(f"{path}/{{arn:path}}", "poll", self._retrieve),
        ]

    async def _create(self, request: Request) -> Response:
        asked = _checked(await request.body())
        token = asked.client_request_token or self._engine.clock.nonce()
        region = region_of(request)
        order = _order(asked, token, region)
        batch_id = digest(f"{region} {token}".encode())[:12]
        notes = notes_of(request)
        notes.batch_id, notes.metadata, notes.input_file_id = batch_id, order.metadata, order.input_file_id
        known = self._engine.promised(batch_id)
        arn = _ARN.format(region=region, batch_id=batch_id)
        if known is None:
            self._speaker.create(request, order, batch_id, remote_id=arn)
        elif known.order != order:
            raise refused(400, "ConflictException", "The token was used for another job.")
        return json_answer({"jobArn": arn})

    async def _retrieve(self, request: Request) -> Response:
        job = self._found(request)
        await run_in_threadpool(self._advance, job)
        return json_answer(self._rendered(job))

    async def _list(self, request: Request) -> Response:
        query = request.query_params
        after = _seconds(query.get("submitTimeAfter"))
        jobs = [
            job
            for job in self._engine.listed_jobs(wire=WIRE)
            if _said(job, "region") == region_of(request)
            and query.get("nameContains", "") in _said(job, "jobName")
            and job.created_at > after
        ]
        begin = int(query.get("nextToken", "0"))
        end = begin + int(query.get("maxResults", "1000"))
        for job in jobs[begin:end]:
            await run_in_threadpool(self._advance, job)
        more = {"nextToken": str(end)} if end < len(jobs) else {}
        return json_answer({"invocationJobSummaries": [self._rendered(job) for job in jobs[begin:end]], **more})

    async def _stop(self, request: Request) -> Response:
        job = self._found(request)
        if not await run_in_threadpool(self._engine.cancel, job):
            raise refused(400, "ConflictException", f"The job is {_STATUSES[job.phase]}.")
        return json_answer({})

    def _found(self, request: Request) -> Job:
        arn = request.path_params["arn"]
        job = self._engine.job(arn.rpartition("/")[2], wire=WIRE)
        if job is None or _said(job, "region") != region_of(request) or arn not in (_arn(job), job.batch_id):
            raise refused(404, "ResourceNotFoundException", "There is no such job.")
        return job

    def _advance(self, job: Job) -> None:
        """Move the job on; once it has ended, its answers and errors lie in one object under its prefix."""
        self._engine.poll([job])
        handles = (job.output_file_id, job.error_file_id) if job.is_ended else ()
        files = [self._engine.files.get(handle, wire=WIRE) for handle in handles if handle]
        paths = [file.path for file in files if file is not None]
        if paths:
            folder = f"{_said(job, 'output').removeprefix('s3://').rstrip('/')}/{job.batch_id}"
            self._objects.add(f"{folder}/{_said(job, 'input').rpartition('/')[2]}.out", *paths)

    def _rendered(self, job: Job) -> JsonObject:
        with self._engine.lock:
            return _job(job)


def _checked(body: bytes) -> _Asked:
    try:
        asked = _asked.decode(body)
    except msgspec.MsgspecError as error:
        raise refused(400, "ValidationException", str(error)) from error
    if len(asked.job_name) > 63 or not _NAME.fullmatch(asked.job_name):
        raise refused(400, "ValidationException", "jobName does not match its pattern.")
    if asked.client_request_token is not None and not _TOKEN.fullmatch(asked.client_request_token):
        raise refused(400, "ValidationException", "clientRequestToken does not match its pattern.")
    if not 24 <= asked.timeout_duration_in_hours <= 168:
        raise refused(400, "ValidationException", "timeoutDurationInHours must be between 24 and 168.")
    if asked.model_invocation_type not in ("InvokeModel", "Converse"):
        raise refused(400, "ValidationException", "modelInvocationType must be InvokeModel or Converse.")
    return asked


def _order(asked: _Asked, token: str, region: str) -> Order:
    source = asked.input_data_config.place.s3_uri
    return Order(
        wire=WIRE,
        input_file_id=file_id(source.removeprefix("s3://")),
        endpoint=asked.model_invocation_type,
        metadata={
            "jobName": asked.job_name,
            "clientRequestToken": token,
            "region": region,
            "roleArn": asked.role_arn,
            "input": source,
            "output": asked.output_data_config.place.s3_uri,
        },
        completion_window=f"{asked.timeout_duration_in_hours}h",
        model=asked.model_id,
    )


def _said(job: Job, name: str) -> str:
    return (job.order.metadata or {}).get(name, "")


def _arn(job: Job) -> str:
    return _ARN.format(region=_said(job, "region"), batch_id=job.batch_id)


def _seconds(given: str | None) -> float:
    try:
        return datetime.fromisoformat(given).timestamp() if given else 0.0
    except ValueError as error:
        raise refused(400, "ValidationException", "submitTimeAfter must be a time.") from error


def _job(job: Job) -> JsonObject:
    counts, problem = job.counts, next(iter(job.problems), None)
    ended = {"endTime": iso_time(job.at[job.phase])} if job.is_ended else {}
    return {
        "jobArn": _arn(job),
        **{name: _said(job, name) for name in ("jobName", "clientRequestToken", "roleArn")},
        "modelId": job.order.model,
        "status": _STATUSES[job.phase],
        **(
            {"message": f"line {problem.line}: {problem.message}" if problem.line else problem.message}
            if problem
            else {}
        ),
        "submitTime": iso_time(job.created_at),
        "lastModifiedTime": iso_time(max(job.at.values(), default=job.created_at)),
        **ended,
        "inputDataConfig": {"s3InputDataConfig": {"s3InputFormat": "JSONL", "s3Uri": _said(job, "input")}},
        "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": _said(job, "output")}},
        "timeoutDurationInHours": int(job.order.completion_window.removesuffix("h")),
        "modelInvocationType": job.order.endpoint,
        "totalRecordCount": counts.total,
        "processedRecordCount": counts.completed + counts.failed,
        "successRecordCount": counts.completed,
        "errorRecordCount": counts.failed,
    }
