"""Groq's wire: OpenAI's files and batches, and chat completions with thoughts, under `/groq/openai/v1`.

Odd about it: the batch shows neither model nor usage, the listing takes no cursor and shows everything; how thoughts
come back is asked for by `include_reasoning` or by `reasoning_format`, not by both.
"""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.jobs import Job
from pipeline.simulator.judge import Reply
from pipeline.simulator.wires._compatible.lines import CompatibleLines, OpenAIRows
from pipeline.simulator.wires._compatible.live import CompatibleLive
from pipeline.simulator.wires._compatible.performing import Dialect, plain_usage
from pipeline.simulator.wires.openai.batches import Batches, rendered_batch
from pipeline.simulator.wires.openai.files import FileRoutes
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker

WIRE = "groq"
_PREFIX = "/groq/openai/v1"


def _usage(reply: Reply) -> JsonObject:
    times = {"queue_time": 0.01, "prompt_time": 0.002, "completion_time": 0.05, "total_time": 0.052}
    return plain_usage(reply) | times | {"completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens}}


_LEVELS = ("low", "medium", "high")
_DIALECT = Dialect(
    wire=WIRE,
    models=("openai/gpt-oss-120b", "openai/gpt-oss-20b", "qwen/qwen3.8-27b"),
    extras=frozenset(("include_reasoning", "reasoning_format")),
    efforts={
        "openai/gpt-oss-120b": _LEVELS,
        "openai/gpt-oss-20b": _LEVELS,
        "qwen/qwen3.8-27b": ("none", *_LEVELS),
    },
    either=("include_reasoning", "reasoning_format"),
    usage=_usage,
)


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    speaker = OpenAISpeaker(engine, WIRE)
    engine.register(WIRE, CompatibleLines(engine, _DIALECT, OpenAIRows(), addressed=True))

    async def listed(request: Request) -> Response:  # noqa: ARG001 - a route takes the request
        jobs = engine.listed_jobs(wire=WIRE)
        await run_in_threadpool(engine.poll, jobs)
        with engine.lock:
            return speaker.json(
                {"object": "list", "data": [_batch(job, engine.settings.window_seconds) for job in jobs]}
            )

    return [
        speaker.route(f"{_PREFIX}/batches", "list", listed),
        *FileRoutes(speaker).routes(_PREFIX),
        *Batches(speaker, rendered=_batch).routes(_PREFIX),
        *CompatibleLive(_DIALECT, speaker).routes(_PREFIX),
    ]


def _batch(job: Job, window: float) -> JsonObject:
    shown = rendered_batch(job, window)
    return {name: value for name, value in shown.items() if name not in ("model", "usage")}
