"""The Batch APIs: one module a provider, found by its name.

A provider turns our words into its wire and back. It decides nothing about what is due and keeps no state. Its errors
tell apart: what did not happen, what will never happen, and what may have happened.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from pipeline.wording import nearest, remedy

_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")  # a model's name may end in the day it is of


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


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt whose batch is looked for: its key, since when it can have been made, and what was uploaded for it."""

    batch_key: str
    since: datetime
    files: tuple[str, ...] = ()


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

    def find(self, sought: Sought) -> list[RemoteBatch]:
        """Return the batches that are known by their key, or by their files, to be of this attempt."""
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


@runtime_checkable
class ListsInputs(Provider, Protocol):
    """A provider that lists what was uploaded, by name."""

    def inputs(self, batch_key: str) -> list[str]:
        """Return the files named after the key, as far as one listing shows them."""
        ...


class LiveClient(Protocol):
    """Makes the calls of one live batch."""

    def answers(self, calls: Iterable[tuple[str, bytes]]) -> Iterator[list[LiveAnswer]]:
        """Make the calls and yield their answers as they arrive, or raise AccountError if the key is refused."""
        ...

    def rest(self) -> Iterator[list[LiveAnswer]]:
        """Begin no further call; yield what is still under way."""
        ...

    def stop(self) -> None:
        """Begin no further call."""
        ...


class ProviderModule(Protocol):
    """What every provider's module offers besides its class: it needs no key and no network.

    The first of `MODES` is the default: one with "batch" is a `BatchModule`, one with "live" a `LiveModule`. `KEYS` are
    the variables of which one must be set for the provider to be used. What it may say besides is in `Particulars`.
    """

    MODES: tuple[Mode, ...]
    KEYS: tuple[str, ...]

    def check_judge(self, judge: Judge) -> None:
        """Raise ConfigError if the provider is known to refuse this judge."""
        ...


@runtime_checkable
class BatchModule(ProviderModule, Protocol):
    """The module of a provider that takes batches."""

    LIMITS: Limits

    def frame(
        self, judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION
    ) -> Frame:
        """Return the request line with gaps for its id and for what the messages leave open."""
        ...

    def decode(self, line: bytes) -> Output:
        """Return what one line says, or raise ValueError or msgspec.DecodeError if it cannot be read."""
        ...

    def build(self, settings: Settings, clock: Clock, *, transport: httpx.BaseTransport | None) -> Provider:
        """Return the provider, or raise ConfigError if a key is missing."""
        ...


@runtime_checkable
class LiveModule(ProviderModule, Protocol):
    """The module of a provider that can be called request by request."""

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


@runtime_checkable
class LiveOnlyModule(LiveModule, Protocol):
    """The module of a provider that takes no batches, so that there is no `Provider` to ask whether all is well."""

    def check_live(self, settings: Settings, clock: Clock) -> str:
        """Make one free call and return in a few words what it showed."""
        ...


class Particulars(msgspec.Struct, frozen=True, kw_only=True):
    """What a module may say in a constant, or offer as a function, of this name; and what holds of one that does not.

    `ANSWERS`: how its judges can be asked to answer. `KEPT`: how long it keeps the answers of a batch. `ID_PATH`: where
    in a line of answers our request id stands. `decode_lines`: reads a block of lines, each one whole object, at once;
    it raises as `decode` does if one is bad. `MODELS`: the models it knows by name; others are sent as they are.
    """

    ANSWERS: tuple[Answer, ...] = ("tag", "json")
    KEPT: timedelta = timedelta(days=28)
    ID_PATH: tuple[str, ...] = ("custom_id",)
    decode_lines: Callable[[bytes], list[Output]] | None = None
    MODELS: tuple[str, ...] = ()


def live_client(call: LiveCall, *, rate: float, clock: Clock, patience: float) -> LiveClient:
    """Return what makes the calls of one live batch, so many a second, while answers are taken within the patience."""
    from pipeline.providers._live import Calls  # noqa: PLC0415 - it is made of what stands above

    return Calls(call, rate=rate, clock=clock, patience=patience)


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


@cache
def batch_module(name: str) -> BatchModule:
    """Return the module of a provider that takes batches, or raise ConfigError if it takes none."""
    found = module(name)
    if isinstance(found, BatchModule):
        return found
    raise ConfigError(f"{name} has no mode batch; it has {' and '.join(found.MODES)}")


@cache
def live_module(name: str) -> LiveModule:
    """Return the module of a provider that can be called live, or raise ConfigError if it cannot."""
    found = module(name)
    if isinstance(found, LiveModule):
        return found
    raise ConfigError(f"{name} has no mode live; it has {' and '.join(found.MODES)}")


@cache
def particulars(name: str) -> Particulars:
    """Return what the provider's module says of itself, and what holds where it says nothing."""
    said = vars(module(name))
    return Particulars(**{field: said[field] for field in Particulars.__struct_fields__ if field in said})


def nearest_model(name: str, model: str) -> str | None:
    """Return the provider's model that was probably meant, None if this one is known or like none that is."""
    plain, known = _DATED.sub("", model), particulars(name).MODELS
    return None if plain in known else nearest(plain, known)
