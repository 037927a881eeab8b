"""The lines of Bedrock's jobs: Anthropic's words for Claude, those of Converse for all others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from pipeline.simulator.documents import JsonObject, JsonValue
from pipeline.simulator.engine import Engine
from pipeline.simulator.jobs import Job, LineProblem
from pipeline.simulator.judge import Ask, Reply
from pipeline.simulator.running import Checked, Executed, Habits

_CLAUDE_STOPS = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal", "filter": "refusal"}
_CONVERSE_STOPS = {
    "stop": "end_turn", "length": "max_tokens", "refusal": "end_turn", "filter": "content_filtered",
}  # fmt: skip
_VERSION = "bedrock-2023-05-31"
_NO_RECORD = "a record must be a JSON object with recordId and modelInput"


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    record_id: str
    model_input: JsonObject


_lines = msgspec.json.Decoder(_Line)
_encoder = msgspec.json.Encoder()


class BedrockLines:
    """Reads and writes Bedrock's lines; the model is not in them but in the create call."""

    habits = Habits()

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def check(self, job: Job, path: Path) -> Checked:
        """Return where the lines lie, or why the whole job fails."""
        offsets, problems, at = [], [], 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not _is_record(line):
                    problems.append(LineProblem(code="ValidationException", message=_NO_RECORD, line=number))
                offsets.append(at)
                at += len(line)
        if not offsets:
            problems.append(LineProblem(code="ValidationException", message="The input has no records."))
        return Checked(problems=tuple(problems[:100])) if problems else Checked(offsets=offsets, model=job.order.model)

    def execute(self, job: Job, line: bytes, *, mark: str, twist: str | None) -> Executed:
        """Return what becomes of the request."""
        asked, model = _lines.decode(line), job.order.model or ""
        is_claude = "anthropic." in model
        problem = _problem(asked.model_input, is_claude=is_claude)
        if problem is not None:
            return _refused(asked, model, 400, problem)
        reply = self._engine.judge.reply(_ask(asked.model_input, model), twist)
        if reply.stop == "failed":
            return _refused(asked, model, 500, "The model failed.")
        output = _message(model, reply, mark) if is_claude else _conversed(reply)
        row = {"recordId": asked.record_id, "modelInput": asked.model_input, "modelOutput": output}
        return Executed(custom_id=asked.record_id, model=model, ok=True, line=_encoder.encode(row), reply=reply)

    def failed(self, line: bytes, *, mark: str, status: int) -> bytes:  # noqa: ARG002 - as `Lines` has it
        """Return the line of a request that met this HTTP status."""
        return _failed(_lines.decode(line), status, "The simulator was told to refuse it.")

    def unanswered(self, line: bytes, *, mark: str, why: Literal["expired", "cancelled"]) -> bytes | None:  # noqa: ARG002 - as `Lines` has it
        """Return nothing: requests a job did not get to have no line."""
        return None


def _is_record(line: bytes) -> bool:
    try:
        _lines.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def _refused(asked: _Line, model: str, status: int, message: str) -> Executed:
    made = _failed(asked, status, message)
    return Executed(custom_id=asked.record_id, model=model, ok=False, line=made, reply=None)


def _problem(given: JsonObject, *, is_claude: bool) -> str | None:
    if not isinstance(given.get("messages"), list):
        return "messages: Field required"
    if is_claude and (given.get("anthropic_version") != _VERSION or not isinstance(given.get("max_tokens"), int)):
        return f"anthropic_version must be {_VERSION} and max_tokens a number"
    if not is_claude and ("max_tokens" in given or "anthropic_version" in given):
        return "extraneous key: this model is asked in the words of Converse"
    return None


def _ask(given: JsonObject, model: str) -> Ask:
    limit = given.get("max_tokens") or (given.get("inferenceConfig") or {}).get("maxTokens")
    thinking = (given.get("thinking") or {}).get("type") in ("adaptive", "enabled")
    effort = (given.get("output_config") or {}).get("effort", "low") if thinking else "none"
    said = [given.get("system"), *(message.get("content") for message in given["messages"])]
    prompt = "\n".join(text for content in said for text in _texts(content))
    return Ask(model=model, prompt=prompt, effort=effort, max_output_tokens=limit)


def _texts(content: JsonValue) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (part["text"] for part in content or () if "text" in part)


def _message(model: str, reply: Reply, mark: str) -> JsonObject:
    thoughts = [{"type": "thinking", "thinking": reply.thoughts, "signature": "c2ltdWxhdGVk"}] if reply.thoughts else []
    return {
        "id": f"msg_bdrk_{mark}",
        "type": "message",
        "role": "assistant",
        "model": model.partition("anthropic.")[2],
        "content": [*thoughts, *([{"type": "text", "text": reply.text}] if reply.text else [])],
        "stop_reason": _CLAUDE_STOPS[reply.stop],
        "stop_sequence": None,
        "usage": {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens},
    }


def _conversed(reply: Reply) -> JsonObject:
    total = reply.input_tokens + reply.output_tokens
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": reply.text}]}},
        "stopReason": _CONVERSE_STOPS[reply.stop],
        "usage": {"inputTokens": reply.input_tokens, "outputTokens": reply.output_tokens, "totalTokens": total},
        "metrics": {"latencyMs": 400},
    }


def _failed(asked: _Line, status: int, message: str) -> bytes:
    error = {"errorCode": status, "errorMessage": message}
    return _encoder.encode({"recordId": asked.record_id, "modelInput": asked.model_input, "error": error})
