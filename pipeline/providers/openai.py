"""OpenAI: an input file, then a batch on it, for chat completions or responses.

Odd about it: create accepts a file that does not exist and fails minutes later; one bad line fails the whole batch
(nothing is billed, the lines are named); `completed` may come without an output file, and every end but `failed`
may carry paid answers. Our key travels in `metadata`, which listing shows: the proof for an uncertain create is exact.
Limits: 50,000 requests and 200 MB a batch, 24 h, files kept 30 days.
"""

from collections.abc import Mapping, Sequence

import httpx

from pipeline.clock import Clock
from pipeline.domain import QUESTION, Frame, Judge, Limits, Message, Mode
from pipeline.providers import LiveCall
from pipeline.providers._asking import (
    check_effort,
    check_endpoint,
    endpoint_body,
    endpoint_frame,
    endpoint_path,
)
from pipeline.providers._chat import decode_block, decode_line, decode_live_line
from pipeline.providers._compatible import (
    Batch,
    Dialect,
    FilesAndBatches,
    bearer,
    newest,
    order_at_endpoint,
    provider_at,
    remote_batch,
)
from pipeline.settings import Settings

MODES: tuple[Mode, ...] = ("batch", "live")
KEYS: tuple[str, ...] = ("OPENAI_API_KEY",)
LIMITS = Limits(max_requests=50_000, max_bytes=200_000_000)

frame = endpoint_frame
decode, decode_lines, decode_live = decode_line, decode_block, decode_live_line

_EFFORTS = {  # known to be refused elsewhere; a model that is not listed is sent as it is
    "gpt-6-astra": ("low", "medium", "high", "xhigh", "max"),
    "gpt-6.1-sol": ("low", "medium", "high", "xhigh", "max"),
    "gpt-6-sol": ("none", "low", "medium", "high", "xhigh", "max"),
    "gpt-6-luna": ("none", "low", "medium", "high", "xhigh", "max"),
    "gpt-5.4": ("none", "low", "medium", "high", "xhigh"),
    "gpt-5.1": ("none", "low", "medium", "high"),
    "gpt-5": ("minimal", "low", "medium", "high"),
    "gpt-5-mini": ("minimal", "low", "medium", "high"),
    "gpt-5-nano": ("minimal", "low", "medium", "high"),
}
MODELS = tuple(_EFFORTS)
_BASE = "https://api.openai.com/v1"


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if OpenAI is known to refuse this judge."""
    check_endpoint(judge)
    check_effort(judge, _EFFORTS.get(judge.model))


def live_frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the body of one live call with gaps for its messages."""
    return Frame.of(endpoint_body(judge, schema=schema, messages=messages))


def live_call(settings: Settings, judge: Judge) -> LiveCall:
    """Return where live calls go."""
    base = settings.address("OPENAI_BASE_URL", _BASE).removesuffix("/v1")
    return LiveCall(base + endpoint_path(judge), bearer(settings.key(*KEYS)))


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> FilesAndBatches[Batch]:
    """Return the provider for the key and address of the environment."""
    base = settings.address("OPENAI_BASE_URL", _BASE)
    return provider_at(base, settings.key(*KEYS), _DIALECT, clock=clock, transport=transport)


_DIALECT: Dialect[Batch] = Dialect(kind=Batch, remote=remote_batch, order=order_at_endpoint, listed=newest)
