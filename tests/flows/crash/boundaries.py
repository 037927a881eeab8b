"""Every write and every call of a worker, numbered; at one number something happens to it."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Literal

import httpx
import msgspec

from pipeline.errors import ConflictError, StoreError
from pipeline.storage import Store

Kind = Literal[
    "kill-before", "kill-after", "kill-during", "io-error", "no-space", "lost-acknowledgement", "refused-503",
    "applied-503", "applied-reset", "overtaken-before", "overtaken-after",
]  # fmt: skip
ON_DISKS: tuple[Kind, ...] = ("kill-during",)  # an object store shows an object whole or not at all
ON_STORES: tuple[Kind, ...] = ("kill-during", "io-error", "no-space", "lost-acknowledgement")
ON_CALLS: tuple[Kind, ...] = ("refused-503", "applied-503", "applied-reset")


class Trap(msgspec.Struct):
    """What happens, and at which boundary; `meanwhile` is what another worker does while this one is frozen."""

    kind: Kind | None = None
    number: int = -1
    meanwhile: Callable[[], None] = lambda: None
    passed: list[str] = []

    def at(self, name: str) -> bool:
        """Pass a boundary; return whether it is the one."""
        self.passed.append(name)
        return len(self.passed) - 1 == self.number

    @property
    def is_full(self) -> bool:
        """Whether nothing can be written any more, from the boundary on."""
        return self.kind == "no-space" and 0 <= self.number < len(self.passed)

    def before(self) -> None:
        if self.kind == "kill-before":
            _die()
        if self.kind == "overtaken-before":
            self.meanwhile()

    def after(self) -> None:
        if self.kind == "kill-after":
            _die()
        if self.kind == "overtaken-after":
            self.meanwhile()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class TrappedStore:
    """A store whose writes are boundaries."""

    def __init__(self, inner: Store, trap: Trap) -> None:
        self._inner = inner
        self._trap = trap
        self.url = inner.url

    def put_new(self, key: str, body: bytes) -> None:
        self.put_stream(key, (body,))

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        trap = self._trap
        is_the_one = trap.at(f"put {key}")
        if trap.is_full:
            raise StoreError(f"cannot create {key}: No space left on device")
        if not is_the_one:
            self._inner.put_stream(key, chunks)
            return
        trap.before()
        if trap.kind == "io-error":
            raise StoreError(f"cannot create {key}: Input/output error")
        self._inner.put_stream(key, self._cut(chunks) if trap.kind == "kill-during" else chunks)
        trap.after()
        if trap.kind == "lost-acknowledgement":
            raise ConflictError(f"{key} exists already")

    def _cut(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk[: len(chunk) // 2]
            _die()

    def get(self, key: str) -> bytes:
        return self._inner.get(key)

    def open(self, key: str) -> BinaryIO:
        return self._inner.open(key)

    def exists(self, key: str) -> bool:
        return self._inner.exists(key)

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        return self._inner.list_from(folder, after=after)


class TrappedTransport(httpx.BaseTransport):
    """An HTTP transport whose calls are boundaries."""

    def __init__(self, trap: Trap) -> None:
        self._inner = httpx.HTTPTransport()
        self._trap = trap

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        trap = self._trap
        if not trap.at(f"{request.method} {request.url.path}"):
            return self._inner.handle_request(request)
        trap.before()
        if trap.kind == "refused-503":
            return httpx.Response(503, request=request)
        response = self._inner.handle_request(request)
        response.read()
        trap.after()
        if trap.kind == "applied-503":
            return httpx.Response(503, request=request)
        if trap.kind == "applied-reset":
            raise httpx.ReadError("connection reset by peer", request=request)
        return response

    def close(self) -> None:
        self._inner.close()
