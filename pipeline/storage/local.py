"""The store on a local disk: a temporary file, fsync, `os.link`, fsync of the folder.

fsspec's own create mode looks first and writes then, so that two writers can both win (76 of 300 races); a hard
link either makes the name or fails, and readers never see a part of a file.
"""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import ConflictError, MissingError, StoreError
from pipeline.storage import keys

TEMPORARY = ".pairlog-"
_MOST_OPEN = 0o664  # a file is as open as its folder, which the umask of its maker decided


class LocalStore:
    """Objects as files below one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root.expanduser().absolute()
        self._made: set[Path] = set()

    @property
    def url(self) -> str:
        """Where the store is."""
        return f"file://{self._root}"

    def put_new(self, key: str, body: bytes) -> None:
        """Create the object whole, or raise ConflictError if the key is taken."""
        self.put_stream(key, (body,))

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        """Create an object of any size whole, or raise ConflictError."""
        path = self._path(key)
        with self._explained(key, "create"):
            self._make_folder(path.parent)
            if path.exists():
                raise ConflictError(f"{key} exists already")
            with _temporary_file(path.parent) as (file, temporary):
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
                self._publish(temporary, path, key)

    def _publish(self, temporary: Path, path: Path, key: str) -> None:
        try:
            os.link(temporary, path)
        except FileExistsError as error:
            raise ConflictError(f"{key} exists already") from error
        _sync_folder(path.parent)

    def get(self, key: str) -> bytes:
        """Return the object's bytes, or raise MissingError."""
        with self._explained(key, "read"):
            return self._path(key).read_bytes()

    def open(self, key: str) -> BinaryIO:
        """Return the object's file, or raise MissingError."""
        with self._explained(key, "read"):
            return self._path(key).open("rb")

    def exists(self, key: str) -> bool:
        """Say whether there is such an object now."""
        path = self._path(key)
        with self._explained(key, "find"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return stat.S_ISREG(path.stat().st_mode)
        return False

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        """Return every key below the folder that sorts behind `after`, in order."""
        found: list[str] = []
        with self._explained(folder, "list"):
            for place, _, names in os.walk(self._root / folder, onerror=_unless_missing):
                base = Path(place).relative_to(self._root).as_posix()
                found += [f"{base}/{name}" for name in names if not name.startswith(TEMPORARY)]
        return sorted(key for key in found if key > after)

    def _path(self, key: str) -> Path:
        path = self._root / keys.checked(key)
        if not path.parent.resolve().is_relative_to(self._root.resolve()):
            raise StoreError(f"{key} leads out of {self.url} through a symbolic link; remove the link")
        return path

    def _make_folder(self, folder: Path) -> None:
        """Make the folder and every missing one above it durable."""
        if folder in self._made:
            return
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for place in reversed(missing):
            _sync_folder(place.parent)
        self._made.add(folder)

    @contextlib.contextmanager
    def _explained(self, key: str, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and verb != "create":
                raise MissingError(f"there is no {key} in {self.url}") from error
            raise StoreError(f"cannot {verb} {key} in {self.url}: {_remedy(error, verb)}") from error


def _unless_missing(error: OSError) -> None:
    """Raise what keeps a folder from being listed: only one that is not there counts as empty."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _remedy(error: OSError, verb: str) -> str:
    if error.errno in {errno.EPERM, errno.ENOTSUP, errno.EMLINK}:
        return f"{error.strerror}; the store needs a file system with hard links"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{error.strerror}; free some space"
    if error.errno in {errno.EACCES, errno.EROFS, errno.ENOENT}:
        return f"{error.strerror}; the store cannot be {'written' if verb == 'create' else 'read'} by this user"
    return error.strerror or str(error)


@contextlib.contextmanager
def _temporary_file(folder: Path) -> Iterator[tuple[BinaryIO, Path]]:
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, suffix=".tmp", dir=folder)
    try:
        os.fchmod(handle, folder.stat().st_mode & _MOST_OPEN)
        with os.fdopen(handle, "wb", buffering=1 << 20) as file:
            yield file, Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
