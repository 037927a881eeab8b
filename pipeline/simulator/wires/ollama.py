"""Ollama's wire: the native chat and the list of models under `/ollama/api`, without a key.

Odd about it: an answer is streamed unless `stream` is false; a prompt longer than `num_ctx` is cut at its head
without a word; `think` is true, false or a level.
"""

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.judge import Ask, Reply
from pipeline.simulator.wires._speaking import Problem, RefusedError, iso_time
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker, decoded

WIRE = "ollama"
_MODELS = ("gpt-oss:20b", "qwen3:8b")
_DEFAULT_CONTEXT = 4096
_EFFORTS: dict[object, str] = {
    True: "medium",
    False: "none",
    None: "none",
    "low": "low",
    "medium": "medium",
    "high": "high",
}
_FIELDS = frozenset(
    (
        "model", "messages", "tools", "think", "format", "options", "keep_alive", "stream", "logprobs", "top_logprobs",
    )
)  # fmt: skip


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    speaker = OpenAISpeaker(engine, WIRE, key_of=lambda _: next(iter(engine.settings.api_keys), "none"), worded=_worded)
    chat = _Chat(speaker)
    return [
        speaker.route("/ollama/api/chat", "live", chat.answer, method="POST"),
        speaker.route("/ollama/api/tags", "poll", chat.tags),
    ]


def _worded(problem: Problem) -> JsonObject:
    return {"error": problem.message}


class _Chat:
    """The routes that answer at once."""

    def __init__(self, speaker: OpenAISpeaker) -> None:
        self._speaker = speaker
        self._engine = speaker.engine

    async def answer(self, request: Request) -> Response:
        """Answer a chat."""
        return await run_in_threadpool(self._answer, decoded(await request.body()))

    def _answer(self, body: JsonObject) -> Response:
        engine = self._engine
        ask = _ask(body, known=engine.settings.models)
        reply = engine.judge.reply(ask, engine.twist())
        if reply.stop == "failed":
            raise RefusedError(Problem(message="the model runner has stopped", status=500))
        engine.bill_live(WIRE, ask, reply)
        whole = _rendered(ask, reply, at=engine.now())
        if body.get("stream", True) is False:
            return self._speaker.json(whole)
        said = {**whole, "done": False}
        last = {**whole, "message": {"role": "assistant", "content": ""}}
        chunks = b"".join(msgspec.json.encode(chunk) + b"\n" for chunk in (said, last))
        return Response(chunks, media_type="application/x-ndjson")

    async def tags(self, request: Request) -> Response:  # noqa: ARG002 - a route takes the request
        """List the models."""
        known = self._engine.settings.models or _MODELS
        return self._speaker.json({"models": [{"name": model, "model": model, "size": 1} for model in known]})


def _ask(body: JsonObject, *, known: tuple[str, ...]) -> Ask:
    """Return what a chat asks, or refuse it."""
    model, messages, options = body.get("model"), body.get("messages"), body.get("options") or {}
    think, wish = body.get("think"), body.get("format")
    unknown = sorted(set(body) - _FIELDS)
    if unknown:
        raise RefusedError(Problem(message=f"json: unknown field {unknown[0]!r}"))
    if not isinstance(model, str) or not isinstance(messages, list) or not isinstance(options, dict):
        raise RefusedError(Problem(message="model and messages are required"))
    if known and model not in known:
        raise RefusedError(Problem(message=f"model {model!r} not found", status=404))
    if think not in _EFFORTS or (model.startswith("gpt-oss") and isinstance(think, bool)):
        raise RefusedError(Problem(message=f"think value {think!r} is not supported by {model}"))
    prompt = "\n".join(str(message.get("content") or "") for message in messages)
    return Ask(
        model=model,
        prompt=prompt[-4 * options.get("num_ctx", _DEFAULT_CONTEXT) :],
        schema=wish if isinstance(wish, dict) else None,
        effort=_EFFORTS[think],
        max_output_tokens=options.get("num_predict"),
    )


def _rendered(ask: Ask, reply: Reply, *, at: float) -> JsonObject:
    thinking = {"thinking": reply.thoughts} if reply.thoughts else {}
    return {
        "model": ask.model,
        "created_at": iso_time(at),
        "message": {"role": "assistant", "content": reply.text, **thinking},
        "done": True,
        "done_reason": "length" if reply.stop == "length" else "stop",
        "total_duration": 1_200_000_000,
        "load_duration": 50_000_000,
        "prompt_eval_count": reply.input_tokens,
        "prompt_eval_duration": 90_000_000,
        "eval_count": reply.output_tokens,
        "eval_duration": 900_000_000,
    }
