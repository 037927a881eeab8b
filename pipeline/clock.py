"""Time, waiting and unique names: the only module that touches the outside world's entropy.

Everything else takes a `Clock`, so that a test decides what time it is.
"""

import secrets
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Protocol

import msgspec


class Clock(Protocol):
    """What a worker needs to know about time."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC; advisory, never used for ordering."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        ...

    def boot(self) -> str:
        """Return the name of the start that `monotonic` counts from; seconds since different starts say nothing."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def nonce(self) -> str:
        """Return 32 fresh hex digits."""
        ...


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Now: by the wall, where clocks of two machines may differ by a day, and in seconds since one machine's start."""

    at: datetime
    boot: str
    uptime: float

    @classmethod
    def of(cls, clock: Clock) -> "Moment":
        """Return what the clock shows."""
        return cls(at=clock.now(), boot=clock.boot(), uptime=clock.monotonic())


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never run backwards, those included that the machine was suspended."""
        boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux alone has it
        return time.monotonic() if boot is None else time.clock_gettime(boot)

    def boot(self) -> str:
        """Return the name of the machine's start, or, where it has none, of this process's."""
        return _boot()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def nonce(self) -> str:
        """Return 32 fresh hex digits."""
        return secrets.token_hex(16)


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:13]
    except OSError:
        return secrets.token_hex(6)


class FixedClock:
    """A clock that moves only when told to: for tests and simulations."""

    def __init__(self, start: datetime, *, seed: int = 0) -> None:
        self._now = start
        self._boot = f"{start:%Y%m%dT%H%M%S}-{seed}"
        self._elapsed = 0.0
        self._names = seed << 64

    def now(self) -> datetime:
        """Return the time it was set to."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds slept so far."""
        return self._elapsed

    def boot(self) -> str:
        """Return the time it was first set to."""
        return self._boot

    def sleep(self, seconds: float) -> None:
        """Move on by `seconds` at once."""
        self._elapsed += seconds
        self._now = datetime.fromtimestamp(self._now.timestamp() + seconds, UTC)

    def nonce(self) -> str:
        """Return the next of a fixed sequence of names."""
        self._names += 1
        return f"{self._names:032x}"
