"""Ollama: live calls to a server of one's own, in its native wire.

Odd about it: `stream` is on unless it is switched off; a context that is too small cuts the prompt without a word, so
that it is always set here (`num_ctx`); `prompt_eval_count` may be absent when the prompt was cached; output is counted
with thoughts; errors are bare texts. There are no batches and, on one's own machine, no keys.
`OLLAMA_HOST` comes with or without scheme and port. A hosted server (https) gets `OLLAMA_API_KEY` if that is set.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import QUESTION, Frame, Judge, Message, Mode, Output, Tokens
from pipeline.errors import ConfigError
from pipeline.providers import LiveCall
from pipeline.providers._asking import check_effort, check_plain
from pipeline.providers._chat import said
from pipeline.providers._compatible import (
    bearer,
    moment,
)
from pipeline.providers._faults import blames_provider, errored
from pipeline.providers._http import Http
from pipeline.settings import Settings, checked_address
from pipeline.wording import counted

MODES: tuple[Mode, ...] = ("live",)
KEYS: tuple[str, ...] = ("OLLAMA_HOST",)

CONTEXT_TOKENS = 32_768
_HOST = "OLLAMA_HOST"
_PORT = 11434
_THINK: dict[str, bool | str] = {"none": False, "on": True, "low": "low", "medium": "medium", "high": "high"}
_LEVELS_ONLY = ("gpt-oss",)


class _Message(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None


class _Body(msgspec.Struct):
    model: str | None = None
    created_at: str | None = None
    message: _Message | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: object = None


class _Line(msgspec.Struct):
    request_id: str
    status: int
    body: _Body | str | None = None


class _Tags(msgspec.Struct):
    models: list[object]


_lines = msgspec.json.Decoder(_Line)


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if Ollama is known to refuse this judge."""
    check_plain(judge)
    known = [level for level in _THINK if not judge.model.startswith(_LEVELS_ONLY) or isinstance(_THINK[level], str)]
    check_effort(judge, known)


def live_frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the body of one live call with gaps for its messages."""
    options: dict[str, object] = {"num_ctx": CONTEXT_TOKENS}
    if judge.max_output_tokens is not None:
        options["num_predict"] = judge.max_output_tokens
    if judge.temperature is not None:
        options["temperature"] = judge.temperature
    body: dict[str, object] = {
        "model": judge.model,
        "messages": said(messages),
        "stream": False,
        "options": options,
    }
    if judge.reasoning != "default":
        body["think"] = _THINK[judge.reasoning]
    return Frame.of(body if schema is None else body | {"format": schema})


def live_call(settings: Settings, judge: Judge) -> LiveCall:  # noqa: ARG001 - every model has the same address
    """Return where live calls go."""
    base = _base(settings)
    return LiveCall(f"{base}/api/chat", _headers(settings, base))


def decode_live(line: bytes) -> Output:
    """Return what one live answer says."""
    row = _lines.decode(line)
    body = row.body if isinstance(row.body, _Body) else _Body()
    if not 200 <= row.status < 300 or body.message is None:
        said = body.error if isinstance(body.error, str) else None
        reason = said or (f"http_{row.status}" if row.status >= 300 else "no_answer")
        return errored(row.request_id, reason[:200], again=blames_provider(row.status))
    made = moment(body.created_at)
    cut = body.done_reason == "length"
    return Output(
        request_id=row.request_id,
        status="truncated" if cut else "answered",
        content=body.message.content,
        thoughts=body.message.thinking or None,
        finish_reason=body.done_reason,
        returned_model=body.model,
        tokens=Tokens(input=body.prompt_eval_count, output=body.eval_count),
        reason="length" if cut else None,
        judged_at=made.timestamp() if made else None,
    )


def check_live(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> str:
    """List the models of the server, which is free, and return how many it has."""
    base = _base(settings)
    http = Http(base, _headers(settings, base), clock, transport=transport)
    try:
        return counted(len(http.get("/api/tags", _Tags).models), "model")
    finally:
        http.close()


def _headers(settings: Settings, base: str) -> dict[str, str]:
    hosted = base.startswith("https://") and settings.is_set("OLLAMA_API_KEY")
    return bearer(settings.key("OLLAMA_API_KEY")) if hosted else {}


def _base(settings: Settings) -> str:
    """Return the server's address; one that stands for every interface of this machine means this machine."""
    given = (settings.value(_HOST) or "127.0.0.1").strip()
    bare = "://" not in given
    parts = urlsplit(f"http://{given}" if bare else given)
    try:
        port = parts.port or (_PORT if bare else None)
    except ValueError as error:
        raise ConfigError(f"{_HOST} has no port that can be read; give one like 127.0.0.1:{_PORT}") from error
    host = "127.0.0.1" if parts.hostname in {None, "", "0.0.0.0", "::"} else str(parts.hostname)  # noqa: S104 - refused
    shown = f"[{host}]" if ":" in host else host
    return checked_address(f"{parts.scheme}://{shown}{f':{port}' if port else ''}{parts.path}", name=_HOST)
