"""Gemini's words, the same on the Developer API and on Vertex: how models think, request bodies, answers, states."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from pipeline.domain import Judge, Message, Output, Tokens
from pipeline.errors import ConfigError
from pipeline.events import End, Fault, LineFault
from pipeline.providers._faults import errored

_ALL = ("minimal", "low", "medium", "high")
_UPPER = ("low", "medium", "high")
_BUDGETS = {"minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}
_TRUNCATED = frozenset({"MAX_TOKENS", "CONTINUATION"})
_FILTERED = frozenset({"SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION", "IMAGE_SAFETY"})
_RPC = {
    1: "CANCELLED", 2: "UNKNOWN", 3: "INVALID_ARGUMENT", 4: "DEADLINE_EXCEEDED", 5: "NOT_FOUND",
    7: "PERMISSION_DENIED", 8: "RESOURCE_EXHAUSTED", 9: "FAILED_PRECONDITION", 10: "ABORTED", 13: "INTERNAL",
    14: "UNAVAILABLE", 16: "UNAUTHENTICATED",
}  # fmt: skip
_HTTP = {400: 3, 401: 16, 403: 7, 404: 5, 408: 4, 409: 10, 429: 8, 499: 1, 500: 13, 502: 14, 503: 14, 504: 4}
_SENT_AGAIN = frozenset({4, 8, 10, 13, 14})
_CONTENT = frozenset({3, 6, 9, 11, 12, 15})
_ENDS: dict[str, End] = {
    "succeeded": "completed",
    "partially_succeeded": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
}


class _Family(msgspec.Struct, frozen=True, kw_only=True):
    """Which levels models of one family know; `budget` says that they take a number of tokens instead."""

    names: str
    levels: tuple[str, ...] = _ALL
    budget: bool = False
    off: bool = True
    temperature: bool = True


_FAMILIES = (  # what each is known to refuse; a model that is not listed is sent as it is
    _Family(names=r"gemini-4-argon.*", levels=_UPPER, temperature=False),
    _Family(names=r"gemini-3\.[78]-flash.*", levels=_UPPER, temperature=False),
    _Family(names=r"gemini-3\.6-flash.*", temperature=False),
    _Family(names=r"gemini-3\.5-flash-lite.*", temperature=False),
    _Family(names=r"gemini-3-flash.*"),
    _Family(names=r"gemini-3\.1-pro.*", levels=_UPPER),
    _Family(names=r"gemini-2\.5-pro.*", budget=True, off=False),
    _Family(names=r"gemini-2\.5-.*", budget=True),
)


def _family(model: str) -> _Family | None:
    name = model.rpartition("/")[2]
    return next((family for family in _FAMILIES if re.fullmatch(family.names, name)), None)


def check_thinking(judge: Judge) -> None:
    """Raise ConfigError if Gemini is known to refuse or to ignore this judge's settings."""
    family, level = _family(judge.model), judge.reasoning
    if family is None:
        return
    if level not in {"default", "none", *family.levels}:
        levels = ", ".join(family.levels)
        raise ConfigError(f"reasoning {level!r} is refused by {judge.model}; it takes none, {levels}")
    if level == "none" and not family.off:
        raise ConfigError(f"reasoning 'none' is refused by {judge.model}, which always thinks; the least is minimal")
    if judge.temperature is not None and not family.temperature:
        raise ConfigError(f"temperature is ignored by {judge.model}; leave it out")


def content_body(
    judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message]
) -> dict[str, object]:
    """Return the body of a request; the model is called that, and the system's words stand apart."""
    config: dict[str, object] = {}
    if judge.max_output_tokens is not None:
        config["maxOutputTokens"] = judge.max_output_tokens
    if judge.temperature is not None:
        config["temperature"] = judge.temperature
    if schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    if judge.reasoning != "default":
        config["thinkingConfig"] = _thinking(judge)
    system = [{"parts": [{"text": message.text}]} for message in messages if message.role == "system"]
    body: dict[str, object] = {
        **({"systemInstruction": system[0]} if system else {}),
        "contents": [
            {"role": "user" if message.role == "user" else "model", "parts": [{"text": message.text}]}
            for message in messages
            if message.role != "system"
        ],
    }
    return body | ({"generationConfig": config} if config else {})


def _thinking(judge: Judge) -> dict[str, object]:
    """Return how to ask for thoughts; "none" is the lowest level where thinking cannot be turned off."""
    family = _family(judge.model) or _Family(names="")
    if family.budget:
        asked: dict[str, object] = {"thinkingBudget": _BUDGETS.get(judge.reasoning, 0)}
    else:
        asked = {"thinkingLevel": (family.levels[0] if judge.reasoning == "none" else judge.reasoning).upper()}
    return asked | ({} if judge.reasoning == "none" else {"includeThoughts": True})


