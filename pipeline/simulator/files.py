"""The files a provider keeps for its users: bytes on disk, facts in memory.

What a file is called on the wire and how it is uploaded is a matter of the wire modules.
"""

import shutil
import threading
from pathlib import Path
from typing import IO

import msgspec


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file a provider keeps."""

    file_id: str
    wire: str
    filename: str
    purpose: str
    bytes: int
    created_at: float
    expires_at: float | None
    path: Path


class Files:
    """Files by id, oldest first; safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._files: dict[str, StoredFile] = {}

    def path_of(self, file_id: str) -> Path:
        """Return where the bytes of a file with this id are to be written before it is added."""
        return self._folder / file_id

    def write(self, file_id: str, source: IO[bytes]) -> Path:
        """Copy the bytes of an upload to disk and return where they are."""
        path = self.path_of(file_id)
        with path.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        return path

    def add(self, file: StoredFile) -> StoredFile:
        """Make a file whose bytes are written visible, and return it."""
        with self._lock:
            self._files[file.file_id] = file
        return file

    def get(self, file_id: str, *, wire: str) -> StoredFile | None:
        """Return the file, or None if this provider has none of that id."""
        with self._lock:
            file = self._files.get(file_id)
        return file if file is not None and file.wire == wire else None

    def all(self, *, wire: str) -> list[StoredFile]:
        """Return the provider's files, oldest first."""
        with self._lock:
            return [file for file in self._files.values() if file.wire == wire]

    def hold(self, file_id: str, *, wire: str, name: str) -> Path | None:
        """Return a second name for the file's bytes, which outlives the file; None if there is no such file."""
        file = self.get(file_id, wire=wire)
        if file is None:
            return None
        held = self._folder / name
        held.hardlink_to(file.path)
        return held

    def delete(self, file_id: str) -> None:
        """Remove the file; a batch or a download that already reads it reads on."""
        with self._lock:
            file = self._files.pop(file_id, None)
        if file is not None:
            file.path.unlink(missing_ok=True)
