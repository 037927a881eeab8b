"""Anthropic's batch routes: create, look up, list, cancel, fetch results, delete; and the live route beside them."""

import re
from collections.abc import Iterator

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.simulator.calls import download
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.files import StoredFile
from pipeline.simulator.jobs import Job, Order
from pipeline.simulator.wires._speaking import Problem, RefusedError, Speaker, iso_time, json_answer
from pipeline.simulator.wires.anthropic.lines import perform
from pipeline.simulator.wires.anthropic.speaking import AnthropicManner, invalid

_MOST_REQUESTS = 100_000
_MOST_BYTES = 256_000_000
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]+")
_REFUSED_IN_BATCHES = ("stream", "speed")


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    custom_id: str
    params: JsonObject


class _Requests(msgspec.Struct, forbid_unknown_fields=True):
    requests: list[msgspec.Raw]


_requests = msgspec.json.Decoder(_Requests)
_request = msgspec.json.Decoder(_Request)


class Batches:
    """The routes under `/v1/messages`."""

    def __init__(self, engine: Engine, wire: str) -> None:
        self._engine = engine
        self._wire = wire
        self._speaker = Speaker(engine, wire, AnthropicManner())

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route, record = self._speaker.route, self._speaker.record_create
        messages = f"{prefix}/v1/messages"
        batches, batch = f"{messages}/batches", f"{messages}/batches/{{batch_id}}"
        return [
            route(batches, "create", self._create, method="POST", seen=record),
            route(batches, "list", self._list),
            route(batch, "poll", self._retrieve),
            route(batch, "delete", self._delete, method="DELETE"),
            route(f"{batch}/cancel", "cancel", self._cancel, method="POST"),
            route(f"{batch}/results", "download", self._results),
            route(messages, "live", self._live, method="POST"),
        ]

    async def _create(self, request: Request) -> Response:
        body = await request.body()
        version = request.headers["anthropic-version"]
        batch_id = f"msgbatch_{self._engine.clock.nonce()}"
        count = await run_in_threadpool(self._keep, body, batch_id, version)
        order = Order(
            wire=self._wire,
            input_file_id=batch_id,
            endpoint=version,
            metadata=None,
            completion_window="24h",
            requests=count,
        )
        job = self._speaker.create(request, order, batch_id)
        return json_answer(self._rendered(job, request))

    def _keep(self, body: bytes, batch_id: str, version: str) -> int:
        """Write the requests of a create call to disk, line by line; return how many there are."""
        if len(body) > (self._engine.settings.max_bytes or _MOST_BYTES):
            raise RefusedError(AnthropicManner().struck(413, quota=False))
        given = _decoded(body)
        most = self._engine.settings.max_requests or _MOST_REQUESTS
        if not 1 <= len(given) <= most:
            raise RefusedError(invalid(f"requests: List should have between 1 and {most} items, not {len(given)}"))
        path = self._engine.files.path_of(batch_id)
        with path.open("wb") as file:
            file.writelines(_lines(given, version))
        self._engine.files.add(
            StoredFile(
                file_id=batch_id,
                wire=self._wire,
                filename=batch_id,
                purpose="requests",
                bytes=path.stat().st_size,
                created_at=self._engine.now(),
                expires_at=None,
                path=path,
            )
        )
        return len(given)

    async def _list(self, request: Request) -> Response:
        jobs = self._engine.listed_jobs(wire=self._wire)
        page, more = _page(jobs, request)
        await run_in_threadpool(self._engine.poll, page)
        rows = [self._rendered(job, request) for job in page]
        first, last = (rows[0]["id"], rows[-1]["id"]) if rows else (None, None)
        return json_answer({"data": rows, "has_more": more, "first_id": first, "last_id": last})

    async def _retrieve(self, request: Request) -> Response:
        job = self._found(request)
        await run_in_threadpool(self._engine.poll, [job])
        return json_answer(self._rendered(job, request))

    async def _cancel(self, request: Request) -> Response:
        job = self._found(request)
        if not await run_in_threadpool(self._engine.cancel, job):
            raise RefusedError(invalid(f"Batch {job.batch_id} has already ended and cannot be canceled."))
        if job.cancel_share is None:
            job.cancel_share = 1.0
        return json_answer(self._rendered(job, request))

    async def _results(self, request: Request) -> Response:
        job = self._found(request)
        file = self._engine.files.get(job.output_file_id or "", wire=self._wire)
        if not job.is_ended or file is None:
            message = f"Batch {job.batch_id} has no results available."
            raise RefusedError(Problem(status=404, kind="not_found_error", message=message))
        self._speaker.record_file(file, "downloaded", file.bytes)
        return await download(self._engine, request, file.path, {})

    async def _delete(self, request: Request) -> Response:
        job = self._found(request)
        if not job.is_ended:
            raise RefusedError(invalid(f"Batch {job.batch_id} is still processing: cancel it before deleting it."))
        self._engine.files.delete(job.output_file_id or "")
        job.output_file_id = None
        return json_answer({"id": job.batch_id, "type": "message_batch_deleted"})

    async def _live(self, request: Request) -> Response:
        return await run_in_threadpool(self._perform, await request.body(), request.headers["anthropic-version"])

    def _perform(self, body: bytes, version: str) -> Response:
        params = _object(body)
        if params.get("stream"):
            raise RefusedError(invalid("stream: the simulator does not stream; leave it out"))
        mark, twist = self._engine.clock.nonce(), self._engine.twist()
        done = perform(self._engine, params, version=version, mark=mark, twist=twist, tier="standard")
        if isinstance(done, Problem):
            raise RefusedError(done)
        self._engine.bill_live(self._wire, done.ask, done.reply)
        return json_answer(done.message, headers={"request-id": f"req_{mark}"})

    def _found(self, request: Request) -> Job:
        batch_id = request.path_params["batch_id"]
        job = self._engine.job(batch_id, wire=self._wire)
        if job is None:
            raise RefusedError(Problem(status=404, kind="not_found_error", message=f"No batch with id {batch_id}."))
        return job

    def _rendered(self, job: Job, request: Request) -> JsonObject:
        with self._engine.lock:
            return _batch(job, self._engine.settings.window_seconds, base=_base(request))


