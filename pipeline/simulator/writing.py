"""Result files as they are written: lines, and the odd but harmless ways in which they may end."""

from pathlib import Path
from typing import IO


class Writer:
    """A result file being written; `odd` names what is unusual about its line ends."""

    def __init__(self, *, file_id: str, path: Path, name: str) -> None:
        self.file_id = file_id
        self.path = path
        self.name = name
        self.odd: set[str] = set()
        self.lines = 0
        self._file: IO[bytes] = path.open("wb")

    @property
    def _end(self) -> bytes:
        return b"\r\n" if "crlf" in self.odd else b"\n"

    def write(self, line: bytes) -> None:
        """Add a line."""
        if self.lines > 0:
            self._file.write(self._end * 2 if "blank" in self.odd else self._end)
        elif "bom" in self.odd:
            self._file.write(b"\xef\xbb\xbf")
        self._file.write(line)
        self.lines += 1

    def finish(self) -> None:
        """End the last line, unless it is to have no end, and close the file."""
        if self.lines > 0 and "no_newline" not in self.odd:
            self._file.write(self._end)
        self._file.close()

    def close(self) -> None:
        """Close the file as it is, if it is open."""
        self._file.close()
