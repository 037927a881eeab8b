"""Azure OpenAI's wire: OpenAI's files and batches under `/azure/openai/v1`, with the key in a header of its own.

Odd about it: an upload is `pending` before it is `processed`; a new batch has a capitalized status, times as texts and
counts that are null; an error file is announced even if there were no errors.
"""

from datetime import UTC, datetime

from starlette.requests import Request
from starlette.routing import BaseRoute

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.files import StoredFile
from pipeline.simulator.jobs import Job
from pipeline.simulator.wires.openai.batches import Batches, rendered_batch
from pipeline.simulator.wires.openai.files import FileRoutes, rendered_file
from pipeline.simulator.wires.openai.lines import OpenAILines
from pipeline.simulator.wires.openai.live import Live
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker

WIRE = "azure"
_PREFIX = "/azure/openai/v1"
_MOST_REQUESTS = 100_000


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    speaker = OpenAISpeaker(engine, WIRE, key_of=_key)
    engine.register(WIRE, OpenAILines(engine, most_requests=_MOST_REQUESTS))

    def rendered(file: StoredFile) -> JsonObject:
        fresh = engine.now() - file.created_at < 0.001 and file.purpose == "batch"
        return rendered_file(file) | ({"status": "pending"} if fresh else {})

    return [
        *FileRoutes(speaker, rendered=rendered).routes(_PREFIX),
        *Batches(speaker, rendered=_batch).routes(_PREFIX),
        *Live(speaker).routes(_PREFIX),
    ]


def _key(request: Request) -> str:
    return request.headers.get("api-key", "")


def _batch(job: Job, window: float) -> JsonObject:
    shown = rendered_batch(job, window)
    if job.phase != "validating":
        return shown
    counts = dict.fromkeys(("total", "completed", "failed"))
    times = {name: _text(shown[name]) for name in ("created_at", "expires_at")}
    return shown | times | {"status": "Validating", "request_counts": counts}


def _text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.0000000+00:00")