def _object(body: bytes) -> JsonObject:
    try:
        return msgspec.json.decode(body, type=JsonObject)
    except msgspec.MsgspecError as error:
        raise RefusedError(invalid(f"The request body is not valid JSON: {error}")) from error


def _decoded(body: bytes) -> list[msgspec.Raw]:
    try:
        return _requests.decode(body).requests
    except msgspec.MsgspecError as error:
        raise RefusedError(invalid(f"requests: {error}")) from error


def _lines(given: list[msgspec.Raw], version: str) -> Iterator[bytes]:
    """Yield the requests as they lie on disk, each checked before."""
    seen: set[str] = set()
    for at, raw in enumerate(given):
        asked = _checked(raw, at, seen)
        yield msgspec.json.encode({"version": version, "custom_id": asked.custom_id, "params": asked.params}) + b"\n"


def _checked(raw: msgspec.Raw, at: int, seen: set[str]) -> _Request:
    """Return one request if a create call takes it; what it asks of the model is looked at later."""
    try:
        asked = _request.decode(raw)
    except msgspec.MsgspecError as error:
        raise RefusedError(invalid(f"requests.{at}: {error}")) from error
    if len(asked.custom_id) > 64:
        raise RefusedError(invalid(f"requests.{at}.custom_id: String should have at most 64 characters"))
    if not _CUSTOM_ID.fullmatch(asked.custom_id):
        raise RefusedError(invalid(f"requests.{at}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"))
    if asked.custom_id in seen:
        raise RefusedError(invalid(f"requests.{at}.custom_id: '{asked.custom_id}' is not unique in this batch"))
    seen.add(asked.custom_id)
    refused = next((name for name in _REFUSED_IN_BATCHES if asked.params.get(name)), None)
    if refused is not None or asked.params.get("max_tokens") == 0:
        raise RefusedError(invalid(f"requests.{at}.params.{refused or 'max_tokens'}: not supported in batches"))
    return asked


def _page(jobs: list[Job], request: Request) -> tuple[list[Job], bool]:
    """Return the page the query asks for, and whether there is more in its direction."""
    query = request.query_params
    limit = query.get("limit", "20")
    if not limit.isdecimal() or not 1 <= int(limit) <= 1000:
        raise RefusedError(invalid("limit: Input should be between 1 and 1000"))
    ids = [job.batch_id for job in jobs]
    if "before_id" in query:
        newer = jobs[: ids.index(query["before_id"])] if query["before_id"] in ids else []
        return newer[-int(limit) :], len(newer) > int(limit)
    begin = ids.index(query["after_id"]) + 1 if query.get("after_id") in ids else 0
    return jobs[begin : begin + int(limit)], begin + int(limit) < len(jobs)


def _base(request: Request) -> str:
    return f"{request.base_url}{request.url.path.partition('/v1/')[0].lstrip('/')}"


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else iso_time(seconds)


def _batch(job: Job, window: float, *, base: str) -> JsonObject:
    ended = job.at.get(job.phase) if job.is_ended else None
    status = "ended" if job.is_ended else "canceling" if job.phase == "cancelling" else "in_progress"
    has_results = job.is_ended and job.output_file_id is not None
    return {
        "id": job.batch_id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": _counts(job),
        "ended_at": _time(ended),
        "created_at": _time(job.created_at),
        "expires_at": _time(job.created_at + window),
        "archived_at": None,
        "cancel_initiated_at": _time(job.at.get("cancelling")),
        "results_url": f"{base}/v1/messages/batches/{job.batch_id}/results" if has_results else None,
    }


def _counts(job: Job) -> dict[str, int]:
    """Return the counts, which stay zero until the whole batch has ended."""
    total, left = job.order.requests or 0, job.unanswered
    if not job.is_ended:
        return {"processing": total, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    return {
        "processing": 0,
        "succeeded": job.counts.completed,
        "errored": job.counts.failed - left,
        "canceled": left if job.phase == "cancelled" else 0,
        "expired": left if job.phase == "expired" else 0,
    }
