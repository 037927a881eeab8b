"""Object storage under one root: the seam every backend stands behind, and the look-up by URL.

A backend knows keys and bytes; what they mean is said by `keys`, `log` and `tables`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Protocol

from pipeline.errors import ConfigError


class Store(Protocol):
    """Objects that are created once and never changed."""

    @property
    def url(self) -> str:
        """Where the store is, without credentials."""
        ...

    def put_new(self, key: str, body: bytes) -> None:
        """Create the object whole, or raise ConflictError if the key is taken."""
        ...

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        """Create an object of any size whole, or raise ConflictError; nothing is visible before the end."""
        ...

    def get(self, key: str) -> bytes:
        """Return the object's bytes, or raise MissingError."""
        ...

    def open(self, key: str) -> BinaryIO:
        """Return a seekable file of the object's bytes, or raise MissingError."""
        ...

    def exists(self, key: str) -> bool:
        """Say whether there is such an object now."""
        ...

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        """Return every key below the folder that sorts behind `after`, in order."""
        ...

    def folders(self, folder: str) -> list[str]:
        """Return the names directly below the folder that hold objects, in order."""
        ...


def open_store(url: str) -> Store:
    """Return the store at this URL or path; nothing is read or written yet."""
    from pipeline.storage.local import LocalStore  # noqa: PLC0415 - each backend is imported when it is named

    scheme, separator, rest = url.partition("://")
    if not separator:
        return LocalStore(Path(url))
    if scheme == "file":
        return LocalStore(Path(rest))
    raise ConfigError(f"store {_without_credentials(url)}: unknown kind {scheme!r}; use a path or file://")


def _without_credentials(url: str) -> str:
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
