"""Groq: OpenAI's files and batches for chat completions, under a path of their own.

Odd about it: the listing takes no cursor, so that it is read as it comes; thoughts come back only if asked for,
in `message.reasoning`. Our key travels in `metadata`: the proof for an uncertain create is exact.
Limits: 100 MB a batch after the SDK's text, 50,000 requests (not verified), 24 h (up to 7 days are offered).
`GROQ_BASE_URL` is the bare address, as the SDK has it, or ends in `/openai/v1`.
"""

import functools
from collections.abc import Mapping, Sequence

import httpx

from pipeline.clock import Clock
from pipeline.domain import QUESTION, Frame, Judge, Limits, Message, Mode
from pipeline.providers import LiveCall
from pipeline.providers._asking import (
    check_effort,
    check_plain,
    compatible_body,
    line_frame,
)
from pipeline.providers._chat import decode_block, decode_line, decode_live_line
from pipeline.providers._compatible import (
    Batch,
    Dialect,
    FilesAndBatches,
    bearer,
    newest,
    order,
    provider_at,
    remote_batch,
)
from pipeline.settings import Settings

MODES: tuple[Mode, ...] = ("batch", "live")
KEYS: tuple[str, ...] = ("GROQ_API_KEY",)
LIMITS = Limits(max_requests=50_000, max_bytes=100_000_000)

decode, decode_lines, decode_live = decode_line, decode_block, decode_live_line

_HOST = "https://api.groq.com"
_PATH = "/openai/v1"
_EFFORTS = {  # a model that is not listed is sent as it is
    "openai/gpt-oss-120b": ("low", "medium", "high"),
    "openai/gpt-oss-20b": ("low", "medium", "high"),
    "qwen/qwen3.8-27b": ("none", "low", "medium", "high"),
}


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if Groq is known to refuse this judge."""
    check_plain(judge)
    check_effort(judge, _EFFORTS.get(judge.model))


def frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the request line with gaps for id and messages."""
    return line_frame(_body(judge, schema, messages))


def live_frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the body of one live call with gaps for its messages."""
    return Frame.of(_body(judge, schema, messages))


def live_call(settings: Settings, judge: Judge) -> LiveCall:  # noqa: ARG001 - every model has the same address
    """Return where live calls go."""
    return LiveCall(f"{_base(settings)}/chat/completions", bearer(settings.key(*KEYS)))


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> FilesAndBatches[Batch]:
    """Return the provider for the key and address of the environment."""
    return provider_at(_base(settings), settings.key(*KEYS), _DIALECT, clock=clock, transport=transport)


def _base(settings: Settings) -> str:
    return settings.address("GROQ_BASE_URL", _HOST).removesuffix(_PATH) + _PATH


def _body(judge: Judge, schema: Mapping[str, object] | None, messages: Sequence[Message]) -> dict[str, object]:
    body = compatible_body(judge, schema=schema, messages=messages, limit="max_completion_tokens")
    return body | ({} if judge.reasoning in {"default", "none"} else {"include_reasoning": True})


_DIALECT: Dialect[Batch] = Dialect(
    kind=Batch, remote=remote_batch, order=order, listed=functools.partial(newest, page_size=None)
)