class RpcError(msgspec.Struct):
    """An error of Google's: a number of google.rpc or of HTTP, and words."""

    code: object = None
    message: str | None = None
    status: str | None = None

    @property
    def number(self) -> int:
        """The number, 0 if there is none: who stands between may give a word of his own."""
        return self.code if isinstance(self.code, int) else 0


class _Part(msgspec.Struct):
    text: str | None = None
    thought: bool | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class Content(msgspec.Struct, rename="camel"):
    """An answer, or the error that came in its place: only what is read of each."""

    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str | None = None
    create_time: str | None = None
    error: RpcError | None = None


def answered(request_id: str, content: Content | None) -> Output:
    """Return what an answer says; blocks and cut answers come as success, a blocked prompt without a candidate."""
    if content is None or content.error is not None:
        return failed(request_id, content.error if content else None)
    candidate = content.candidates[0] if content.candidates else None
    plain = Output(
        request_id=request_id,
        status="answered",
        content=_text(candidate, thought=False),
        thoughts=_text(candidate, thought=True),
        finish_reason=candidate.finish_reason if candidate else None,
        returned_model=content.model_version,
        tokens=_tokens(content.usage_metadata),
        judged_at=moment_seconds(content.create_time),
    )
    if candidate is None:
        blocked = content.prompt_feedback.block_reason if content.prompt_feedback else None
        if blocked:
            return msgspec.structs.replace(plain, status="refused", reason=f"prompt blocked: {blocked}")
        return msgspec.structs.replace(plain, status="errored", reason="no_answer")
    if candidate.finish_reason in _FILTERED:
        return msgspec.structs.replace(plain, status="refused", reason=candidate.finish_reason)
    if candidate.finish_reason in _TRUNCATED:
        return msgspec.structs.replace(plain, status="truncated", reason=candidate.finish_reason)
    return plain


def failed(request_id: str, error: RpcError | None, *, status: int | None = None) -> Output:
    """Return what an error says; only faults of the provider's own are worth another try."""
    if error is None and status is None:
        return errored(request_id, "no_answer")
    given = (error.number if error else 0) or status or 0
    code = _HTTP.get(given, given)
    reason = (error.status if error else None) or _RPC.get(code) or (error.message if error else None)
    if code == 1:
        return Output(request_id=request_id, status="cancelled", reason=reason)
    return errored(request_id, (reason or f"code_{given}")[:200], again=code in _SENT_AGAIN or given >= 500)


def _text(candidate: _Candidate | None, *, thought: bool) -> str | None:
    parts = (candidate.content.parts if candidate and candidate.content else None) or []
    texts = [part.text for part in parts if bool(part.thought) is thought and part.text is not None]
    return "".join(texts) if texts else None


def _tokens(usage: _Usage | None) -> Tokens:
    """Return the counts; a count of zero is left out on the wire, and thoughts are counted apart."""
    if usage is None:
        return Tokens()
    thoughts = usage.thoughts_token_count or 0
    return Tokens(
        input=usage.prompt_token_count or 0,
        cached=usage.cached_content_token_count or 0,
        output=(usage.candidates_token_count or 0) + thoughts,
        reasoning=thoughts,
    )


def plain_state(state: str) -> str:
    """Return the state without its prefix, which is `BATCH_STATE_` or `JOB_STATE_`, in small letters."""
    return state.rpartition("STATE_")[2].lower()


def end_of(state: str) -> End | None:
    """Return how a batch in this plain state ended; None if it goes on, also for a word nobody has seen yet."""
    return _ENDS.get(state)


def batch_faults(error: RpcError | None) -> tuple[LineFault, ...]:
    """Return why a batch failed whole."""
    if error is None:
        return ()
    code = _HTTP.get(error.number, error.number)
    words = [error.status or _RPC.get(code), error.message]
    reason = ": ".join(word[:300] for word in words if word) or "failed without a reason"
    return (LineFault(line=None, reason=reason),)


def batch_fault(error: RpcError | None) -> Fault | None:
    """Tell a full queue, a provider's own fault or a missing file, which our lines cannot help, from wrong lines."""
    given = error.number if error else 0
    code = _HTTP.get(given, given)
    if code in {7, 16}:
        return "account"
    return None if code in _CONTENT else "rate"


def whole(value: object) -> int:
    """Return a count, which comes as a string, or 0 if it cannot be read: counts are only for people."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 19 else 0


def moment(value: str | None) -> datetime | None:
    """Return a time as Google writes it, or None."""
    try:
        made = datetime.fromisoformat(value or "")
    except ValueError:
        return None
    return made if made.tzinfo else None


def moment_seconds(value: str | None) -> float | None:
    """Return the same as seconds since 1970."""
    made = moment(value)
    return made.timestamp() if made else None
