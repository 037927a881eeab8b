"""What a worker is told by its environment; the only module that reads it.

Keys and addresses go by the names the providers' own SDKs read. Values of keys are never printed: they travel
inside `Secret`.
"""

import ipaddress
import os
import socket
import urllib.parse
from collections.abc import Mapping

import msgspec

from pipeline.errors import ConfigError

STORE = "PAIRLOG_STORE"
DEFAULT_STORE = ".pairlog"


class Secret:
    """A key that does not show itself."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key itself, for the one header it belongs in."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is not to be stored")


_NO_KEY = "export the key of the account that is to pay (to try it without one: `pairlog simulate`)"
_SHORTEST_QUIET = 0.1  # a batch has half of it to be handed over
_LONGEST_PAUSE = 3_600.0  # what is to last longer is taken for the word of a clock that is off
_LONGEST = 1e7


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How patient a worker is, in seconds."""

    quiet: float = 600.0
    lease: float = 60.0
    pause: float = 300.0


class Settings:
    """One reading of the environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def store(self) -> str:
        """Return where the store is."""
        return self._environment.get(STORE) or DEFAULT_STORE

    def experiments(self) -> str | None:
        """Return the folder or prefix that experiment files are picked up from, if one was named."""
        return self._environment.get("PAIRLOG_EXPERIMENTS") or None

    def pace(self) -> Pace:
        """Return how long to wait for what."""
        defaults = Pace()
        return Pace(
            quiet=self._seconds("PAIRLOG_QUIET_SECONDS", defaults.quiet, least=_SHORTEST_QUIET),
            lease=self._seconds("PAIRLOG_LEASE_SECONDS", defaults.lease),
            pause=self._seconds("PAIRLOG_PAUSE_SECONDS", defaults.pause, most=_LONGEST_PAUSE),
        )

    def is_set(self, *names: str) -> str | None:
        """Return the first of the names that is set, or None."""
        return next((name for name in names if self._environment.get(name)), None)

    def key(self, *names: str) -> Secret:
        """Return the key under the first of the names that is set."""
        name = self.is_set(*names)
        if name is None:
            raise ConfigError(f"{' or '.join(names)} is not set; {_NO_KEY}")
        value = self._environment[name]
        if any(mark in value for mark in " \"'") or not value.isprintable():
            raise ConfigError(f"{name} holds white space, quotes or control characters; set it to the bare key")
        if not value.isascii():
            raise ConfigError(f"{name} holds characters that no key has; set it to the bare key")
        return Secret(value)

    def value(self, name: str, default: str | None = None) -> str | None:
        """Return a plain setting."""
        return self._environment.get(name) or default

    def address(self, name: str, default: str) -> str:
        """Return a base address without a slash at its end: https, or plain http to this machine only."""
        return checked_address(self._environment.get(name) or default, name=name)

    def _seconds(self, name: str, default: float, *, least: float = 0, most: float = _LONGEST) -> float:
        text = self._environment.get(name)
        if not text:
            return default
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not least <= seconds <= most:
            limit = "" if most == _LONGEST else f", {most:g} at most"
            raise ConfigError(f"{name} is {text!r}; give a number of seconds, {least:g} or more{limit}")
        return seconds


def from_environment() -> Settings:
    """Return the settings of this process."""
    return Settings(os.environ)


def checked_address(address: str, *, name: str) -> str:
    """Return the address if requests with a key may go there, else raise ConfigError."""
    parts = _split(address, name)
    shown = f"{name} is {parts.scheme}://{parts.hostname or ''}"
    if parts.username or parts.password:
        raise ConfigError(f"{name} carries a user name or password; put only the address there")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{name} is not a web address; give one like https://api.example.com/v1")
    if parts.query or parts.fragment:
        raise ConfigError(f"{shown} with a query; give the bare address")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ConfigError(f"{shown}: plain http would show the key to the network; use https")
    if _is_private(parts.hostname):
        raise ConfigError(f"{shown}: this address belongs to no provider")
    return address.rstrip("/")


def _split(address: str, name: str) -> urllib.parse.SplitResult:
    """Return the parts of an address that can be one: no white space in it, and a port that there is."""
    try:
        parts = urllib.parse.urlsplit(address)
        possible = parts.port != 0 and address.isprintable() and " " not in address
    except ValueError:
        possible = False
    if not possible:
        raise ConfigError(f"{name} is not a web address; give one like https://api.example.com/v1")
    return parts


def is_loopback(host: str) -> bool:
    """Say whether the host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_private(host: str) -> bool:
    """Say whether the host is an address such as a cloud's metadata service, in whatever notation resolvers take."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton(host.rstrip(".")))
        except (OSError, ValueError):
            return False
    plain = getattr(address, "ipv4_mapped", None) or address
    return bool(plain.is_link_local or plain.is_unspecified or plain.is_multicast)
