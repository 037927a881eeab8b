"""A store in memory: for tests and simulations, held to the same conformance suite as the real ones."""

import io
import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import BinaryIO

from pipeline.errors import ConflictError, MissingError
from pipeline.storage import keys

_BEHIND_SLASH = chr(ord("/") + 1)


class MemoryStore:
    """Objects in a dictionary; safe for threads, gone with the process."""

    def __init__(self, name: str = "memory") -> None:
        self.url = f"memory://{name}"
        self._objects: dict[str, bytes] = {}
        self._keys: list[str] = []
        self._lock = threading.Lock()

    def put_new(self, key: str, body: bytes) -> None:
        """Create the object whole, or raise ConflictError if the key is taken."""
        with self._lock:
            if keys.checked(key) in self._objects:
                raise ConflictError(f"{key} exists already")
            self._objects[key] = bytes(body)
            insort(self._keys, key)

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        """Create an object of any size whole, or raise ConflictError."""
        self.put_new(key, b"".join(chunks))

    def get(self, key: str) -> bytes:
        """Return the object's bytes, or raise MissingError."""
        try:
            return self._objects[key]
        except KeyError as error:
            raise MissingError(f"there is no {key} in {self.url}") from error

    def open(self, key: str) -> BinaryIO:
        """Return a file of the object's bytes, or raise MissingError."""
        return io.BytesIO(self.get(key))

    def exists(self, key: str) -> bool:
        """Say whether there is such an object now."""
        return key in self._objects

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        """Return every key below the folder that sorts behind `after`, in order."""
        with self._lock:
            start = max(bisect_left(self._keys, f"{folder}/"), bisect_right(self._keys, after))
            return self._keys[start : bisect_left(self._keys, f"{folder}{_BEHIND_SLASH}")]
