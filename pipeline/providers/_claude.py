"""Claude's words: how each family of models is asked to think, the body of a message, and what an answer says."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from pipeline.domain import Judge, Message, Output, Tokens
from pipeline.errors import ConfigError
from pipeline.providers._faults import blames_provider, errored

OLD_VERSION = "2023-06-01"
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_ROOM = {"none": 0, "low": 4_096, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 49_152}
_ANSWER_TOKENS = 4_096
_SENT_AGAIN = frozenset({"api_error", "overloaded_error", "timeout_error", "rate_limit_error"})


class _Family(msgspec.Struct, frozen=True, kw_only=True):
    """What models of one family accept.

    `off` is the `thinking` type that stops them from thinking, None where nothing does; `default` the effort they run
    at when nothing is asked; `budget` says that they take a budget in place of an effort.
    """

    names: str
    off: str | None = "disabled"
    default: str = "high"
    budget: bool = False
    temperature: bool = False


_FAMILIES = (  # what each is known to refuse
    _Family(names=r"claude-(fable|mythos)-5.*", off=None),
    _Family(names=r"claude-opus-5-5.*", off=None, default="medium"),
    _Family(names=r"claude-sonnet-5-5.*", off="between_tools"),
    _Family(names=r"claude-haiku-5-5.*", default="medium"),
    _Family(names=r"claude-(opus|sonnet)-5(-\d{8})?"),
    _Family(names=r"claude-opus-4-[78].*", default="none"),
    _Family(names=r"claude-(opus|sonnet)-4-6.*", default="none", temperature=True),
    _Family(names=r"claude-(haiku|sonnet|opus)-4-5.*", default="none", budget=True, temperature=True),
    _Family(names=r"claude-3.*", default="none", budget=True, temperature=True),
)
_UNKNOWN = _Family(names=r".*", temperature=True)


def _family(model: str) -> _Family:
    return next((family for family in _FAMILIES if re.fullmatch(family.names, model)), _UNKNOWN)


def check_thinking(judge: Judge) -> None:
    """Raise ConfigError if Claude is known to refuse this judge's reasoning, temperature or room."""
    family, level = _family(judge.model), judge.reasoning
    if level not in {"default", "none", *_EFFORTS}:
        raise ConfigError(f"reasoning {level!r} is unknown to {judge.model}; it takes none, {', '.join(_EFFORTS)}")
    if level == "none" and family.off is None:
        raise ConfigError(f"reasoning 'none' is refused by {judge.model}, which always thinks; the least is low")
    if judge.temperature is not None and not family.temperature:
        raise ConfigError(f"temperature is refused by {judge.model}; leave it out")
    if judge.temperature is not None and level not in {"none", "default"}:
        raise ConfigError(f"temperature is refused by {judge.model} with reasoning {level}; leave one of them out")
    _check_room(judge, family)


def _check_room(judge: Judge, family: _Family) -> None:
    room = _ROOM.get(judge.reasoning, 0) if family.budget else 0
    if judge.max_output_tokens is not None and judge.max_output_tokens <= room:
        raise ConfigError(
            f"max_output_tokens {judge.max_output_tokens} of {judge.model} leaves no room for an answer: thinking at "
            f"{judge.reasoning} takes {room}; give more, or a lower reasoning"
        )


def message_body(
    judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message]
) -> dict[str, object]:
    """Return the body of a message; what the system says stands beside the messages."""
    system = [message.text for message in messages if message.role == "system"]
    spoken = [{"role": message.role, "content": message.text} for message in messages if message.role != "system"]
    body: dict[str, object] = {
        "model": judge.model,
        "max_tokens": _max_tokens(judge),
        **({"system": system[0]} if system else {}),
        "messages": spoken,
    }
    thinking, output = _thinking(judge), _output_config(judge, schema)
    if thinking:
        body["thinking"] = thinking
    if output:
        body["output_config"] = output
    if judge.temperature is not None:
        body["temperature"] = judge.temperature
    return body


def _max_tokens(judge: Judge) -> int:
    """Return the limit, which Claude demands: what was asked for, or an answer's length plus room to think.

    A model nobody has listed yet is taken to think as much as the newest do.
    """
    if judge.max_output_tokens is not None:
        return judge.max_output_tokens
    level = _family(judge.model).default if judge.reasoning == "default" else judge.reasoning
    return _ANSWER_TOKENS + _ROOM[level]


def _thinking(judge: Judge) -> dict[str, object] | None:
    """Return how to ask for thoughts; `summarized` because newer models else send them empty."""
    family = _family(judge.model)
    if judge.reasoning == "default":
        return None
    if judge.reasoning == "none":
        return {"type": family.off}
    if family.budget:
        return {"type": "enabled", "budget_tokens": _ROOM[judge.reasoning], "display": "summarized"}
    return {"type": "adaptive", "display": "summarized"}


def _output_config(judge: Judge, schema: Mapping[str, object] | None) -> dict[str, object]:
    config: dict[str, object] = {}
    if judge.reasoning in _EFFORTS and not _family(judge.model).budget:
        config["effort"] = judge.reasoning
    if schema is not None:
        config["format"] = {"type": "json_schema", "schema": schema}
    return config


class _Details(msgspec.Struct):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: _Details | None = None


class _Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None


class _StopDetails(msgspec.Struct):
    category: str | None = None


class Problem(msgspec.Struct):
    """An error; the kind stands one level deeper than one expects."""

    type: str | None = None
    message: str | None = None
    error: "Problem | None" = None


class Reply(msgspec.Struct):
    """A message, or the error that came in its place: only what is read of each."""

    model: str | None = None
    content: list[_Block] | None = None
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None
    usage: _Usage | None = None
    error: Problem | None = None


def answered(request_id: str, message: Reply | None) -> Output:
    """Return what a message says; refusals and cut answers come as success."""
    if message is None or message.content is None:
        return errored(request_id, "no_answer")
    texts = [block.text for block in message.content if block.type == "text" and block.text is not None]
    thoughts = [block.thinking for block in message.content if block.type == "thinking" and block.thinking]
    plain = Output(
        request_id=request_id,
        status="answered",
        content="".join(texts) if texts else None,
        thoughts="\n\n".join(thoughts) or None,
        finish_reason=message.stop_reason,
        returned_model=message.model,
        tokens=_tokens(message.usage),
    )
    if message.stop_reason == "refusal":
        category = message.stop_details.category if message.stop_details else None
        return msgspec.structs.replace(
            plain, status="refused", reason=f"refusal: {category}" if category else "refusal"
        )
    if message.stop_reason in {"max_tokens", "model_context_window_exceeded"}:
        return msgspec.structs.replace(plain, status="truncated", reason=message.stop_reason)
    return plain


def failed(request_id: str, problem: Problem | None, *, status: int | None = None) -> Output:
    """Return what an error says; only faults of the provider's own are worth another try."""
    inner = (problem.error or problem) if problem else None
    kind = (inner.type if inner else None) or (f"http_{status}" if status else "errored")
    return errored(request_id, kind[:200], again=kind in _SENT_AGAIN or blames_provider(status or 0))


def _tokens(usage: _Usage | None) -> Tokens:
    """Return the counts; `input_tokens` alone leaves out what was cached."""
    if usage is None:
        return Tokens()
    cached, stored = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    return Tokens(
        input=None if usage.input_tokens is None else usage.input_tokens + (cached or 0) + (stored or 0),
        cached=cached,
        output=usage.output_tokens,
        reasoning=usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else None,
    )
