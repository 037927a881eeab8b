"""Any server that speaks OpenAI's chat completions (vLLM, llama.cpp, a gateway): live calls only.

Its address is `PAIRLOG_COMPATIBLE_BASE_URL`, with or without `/v1`; a key is sent only if `PAIRLOG_COMPATIBLE_API_KEY`
is set. Odd about them: thoughts come as `reasoning` or `reasoning_content`; whether a model thinks is up to its
template, so that `reasoning: none` is asked for by `chat_template_kwargs` and every other level by `reasoning_effort`.
"""

from collections.abc import Mapping, Sequence

import httpx

from pipeline.clock import Clock
from pipeline.domain import QUESTION, Frame, Judge, Message, Mode
from pipeline.errors import ConfigError
from pipeline.providers import LiveCall
from pipeline.providers._asking import check_plain, compatible_body
from pipeline.providers._chat import decode_live_line
from pipeline.providers._compatible import (
    bearer,
    check_models,
)
from pipeline.providers._http import Http
from pipeline.settings import Settings

MODES: tuple[Mode, ...] = ("live",)
KEYS: tuple[str, ...] = ("PAIRLOG_COMPATIBLE_BASE_URL",)

decode_live = decode_live_line

_ADDRESS = "PAIRLOG_COMPATIBLE_BASE_URL"
_KEY = "PAIRLOG_COMPATIBLE_API_KEY"


def check_judge(judge: Judge) -> None:
    """Raise ConfigError for an endpoint such servers are not asked by; what they refuse is not known."""
    check_plain(judge)


def live_frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the body of one live call with gaps for its messages."""
    body = compatible_body(judge, schema=schema, messages=messages)
    if judge.reasoning == "none":
        del body["reasoning_effort"]
        body["chat_template_kwargs"] = {"enable_thinking": False}
    return Frame.of(body)


def live_call(settings: Settings, judge: Judge) -> LiveCall:  # noqa: ARG001 - every model has the same address
    """Return where live calls go."""
    return LiveCall(f"{_base(settings)}/chat/completions", _headers(settings))


def check_live(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> str:
    """List the models of the server, which is free, and return how many it has."""
    http = Http(_base(settings), _headers(settings), clock, transport=transport)
    try:
        return check_models(http)
    finally:
        http.close()


def _headers(settings: Settings) -> dict[str, str]:
    return bearer(settings.key(_KEY)) if settings.is_set(_KEY) else {}


def _base(settings: Settings) -> str:
    if settings.is_set(_ADDRESS) is None:
        raise ConfigError(f"{_ADDRESS} is not set; give the address of your server, like http://127.0.0.1:8000/v1")
    return settings.address(_ADDRESS, "").removesuffix("/v1") + "/v1"
