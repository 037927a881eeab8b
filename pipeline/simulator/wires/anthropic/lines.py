"""The lines of Anthropic's batches: the requests of a create call, and the results they become."""

from pathlib import Path
from typing import Literal

import msgspec

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.jobs import Job
from pipeline.simulator.judge import Ask, Reply
from pipeline.simulator.running import Checked, Executed, Habits
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.anthropic import messages
from pipeline.simulator.wires.anthropic.speaking import error_body, invalid, kind_of

_UNANSWERED = {"expired": "expired", "cancelled": "canceled"}


class _Line(msgspec.Struct, frozen=True):
    """A request as it lies on disk, with the version of the call that brought it."""

    version: str
    custom_id: str
    params: JsonObject


_lines = msgspec.json.Decoder(_Line)
_encoder = msgspec.json.Encoder()


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was executed: the message, and what it rests on."""

    message: JsonObject
    ask: Ask
    reply: Reply


def perform(
    engine: Engine, params: JsonObject, *, version: str, mark: str, twist: str | None, tier: str
) -> Done | Problem:
    """Return the answer to a request, live or from a batch, or why it is refused."""
    problem = messages.problem(params, version=version) or _model_problem(engine, params["model"])
    if problem is not None:
        return problem
    ask = messages.ask(params)
    reply = engine.judge.reply(ask, twist)
    if reply.stop == "failed":
        return Problem(status=500, kind="api_error", message="Internal server error")
    return Done(message=messages.answer(params, reply, mark=mark, tier=tier), ask=ask, reply=reply)


def _model_problem(engine: Engine, model: str) -> Problem | None:
    if engine.settings.models and model not in engine.settings.models:
        return Problem(status=404, kind="not_found_error", message=f"model: {model}")
    return None


class AnthropicLines:
    """Reads and writes Anthropic's lines; a create call checked them, so that no batch fails whole."""

    habits = Habits(one_file=True, fails_whole=False)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def check(self, job: Job, path: Path) -> Checked:  # noqa: ARG002 - as `Lines` has it
        """Return where the lines lie."""
        offsets: list[int] = []
        at = 0
        with path.open("rb") as file:
            for line in file:
                offsets.append(at)
                at += len(line)
        return Checked(offsets=offsets)

    def execute(self, job: Job, line: bytes, *, mark: str, twist: str | None) -> Executed:  # noqa: ARG002 - as `Lines` has it
        """Return what becomes of the request."""
        asked = _lines.decode(line)
        model = str(asked.params.get("model"))
        done = perform(self._engine, asked.params, version=asked.version, mark=mark, twist=twist, tier="batch")
        if isinstance(done, Problem):
            written = _errored(asked.custom_id, done, mark)
            return Executed(custom_id=asked.custom_id, model=model, ok=False, line=written, reply=None)
        written = _written(asked.custom_id, {"type": "succeeded", "message": done.message})
        return Executed(custom_id=asked.custom_id, model=model, ok=True, line=written, reply=done.reply)

    def failed(self, line: bytes, *, mark: str, status: int) -> bytes:
        """Return the result of a request that met this HTTP status."""
        message = "The simulator was told to refuse it."
        problem = invalid(message) if status == 400 else Problem(status=status, kind=kind_of(status), message=message)
        return _errored(_lines.decode(line).custom_id, problem, mark)

    def unanswered(self, line: bytes, *, mark: str, why: Literal["expired", "cancelled"]) -> bytes:  # noqa: ARG002 - as `Lines` has it
        """Return the result of a request the batch did not get to."""
        return _written(_lines.decode(line).custom_id, {"type": _UNANSWERED[why]})


def _errored(custom_id: str, problem: Problem, mark: str) -> bytes:
    return _written(custom_id, {"type": "errored", "error": error_body(problem, request_id=f"req_{mark}")})


def _written(custom_id: str, result: JsonObject) -> bytes:
    return _encoder.encode({"custom_id": custom_id, "result": result})
