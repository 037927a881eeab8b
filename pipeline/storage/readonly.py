"""A store that is only looked at: whatever would write into it fails before it starts."""

from collections.abc import Iterable
from typing import BinaryIO, NoReturn

from pipeline.errors import StoreError
from pipeline.storage import Store


class ReadOnlyStore:
    """Another store without the right to create; caches that nobody needs (checkpoints) are then not kept."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def url(self) -> str:
        """Where the store is, without credentials."""
        return self._store.url

    def put_new(self, key: str, body: bytes) -> NoReturn:  # noqa: ARG002 - nothing is done with it
        """Raise StoreError."""
        raise StoreError(f"cannot create {key} in {self.url}: it was opened for reading only")

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> NoReturn:  # noqa: ARG002 - as above
        """Raise StoreError."""
        self.put_new(key, b"")

    def get(self, key: str) -> bytes:
        """Return the object's bytes, or raise MissingError."""
        return self._store.get(key)

    def open(self, key: str) -> BinaryIO:
        """Return a seekable file of the object's bytes, or raise MissingError."""
        return self._store.open(key)

    def exists(self, key: str) -> bool:
        """Say whether there is such an object now."""
        return self._store.exists(key)

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        """Return every key below the folder that sorts behind `after`, in order."""
        return self._store.list_from(folder, after=after)
