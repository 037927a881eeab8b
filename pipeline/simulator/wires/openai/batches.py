"""OpenAI's batch routes: create, look up, list, cancel."""

from collections.abc import Callable, Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.simulator.calls import Answered, notes_of
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.jobs import Job, Order, Phase
from pipeline.simulator.wires._speaking import Problem, RefusedError
from pipeline.simulator.wires.openai.files import LIFETIME
from pipeline.simulator.wires.openai.keeping import Keeper
from pipeline.simulator.wires.openai.speaking import (
    OpenAISpeaker,
    as_asked,
    decoded,
    invalid,
    listing,
    missing,
    page_of,
    unknown,
    whole_number,
)

ENDPOINTS = (
    "/v1/responses", "/v1/chat/completions", "/v1/embeddings", "/v1/completions", "/v1/moderations",
    "/v1/images/generations", "/v1/images/edits", "/v1/videos",
)  # fmt: skip
_FIELDS = ("input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after")
_TIMES: tuple[Phase, ...] = (
    "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled",
)  # fmt: skip


class Batches:
    """The routes under `/batches`."""

    def __init__(self, speaker: OpenAISpeaker, *, rendered: Callable[[Job, float], JsonObject] | None = None) -> None:
        self._speaker = speaker
        self._engine = speaker.engine
        self._batch = rendered or rendered_batch
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
        order = _order(decoded(notes_of(request).body), self._speaker.wire)
        job = self._speaker.create(request, order, f"batch_{self._engine.clock.nonce()}")
        return self._speaker.json(self._keeper.shown(job))

    def _record_create(self, request: Request, answered: Answered) -> None:
        notes = notes_of(request)
        asked = as_asked(notes.body, _Asked)
        notes.input_file_id, notes.metadata = asked.input_file_id, asked.metadata
        self._speaker.record_create(request, answered)

    async def _list(self, request: Request) -> Response:
        limit = whole_number(request, "limit", default=20, most=100)
        jobs = self._engine.listed_jobs(wire=self._speaker.wire)
        page = page_of([job.batch_id for job in jobs], request, limit)
        rows = await self._keeper.all_shown(jobs[page])
        return self._speaker.json(listing(rows, more=page.stop < len(jobs)))

    def _rendered(self, job: Job) -> JsonObject:
        return self._batch(job, self._engine.settings.window_seconds)


class _Asked(msgspec.Struct, frozen=True):
    input_file_id: str | None = None
    metadata: dict[str, str] | None = None


def _no_batch(batch_id: str) -> Problem:
    return Problem(message=f"No batch found with id '{batch_id}'.", status=404)


def _has_ended(job: Job) -> Problem:
    return Problem(message=f"Cannot cancel a batch with status '{job.phase}'.", status=409)


def _order(body: JsonObject, wire: str) -> Order:
    """Return what a create call asks for, or refuse it."""
    for name in ("input_file_id", "endpoint", "completion_window"):
        if not isinstance(body.get(name), str):
            raise RefusedError(missing(name))
    for name in body:
        if name not in _FIELDS:
            raise RefusedError(unknown(name))
    if body["endpoint"] not in ENDPOINTS:
        message = f"Invalid value: '{body['endpoint']}'. Supported values are: {', '.join(ENDPOINTS)}."
        raise RefusedError(invalid("endpoint", message))
    if body["completion_window"] != "24h":
        message = f"Invalid value: '{body['completion_window']}'. The only completion window is '24h'."
        raise RefusedError(invalid("completion_window", message))
    return Order(
        wire=wire,
        input_file_id=body["input_file_id"],
        endpoint=body["endpoint"],
        metadata=_metadata(body.get("metadata")),
        completion_window="24h",
        output_lifetime=_output_lifetime(body.get("output_expires_after")),
    )


def _metadata(given: object) -> Mapping[str, str] | None:
    if given is None:
        return None
    try:
        metadata = msgspec.convert(given, dict[str, str])
    except msgspec.ValidationError as error:
        raise RefusedError(invalid("metadata", f"Invalid metadata: {error}.", "invalid_type")) from error
    if len(metadata) > 16:
        raise RefusedError(invalid("metadata", f"Invalid metadata: at most 16 pairs, not {len(metadata)}."))
    for key, value in metadata.items():
        if len(key) > 64 or len(value) > 512:
            message = f"Invalid metadata: key '{key[:64]}' is longer than 64 characters or its value longer than 512."
            raise RefusedError(invalid("metadata", message, "string_above_max_length"))
    return metadata


def _output_lifetime(given: object) -> float | None:
    if given is None:
        return None
    if not isinstance(given, dict) or given.get("anchor") != "created_at" or given.get("seconds") not in LIFETIME:
        message = "Expected {'anchor': 'created_at', 'seconds': 3600 to 2592000}."
        raise RefusedError(invalid("output_expires_after", message))
    return float(given["seconds"])


def rendered_batch(job: Job, window: float) -> JsonObject:
    """Return the batch as OpenAI shows it."""
    times = {f"{phase}_at": int(job.at[phase]) if phase in job.at else None for phase in _TIMES}
    problems = [msgspec.structs.asdict(problem) for problem in job.problems]
    return {
        "id": job.batch_id,
        "object": "batch",
        "endpoint": job.order.endpoint,
        "model": job.model,
        "errors": {"object": "list", "data": problems} if problems else None,
        "input_file_id": job.order.input_file_id,
        "completion_window": job.order.completion_window,
        "status": job.phase,
        "output_file_id": job.output_file_id if job.is_ended else None,
        "error_file_id": job.error_file_id if job.is_ended else None,
        "created_at": int(job.created_at),
        "expires_at": int(job.created_at + window),
        **times,
        "request_counts": msgspec.structs.asdict(job.counts),
        "metadata": job.order.metadata,
        "usage": _usage(job),
    }


def _usage(job: Job) -> JsonObject | None:
    if job.phase in ("validating", "failed"):
        return None
    used = job.usage if job.is_ended and job.usage else None
    tokens = (used.input_tokens, used.cached_tokens, used.output_tokens, used.reasoning_tokens) if used else (0,) * 4
    return {
        "input_tokens": tokens[0],
        "input_tokens_details": {"cached_tokens": tokens[1]},
        "output_tokens": tokens[2],
        "output_tokens_details": {"reasoning_tokens": tokens[3]},
        "total_tokens": tokens[0] + tokens[2],
    }
