"""OpenAI: an input file, then a batch on it, for chat completions or responses.

Odd about it: create accepts a file that does not exist and fails minutes later; one bad line fails the whole batch
(nothing is billed, the lines are named); `completed` may come without an output file, and every end but `failed`
may carry paid answers. Our key travels in `metadata`, which listing shows: the proof for an uncertain create is exact.
Limits: 50,000 requests and 200 MB a batch, 24 h, files kept 30 days.
"""

from collections.abc import Mapping, Sequence

import httpx

from pipeline.clock import Clock
from pipeline.domain import QUESTION, Frame, Judge, Limits, Message, Mode, Output
from pipeline.errors import ConfigError
from pipeline.providers import LiveCall, Submission
from pipeline.providers._chat import chat_body, decode_block, decode_line, decode_live_line, responses_body
from pipeline.providers._compatible import (
    CHAT,
    Batch,
    Dialect,
    FilesAndBatches,
    line_frame,
    newest,
    order,
    remote_batch,
)
from pipeline.providers._http import Http, fingerprint
from pipeline.settings import Settings

MODES: tuple[Mode, ...] = ("batch", "live")
KEYS: tuple[str, ...] = ("OPENAI_API_KEY",)
LIMITS = Limits(max_requests=50_000, max_bytes=200_000_000)

_EFFORTS = {  # known to be refused elsewhere; a model that is not listed is sent as it is
    "gpt-6-astra": {"low", "medium", "high", "xhigh", "max"},
    "gpt-6.1-sol": {"low", "medium", "high", "xhigh", "max"},
    "gpt-6-sol": {"none", "low", "medium", "high", "xhigh", "max"},
    "gpt-6-luna": {"none", "low", "medium", "high", "xhigh", "max"},
    "gpt-5.4": {"none", "low", "medium", "high", "xhigh"},
    "gpt-5.1": {"none", "low", "medium", "high"},
    "gpt-5": {"minimal", "low", "medium", "high"},
    "gpt-5-mini": {"minimal", "low", "medium", "high"},
    "gpt-5-nano": {"minimal", "low", "medium", "high"},
}
_BASE = "https://api.openai.com/v1"
_PATHS = {"chat": CHAT, "responses": "/v1/responses"}


def check_judge(judge: Judge) -> None:
    """Raise ConfigError if OpenAI is known to refuse this judge."""
    if judge.endpoint not in {None, *_PATHS}:
        raise ConfigError(f"endpoint {judge.endpoint!r} of {judge.model} is unknown; use chat or responses")
    efforts = _EFFORTS.get(judge.model)
    if judge.reasoning != "default" and efforts is not None and judge.reasoning not in efforts:
        known = ", ".join(sorted(efforts))
        raise ConfigError(f"reasoning {judge.reasoning!r} is refused by {judge.model}; it takes {known}")
    if judge.temperature is not None and judge.reasoning not in {"none", "default"}:
        raise ConfigError(f"temperature is refused by {judge.model} with reasoning {judge.reasoning}; leave it out")


def frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the request line with gaps for id and messages."""
    build_body = responses_body if judge.endpoint == "responses" else chat_body
    return line_frame(build_body(judge, messages=messages, schema=schema), url=_path(judge))


def decode(line: bytes) -> Output:
    """Return what one line of an output or error file says."""
    return decode_line(line)


def decode_lines(block: bytes) -> list[Output]:
    """Return what the lines of an output or error file say."""
    return decode_block(block)


def live_frame(judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION) -> Frame:
    """Return the body of one live call with gaps for its messages."""
    build_body = responses_body if judge.endpoint == "responses" else chat_body
    return Frame.of(build_body(judge, messages=messages, schema=schema))


def live_call(settings: Settings, judge: Judge) -> LiveCall:
    """Return where live calls go."""
    base = settings.address("OPENAI_BASE_URL", _BASE).removesuffix("/v1")
    return LiveCall(base + _path(judge), {"authorization": f"Bearer {settings.key(*KEYS).reveal()}"})


def decode_live(line: bytes) -> Output:
    """Return what one live answer says."""
    return decode_live_line(line)


def build(settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None = None) -> FilesAndBatches[Batch]:
    """Return the provider for the key and address of the environment."""
    base, key = settings.address("OPENAI_BASE_URL", _BASE), settings.key(*KEYS)
    http = Http(base, {"authorization": f"Bearer {key.reveal()}"}, clock, transport=transport)
    return FilesAndBatches(http, _DIALECT, account=fingerprint(key))


def _path(judge: Judge) -> str:
    return _PATHS[judge.endpoint or "chat"]


def _order(submission: Submission, file_id: str | None) -> Mapping[str, object]:
    return order(submission, file_id, endpoint=_path(submission.judge))


_DIALECT: Dialect[Batch] = Dialect(kind=Batch, remote=remote_batch, order=_order, listed=newest)
