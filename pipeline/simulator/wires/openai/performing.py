"""Carries out one request, live or from a batch: refuse it, or let the judge reply."""

import msgspec

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.judge import Ask, Reply
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.openai import chat, responses
from pipeline.simulator.wires.openai.speaking import invalid, missing, struck

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
_SPOKEN = {CHAT: chat, RESPONSES: responses}


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was executed: the body of the answer, and what it rests on."""

    body: JsonObject
    ask: Ask
    reply: Reply

    @property
    def is_billed(self) -> bool:
        """Whether it costs anything: a failure of the model does not."""
        return self.reply.stop != "failed"


def perform(engine: Engine, url: str, body: JsonObject, *, mark: str, twist: str | None) -> Done | Problem:
    """Return the answer to the request, or why it is refused."""
    speech = _SPOKEN.get(url)
    if speech is None:
        return invalid("url", f"The simulator does not speak {url}; use {CHAT} or {RESPONSES}.")
    problem = model_problem(engine, body) or speech.problem(body)
    if problem is not None:
        return problem
    ask = speech.ask(body)
    reply = engine.judge.reply(ask, twist)
    if reply.stop == "failed" and url == CHAT:
        return struck(500)
    return Done(body=speech.answer(body, reply, mark=mark, at=int(engine.now())), ask=ask, reply=reply)


def model_problem(engine: Engine, body: JsonObject) -> Problem | None:
    """Return why the model cannot be asked, if so."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        return missing("model")
    if engine.settings.models and model not in engine.settings.models:
        message = f"The model '{model}' does not exist or you do not have access to it."
        return Problem(message=message, status=404, param="model", code="model_not_found")
    return None
