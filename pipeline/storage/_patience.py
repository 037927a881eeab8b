"""How an object store's doubtful answers are met: one policy for every call, in one place.

A backend says what an exception means (`Trouble`); here it is decided whether the same call is made again and which
error leaves. A create whose outcome is unknown is sent again with the same bytes to the same key until the store says
"created" or "exists"; nothing ever moves on from an unknown outcome.
"""

from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from pipeline.clock import Clock
from pipeline.errors import ConfigError, ConflictError, MissingError, PipelineError, StoreError

Kind = Literal["taken", "missing", "gone", "busy", "unknown", "unreachable", "refused", "misconfigured"]
Result = TypeVar("Result")


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What an exception of a backend means, and what a person should do about it."""

    kind: Kind
    reason: str


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call is repeated, and how far apart, in seconds."""

    unclear: float = 60.0
    unreachable: float = 15.0
    first_pause: float = 0.1
    longest_pause: float = 5.0


class Calls:
    """Makes a backend's calls, again where that is right, and turns what is left into errors of the library."""

    def __init__(self, *, explain: Callable[[Exception], Trouble], clock: Clock, patience: Patience) -> None:
        self._explain = explain
        self._clock = clock
        self._patience = patience

    def make(
        self, what: str, call: Callable[[], Result], *, settled: Callable[[], Result | None] | None = None
    ) -> Result:
        """Return what the call returns.

        Args:
            what: the act and the object, as messages name them.
            settled: asked when the key is taken or the upload gone: the result if that was done by an earlier try of
                this very call whose answer was lost (the clients repeat some requests unseen), else None.
        """
        started, tries = self._clock.monotonic(), 0
        while True:
            try:
                return call()
            except PipelineError:
                raise
            except Exception as error:
                trouble = self._explain(error)
                if settled and trouble.kind in {"taken", "gone"} and (known := settled()) is not None:
                    return known
                tries += 1
                if not self._may_go_on(trouble.kind, self._clock.monotonic() - started):
                    raise _error(what, trouble, tries=tries) from error
            self._clock.sleep(self._pause(tries))

    def _may_go_on(self, kind: Kind, waited: float) -> bool:
        if kind == "unreachable":
            return waited < self._patience.unreachable
        return kind in {"busy", "unknown"} and waited < self._patience.unclear

    def _pause(self, tries: int) -> float:
        """Return between half and all of a pause that doubles, so that rivals do not meet again."""
        longest = min(self._patience.first_pause * 2.0 ** (tries - 1), self._patience.longest_pause)
        return longest * (0.5 + int(self._clock.nonce()[-8:], 16) / 2**33)


def _error(what: str, trouble: Trouble, *, tries: int) -> StoreError | ConfigError:
    match trouble.kind:
        case "taken":
            return ConflictError(f"{what}: it exists already")
        case "missing":
            return MissingError(f"{what}: there is no such object")
        case "misconfigured":
            return ConfigError(f"{what}: {trouble.reason}")
        case "refused" | "gone":
            return StoreError(f"{what}: {trouble.reason}")
        case "unreachable":
            return StoreError(f"{what}: {trouble.reason} ({tries} tries)")
        case "busy" | "unknown":
            remedy = "look at the store, then run the command again"
            return StoreError(f"{what}: its outcome is unknown after {tries} tries, {trouble.reason}; {remedy}")
