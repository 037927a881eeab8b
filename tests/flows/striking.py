"""A process that is killed or frozen at a moment of its work, by its own hand: however fast the machine is."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from pipeline.storage.local import LocalStore


class StruckStore(LocalStore):
    """A way to the store on which a signal strikes this process, once, before or after a commit tells of an event."""

    def __init__(self, root: Path, event: str, number: signal.Signals, *, after: bool = False) -> None:
        super().__init__(root)
        self._word = f'"{event}"'.encode()
        self._number = number
        self._after = after
        self._is_over = False

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        body = b"".join(chunks)
        strikes = not self._is_over and key.startswith("log/") and self._word in body
        self._is_over = self._is_over or strikes
        if strikes and not self._after:
            os.kill(os.getpid(), self._number)
        super().put_stream(key, (body,))
        if strikes and self._after:
            os.kill(os.getpid(), self._number)


class Struck:
    """A process that a signal struck, and how it was found."""

    def __init__(self, process: BaseProcess, found: int) -> None:
        self._process = process
        self.is_killed = os.WIFSIGNALED(found)
        self.is_frozen = os.WIFSTOPPED(found)

    def woken(self) -> int | None:
        """Let a frozen process go on to its end; return its exit code."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)
        self._process.join(60)
        return self._process.exitcode


@contextmanager
def struck(work: Callable[..., None], *arguments: object) -> Iterator[Struck]:
    """Start the work in a process of its own and wait until a signal strikes it; what is frozen ends with the block."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    assert process.pid is not None
    found = Struck(process, os.waitpid(process.pid, os.WUNTRACED)[1])
    try:
        yield found
    finally:
        if found.is_frozen:
            process.kill()
            process.join()
