"""The lines of Bedrock's jobs: what each maker's models are asked, and what an answer says."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from pipeline.domain import Judge, Message, Output, Tokens
from pipeline.errors import ConfigError
from pipeline.providers import _claude
from pipeline.providers._faults import blames_provider, errored
from pipeline.providers._lenient import LineDecoder

_CLAUDE = re.compile(r"(?:.*[./])?anthropic\.(claude-.+?)(?:-v\d+)?(?::\d+)?")
_VERSION = "bedrock-2023-05-31"
_MODEL_FAILED = 424
_REFUSED = frozenset({"guardrail_intervened", "content_filtered"})
_TRUNCATED = frozenset({"max_tokens", "model_context_window_exceeded"})


def claude_name(model: str) -> str | None:
    """Return what Anthropic calls the model, None if it is not theirs."""
    found = _CLAUDE.fullmatch(model)
    return found[1] if found else None


def check_model(judge: Judge) -> None:
    """Raise ConfigError for what cannot be asked of the model on Bedrock."""
    if judge.answer == "json":
        raise ConfigError(f"answer json differs by model on bedrock and is not offered for {judge.model}; use tag")
    name = claude_name(judge.model)
    if name is not None:
        _claude.check_thinking(msgspec.structs.replace(judge, model=name))
    elif judge.reasoning != "default":
        raise ConfigError(f"reasoning of {judge.model} cannot be set on bedrock; leave it out")


def invocation(judge: Judge) -> str:
    """Return in whose words the model is asked."""
    return "Converse" if claude_name(judge.model) is None else "InvokeModel"


def model_input(judge: Judge, messages: Sequence[Message]) -> Mapping[str, object]:
    """Return the input of one line, in the words of the model's maker."""
    name = claude_name(judge.model)
    if name is not None:
        body = _claude.message_body(msgspec.structs.replace(judge, model=name), schema=None, messages=messages)
        del body["model"]
        return {"anthropic_version": _VERSION, **body}
    settings = {"maxTokens": judge.max_output_tokens, "temperature": judge.temperature}
    given = {field: value for field, value in settings.items() if value is not None}
    system = [{"text": message.text} for message in messages if message.role == "system"]
    spoken = [
        {"role": message.role, "content": [{"text": message.text}]} for message in messages if message.role != "system"
    ]
    body = {"system": system, "messages": spoken} if system else {"messages": spoken}
    return body | ({"inferenceConfig": given} if given else {})


class _Error(msgspec.Struct):
    code: int | str | None = msgspec.field(default=None, name="errorCode")
    message: str | None = msgspec.field(default=None, name="errorMessage")


class _Line(msgspec.Struct):
    record_id: str = msgspec.field(name="recordId")
    output: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="modelOutput")
    error: _Error | None = None


class _Thought(msgspec.Struct):
    text: str | None = None


class _Reasoning(msgspec.Struct):
    thought: _Thought | None = msgspec.field(default=None, name="reasoningText")


class _Part(msgspec.Struct):
    text: str | None = None
    reasoning: _Reasoning | None = msgspec.field(default=None, name="reasoningContent")


class _Message(msgspec.Struct):
    content: list[_Part] = []


class _Said(msgspec.Struct):
    message: _Message | None = None


class _Usage(msgspec.Struct, rename="camel"):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class _Conversed(msgspec.Struct):
    output: _Said | None = None
    stop: str | None = msgspec.field(default=None, name="stopReason")
    usage: _Usage | None = None


_lines = LineDecoder(_Line)
_conversed = LineDecoder(_Conversed)
_messages = LineDecoder(_claude.Reply)


def decode_line(line: bytes) -> Output:
    """Return what one line of an output file says."""
    row = _lines.decode(line)
    if row.error is not None or not row.output:
        return _failed(row.record_id, row.error or _Error())
    conversed = _conversed.decode(row.output)
    if conversed.output is not None:
        return _answered(row.record_id, conversed, conversed.output.message or _Message())
    return _claude.answered(row.record_id, _messages.decode(row.output))


def _failed(request_id: str, error: _Error) -> Output:
    said = str(error.code)
    code = int(said) if said.isdecimal() else 0
    reason = ": ".join(str(part)[:200] for part in (error.code, error.message) if part is not None) or "no_response"
    return errored(request_id, reason, again=code == _MODEL_FAILED or blames_provider(code))


def _answered(request_id: str, conversed: _Conversed, message: _Message) -> Output:
    texts = [part.text for part in message.content if part.text is not None]
    thoughts = [part.reasoning.thought.text for part in message.content if part.reasoning and part.reasoning.thought]
    plain = Output(
        request_id=request_id,
        status="answered",
        content="".join(texts) if texts else None,
        thoughts="\n\n".join(filter(None, thoughts)) or None,
        finish_reason=conversed.stop,
        tokens=_tokens(conversed.usage),
    )
    if conversed.stop in _REFUSED:
        return msgspec.structs.replace(plain, status="refused", reason=conversed.stop)
    if conversed.stop in _TRUNCATED:
        return msgspec.structs.replace(plain, status="truncated", reason=conversed.stop)
    return plain


def _tokens(usage: _Usage | None) -> Tokens:
    """Return the counts; Converse counts what was cached beside the input."""
    if usage is None:
        return Tokens()
    beside = (usage.cache_read_input_tokens or 0) + (usage.cache_write_input_tokens or 0)
    return Tokens(
        input=None if usage.input_tokens is None else usage.input_tokens + beside,
        cached=usage.cache_read_input_tokens,
        output=usage.output_tokens,
    )
