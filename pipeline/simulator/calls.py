"""Answers calls, with the faults that strike them: shared by every wire.

A wire says how to carry a call out and how it words a refusal; whether the answer gets through is decided here.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import IO, Protocol

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from pipeline.simulator.engine import Engine
from pipeline.simulator.faults import CallFault

CUT = "pairlog.cut"  # the ASGI extension by which `server` lets a route close its connection
_NOTES = "pairlog.notes"  # their name in the ASGI scope
_CHUNK = 1 << 18
_PAGE = "<html><head><title>Welcome</title></head><body><h1>Sign in to the network</h1></body></html>"


class Refuse(Protocol):
    """Words a refusal as the provider does."""

    def __call__(self, status: int, *, quota: bool) -> Response:
        """Return the provider's answer with this HTTP status."""
        ...


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended: the HTTP status (0: no answer), the fault that struck it, and whether it was carried out."""

    status: int
    fault: str | None
    applied: bool


class Notes(msgspec.Struct, kw_only=True):
    """What is noted about a call while it is answered: its body, by how much a fault delays it, and of a create more.

    A wire notes what the create asks for as soon as it has read it, so that the ledger also knows of refused ones.
    """

    body: bytes = b""
    delay: float = 0.0
    input_file_id: str | None = None
    metadata: Mapping[str, str] | None = None
    batch_id: str | None = None


def notes_of(request: Request) -> Notes:
    """Return the notes about a call, the same ones whoever asks."""
    notes: Notes = request.scope.setdefault(_NOTES, Notes())
    return notes


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call to be answered; `seen` is told how it ended before the answer leaves."""

    name: str
    request: Request
    act: Callable[[], Awaitable[Response]]
    refuse: Refuse
    seen: Callable[[Answered], None]


async def answer(engine: Engine, call: Call) -> Response:
    """Carry the call out, unless a fault strikes it, and return what the caller gets to see."""
    fault = engine.faults.take_call(call.name)
    if fault is None:
        response = await call.act()
        call.seen(Answered(status=response.status_code, fault=None, applied=response.status_code < 400))
        return response
    done = False
    response = Response()
    if fault.is_applied:
        notes_of(call.request).delay = (fault.value or 1.0) if fault.effect == "late" else 0.0
        response = await call.act()
        done = response.status_code < 400
        if not done:
            call.seen(Answered(status=response.status_code, fault=None, applied=False))
            return response
    call.seen(Answered(status=fault.status, fault=f"{call.name}.{fault.effect}", applied=done))
    return await _struck(engine, call, fault, response)


async def _struck(engine: Engine, call: Call, fault: CallFault, response: Response) -> Response:
    await _unread(response)
    if fault.status == 0:
        await cut(call.request, reset=fault.effect == "reset")
        return Response(status_code=500)
    if fault.effect == "html":
        return HTMLResponse(_PAGE)
    if fault.effect == "message":
        return JSONResponse({"message": "upstream is restarting"})
    if fault.effect == "empty":
        return Response()
    if fault.status == 200:
        return _incomplete(response, fault.effect)
    if not fault.is_applied:
        await _drain(call.request)
    refusal = call.refuse(fault.status, quota=fault.effect == "quota")
    if fault.effect in ("429", "429_date"):
        refusal.headers.update(_retry_after(engine, fault))
    return refusal


async def _unread(response: Response) -> None:
    """Close what the answer that nobody gets would have read from."""
    if isinstance(response, StreamingResponse):
        async for _ in response.body_iterator:
            pass


async def _drain(request: Request) -> None:
    """Read the body to its end: a client that is still sending would not see the answer."""
    async for _ in request.stream():
        pass


def _retry_after(engine: Engine, fault: CallFault) -> dict[str, str]:
    seconds = 1.0 if fault.value is None else fault.value
    if fault.effect == "429_date":
        then = engine.clock.now() + timedelta(seconds=seconds)
        return {"retry-after": format_datetime(then, usegmt=True)}
    return {"retry-after": f"{seconds:g}", "retry-after-ms": f"{1000 * seconds:g}"}


def _incomplete(response: Response, effect: str) -> Response:
    """Return the answer about a new batch without its id, or with a status word nobody has seen yet."""
    body = msgspec.json.decode(bytes(response.body), type=dict[str, msgspec.Raw])
    if effect == "no_id":
        body = {name: value for name, value in body.items() if name not in ("id", "name", "jobArn", "batch_id", "job")}
    else:
        fields = ("status", "processing_status", "state")
        body = {name: msgspec.Raw(b'"rescheduling"') if name in fields else value for name, value in body.items()}
    return Response(msgspec.json.encode(body), media_type="application/json")


async def cut(request: Request, *, reset: bool = False) -> None:
    """Close the connection and return when it is closed; served by anything but `server`, raise in its place."""
    extension = request.scope.get("extensions", {}).get(CUT)
    if extension is None:
        raise ConnectionResetError("the simulator closed the connection")
    extension(reset)
    while not await request.is_disconnected():
        await asyncio.sleep(0.001)


async def download(engine: Engine, request: Request, path: Path, headers: dict[str, str]) -> Response:
    """Return the file as a stream, which may be cut in the middle."""
    file = await run_in_threadpool(path.open, "rb")
    size = path.stat().st_size
    end = size // 2 if engine.faults.take("download.cut") else size
    headers = {**headers, "content-length": str(size)}
    return StreamingResponse(_chunks(request, file, end, size), headers=headers, media_type="application/octet-stream")


async def _chunks(request: Request, file: IO[bytes], end: int, size: int) -> AsyncIterator[bytes]:
    with file:
        while file.tell() < end:
            yield await run_in_threadpool(file.read, min(_CHUNK, end - file.tell()))
    if end < size:
        await cut(request)
