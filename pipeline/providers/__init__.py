"""The Batch APIs: one module a provider, found by its name.

A provider turns our words into its wire and back. It decides nothing about what is due and keeps no state. Its errors
tell apart: what did not happen, what will never happen, and what may have happened.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Protocol, runtime_checkable

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.domain import QUESTION, Answer, Frame, Judge, Limits, Message, Mode, Output
from pipeline.errors import ConfigError
from pipeline.events import End, Fault, LineFault
from pipeline.settings import Settings
from pipeline.wording import remedy

_KEPT = timedelta(days=28)


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """One batch on its way out; `chunks` yields the bytes of its lines anew at every call."""

    batch_key: str
    labels: Mapping[str, str]
    judge: Judge
    requests: int
    size: int
    chunks: Callable[[], Iterator[bytes]]


class RemoteBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as its provider shows it.

    `status` is the provider's own word; `end` is set once nothing more will change; `parts` are what can be fetched
    then, by name, and `lines` how many lines each of them has, where the provider tells. `fault` is set when the whole
    batch failed for a reason of the account, not of its lines.
    """

    remote_id: str
    status: str
    running: bool = True
    end: End | None = None
    parts: Mapping[str, str] = {}
    lines: Mapping[str, int] = {}
    faults: tuple[LineFault, ...] = ()
    fault: Fault | None = None
    batch_key: str | None = None
    requests: int | None = None
    created_at: datetime | None = None


class LiveCall:
    """Where and how a live request is posted; its headers hold the key, so it shows nothing of itself."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self.url = url
        self.headers = headers

    def __repr__(self) -> str:
        return "LiveCall(***)"


class LiveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One line of what came back live: our request id, the HTTP status and the body, byte for byte."""

    request_id: str
    status: int
    body: msgspec.Raw


class Provider(Protocol):
    """What the engine asks of a provider. Only `create` costs money; it is called once an attempt."""

    @property
    def account(self) -> str:
        """A salted fingerprint of the key in use: tells accounts apart, reveals nothing."""
        ...

    def upload(self, submission: Submission) -> str | None:
        """Hand over the lines and return the provider's name for them; None where create takes them itself."""
        ...

    def create(self, submission: Submission, *, file_id: str | None) -> str:
        """Create the batch, once, and return the provider's id."""
        ...

    def find(self, batch_key: str, *, since: datetime) -> list[RemoteBatch]:
        """Return the batches that carry our key, among those made after `since`."""
        ...

    def status(self, remote_id: str) -> RemoteBatch:
        """Return the batch as it is now."""
        ...

    def download(self, handle: str) -> Iterator[bytes]:
        """Yield one part's bytes as they arrive."""
        ...

    def cancel(self, remote_id: str) -> None:
        """Ask the provider to stop; what is answered by then can still be fetched."""
        ...

    def discard(self, file_id: str) -> None:
        """Delete an uploaded input; that it is gone already is success."""
        ...

    def check(self) -> str:
        """Make one free call and return in a few words what it showed."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


@runtime_checkable
class ProbableProvider(Provider, Protocol):
    """A provider that shows no key of ours: an uncertain create has candidates, and only their ids are proof."""

    def candidates(self, *, since: datetime, requests: int) -> list[RemoteBatch]:
        """Return the batches of this size made since about then."""
        ...

    def custom_ids(self, remote_id: str) -> Iterator[str]:
        """Yield the request ids in the results of a batch that has ended."""
        ...


class ProviderModule(Protocol):
    """What a provider's module offers besides its class: everything that needs no key and no network.

    The first of `MODES` is the default. `KEYS` are the variables of which one must be set for the provider to be used.
    One that knows no JSON schema has `ANSWERS = ("tag",)`, one that reads many lines faster together `decode_lines`,
    one that may delete answers sooner than in four weeks `KEPT`.
    A module without "live" needs none of the `live` functions, one without "batch" no `frame`, `decode` and `build`.
    """

    MODES: tuple[Mode, ...]
    KEYS: tuple[str, ...]
    LIMITS: Limits

    def check_judge(self, judge: Judge) -> None:
        """Raise ConfigError if the provider is known to refuse this judge."""
        ...

    def frame(
        self, judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION
    ) -> Frame:
        """Return the request line with gaps for its id and for what the messages leave open."""
        ...

    def decode(self, line: bytes) -> Output:
        """Return what one line says, or raise ValueError or msgspec.DecodeError if it cannot be read."""
        ...

    def live_frame(
        self, judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION
    ) -> Frame:
        """Return the body of one live call with gaps for what the messages leave open."""
        ...

    def live_call(self, settings: Settings, judge: Judge) -> LiveCall:
        """Return where live calls go, or raise ConfigError if a key is missing."""
        ...

    def decode_live(self, line: bytes) -> Output:
        """Return what one `LiveAnswer` line says, or raise ValueError or msgspec.DecodeError."""
        ...

    def check_live(self, settings: Settings, clock: Clock) -> str:
        """Make one free call to a provider that is live only; return in a few words what it showed."""
        ...

    def build(self, settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None) -> Provider:
        """Return the provider, or raise ConfigError if a key is missing."""
        ...


def answers(name: str) -> tuple[Answer, ...]:
    """Return how the provider's judges can be asked to answer: a module that takes no JSON schema says so."""
    known: tuple[Answer, ...] = getattr(module(name), "ANSWERS", ("tag", "json"))
    return known


def kept(name: str) -> timedelta:
    """Return how long the provider keeps the answers of a batch, as far as it is known."""
    known: timedelta = getattr(module(name), "KEPT", _KEPT)
    return known


def lines_decoder(name: str) -> Callable[[bytes], list[Output]] | None:
    """Return what reads a block of lines, each one whole object, at once; it raises as `decode` does if one is bad."""
    known: Callable[[bytes], list[Output]] | None = getattr(module(name), "decode_lines", None)
    return known


@cache
def names() -> list[str]:
    """Return the names of all providers."""
    return [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]


@cache
def module(name: str) -> ProviderModule:
    """Return the provider's module, or raise ConfigError with the nearest name."""
    if name not in names():
        raise ConfigError(f"provider {name!r} is unknown; {remedy(name, names())}")
    loaded: ProviderModule = importlib.import_module(f"{__name__}.{name}")
    return loaded
