"""Object storage under one root: the seam every backend stands behind, and the look-up by URL.

A backend knows keys and bytes; what they mean is said by `keys`, `log` and `tables`.
"""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

import msgspec

from pipeline.errors import ConfigError


class Reads(Protocol):
    """As much of a store as the state of a run needs."""

    def get(self, key: str) -> bytes:
        """Return the object's bytes, or raise MissingError."""
        ...

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        """Return every key below the folder that sorts behind `after`, in order."""
        ...


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


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """An upload in parts that was begun and is not yet an object; its parts cost money."""

    key: str
    upload_id: str
    begun_at: datetime


@runtime_checkable
class HoldsUploads(Protocol):
    """A store that keeps the parts of abandoned uploads until somebody gives them up."""

    def uploads(self) -> list[Upload]:
        """Return the uploads that were begun and neither ended nor given up."""
        ...

    def give_up(self, upload: Upload) -> None:
        """Remove the parts of an upload that nobody will end."""
        ...


@runtime_checkable
class ListsSizes(Protocol):
    """A store whose listings tell the sizes of its objects."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return every key below the folder with the size of its object."""
        ...


def open_store(url: str) -> Store:
    """Return the store at this URL or path; nothing is read or written yet."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "file", url
    match scheme:
        case "file":
            from pipeline.storage.local import LocalStore  # noqa: PLC0415 - each backend is imported when it is named

            if Path(rest).expanduser().is_file():
                raise ConfigError(f"store {rest} is a file, not a folder; name a folder, or one that is to be made")
            return LocalStore(Path(rest))
        case "s3":
            from pipeline.storage.s3 import S3Store  # noqa: PLC0415 - as above

            return S3Store(url)
        case "gs":
            from pipeline.storage.gcs import GcsStore  # noqa: PLC0415 - as above

            return GcsStore(url)
    where = _without_credentials(url)
    raise ConfigError(f"store {where}: unknown kind {scheme!r}; use a path, file://, s3:// or gs://")


def _without_credentials(url: str) -> str:
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
