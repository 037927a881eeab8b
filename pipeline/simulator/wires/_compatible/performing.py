"""Carries out one chat completion in the dialect of a provider that took OpenAI's API over."""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.judge import Reply
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.openai import chat
from pipeline.simulator.wires.openai.performing import Done, model_problem
from pipeline.simulator.wires.openai.speaking import invalid, struck


def plain_usage(reply: Reply) -> JsonObject:
    """Return the three counts everybody has."""
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider knows beyond OpenAI's chat completions.

    `extras` are fields of a request OpenAI would refuse, `efforts` the reasoning levels of models that refuse others;
    `either` are fields that exclude one another; `thoughts` says whether they come beside the content or as its chunks.
    """

    wire: str
    models: tuple[str, ...]
    extras: frozenset[str] = frozenset()
    efforts: Mapping[str, tuple[str, ...]] = {}
    either: tuple[str, ...] = ()
    thoughts: Literal["beside", "chunks"] = "beside"
    usage: Callable[[Reply], JsonObject] = plain_usage
    most_requests: int = 50_000
    most_bytes: int = 100_000_000


def perform(engine: Engine, dialect: Dialect, body: JsonObject, *, mark: str, twist: str | None) -> Done | Problem:
    """Return the answer to the request, or why it is refused."""
    known = {name: value for name, value in body.items() if name not in dialect.extras}
    problem = model_problem(engine, body) or _effort_problem(dialect, body) or _either_problem(dialect, body)
    problem = problem or chat.problem(known)
    if problem is not None:
        return problem
    ask = chat.ask(body)
    reply = engine.judge.reply(ask, twist)
    if reply.stop == "failed":
        return struck(500)
    answer = chat.answer(body, reply, mark=mark, at=int(engine.now())) | {"usage": dialect.usage(reply)}
    del answer["service_tier"], answer["choices"][0]["message"]["annotations"]
    _think_aloud(dialect, answer["choices"][0]["message"], reply)
    return Done(body=answer, ask=ask, reply=reply)


def _think_aloud(dialect: Dialect, message: JsonObject, reply: Reply) -> None:
    """Put the thoughts where the provider puts them."""
    if not reply.thoughts:
        return
    if dialect.thoughts == "beside":
        message["reasoning"] = reply.thoughts
    else:
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": reply.thoughts}]}
        message["content"] = [thinking, {"type": "text", "text": message["content"] or ""}]


def _effort_problem(dialect: Dialect, body: JsonObject) -> Problem | None:
    asked, known = body.get("reasoning_effort"), dialect.efforts.get(body["model"])
    if asked is None or known is None or asked in known:
        return None
    return invalid("reasoning_effort", f"reasoning_effort must be one of {', '.join(known)}.")


def _either_problem(dialect: Dialect, body: JsonObject) -> Problem | None:
    if not dialect.either or any(body.get(name) is None for name in dialect.either):
        return None
    return invalid(dialect.either[0], f"only one of {' and '.join(dialect.either)} can be given.")
