"""Live calls: many at once, at a real rate, and one after the other for as long as the provider says "too many".

A call that timed out or failed in between is made again; after a few tries the last answer stands, and the engine
sends the request again as it does for a batch.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Iterable, Iterator

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.errors import AccountError
from pipeline.providers import LiveAnswer, LiveCall
from pipeline.providers._refusals import fault_of, retry_after

_TRIES = 5
_MOST_AT_ONCE = 32
_EASE_AFTER = 20
_FLUSH_SECONDS = 0.5
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TIMEOUT = httpx.Timeout(600.0, connect=10.0)
_LOST = b'{"error":{"message":"the call broke off","code":"connection_lost"}}'


class LiveClient:
    """Makes the calls of one live batch."""

    def __init__(
        self, call: LiveCall, *, rate: float, clock: Clock, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._call = call
        self._rate = rate
        self._clock = clock
        self._transport = transport
        self._stop = threading.Event()

    def answers(self, calls: Iterable[tuple[str, bytes]]) -> Iterator[list[LiveAnswer]]:
        """Make the calls and yield their answers as they arrive, about twice a second; also empty lists.

        Raises AccountError if the provider does not accept the key; what was answered by then has been yielded.
        """
        done: queue.Queue[LiveAnswer | BaseException | None] = queue.Queue()
        worker = threading.Thread(target=self._run, args=(list(calls), done, self._stop), daemon=True)
        worker.start()
        try:
            yield from _in_chunks(done)
        finally:
            self._stop.set()
            worker.join()

    def stop(self) -> None:
        """Begin no further call; what is under way is still answered and yielded."""
        self._stop.set()

    def _run(
        self,
        calls: list[tuple[str, bytes]],
        done: "queue.Queue[LiveAnswer | BaseException | None]",
        stop: threading.Event,
    ) -> None:
        try:
            asyncio.run(self._make(calls, done, stop))
            done.put(None)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits, which raises it
            done.put(error)

    async def _make(
        self,
        calls: list[tuple[str, bytes]],
        done: "queue.Queue[LiveAnswer | BaseException | None]",
        stop: threading.Event,
    ) -> None:
        pacer = _Pacer(self._rate)
        pending = iter(calls)
        async with httpx.AsyncClient(timeout=_TIMEOUT, transport=self._transport, trust_env=False) as client:

            async def work() -> None:
                for request_id, body in pending:
                    if stop.is_set():
                        return
                    done.put(await self._answer(client, pacer, request_id, body, stop=stop))

            workers = [asyncio.create_task(work()) for _ in range(min(_MOST_AT_ONCE, len(calls)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for each in workers:
                    each.cancel()

    async def _answer(
        self, client: httpx.AsyncClient, pacer: "_Pacer", request_id: str, body: bytes, *, stop: threading.Event
    ) -> LiveAnswer:
        answer = LiveAnswer(request_id=request_id, status=503, body=msgspec.Raw(_LOST))
        for number in range(_TRIES):
            if stop.is_set() and number:
                break
            async with pacer.turn():
                response = await self._post(client, body)
            if response is None:
                await asyncio.sleep(min(0.5 * 2**number, 8.0))
                continue
            fault = None if response.is_success else fault_of(response, "POST", response.url.path)
            if isinstance(fault, AccountError):
                raise fault
            answer = LiveAnswer(request_id=request_id, status=response.status_code, body=_json(response.content))
            if response.status_code not in _AGAIN:
                pacer.ease()
                return answer
            asked = retry_after(response)
            await pacer.slow_down(min(0.5 * 2**number, 8.0) if asked is None else asked)
        return answer

    async def _post(self, client: httpx.AsyncClient, body: bytes) -> httpx.Response | None:
        headers = {**self._call.headers, "content-type": "application/json"}
        with contextlib.suppress(httpx.HTTPError):
            return await client.post(self._call.url, content=body, headers=headers, follow_redirects=False)
        return None


class _Pacer:
    """Lets calls start at a steady rate; while the provider limits us, one after the other."""

    def __init__(self, rate: float) -> None:
        self._gap = 1.0 / rate
        self._next = 0.0
        self._alone = asyncio.Lock()
        self._limited = False
        self._good = 0

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for this call's turn."""
        async with contextlib.AsyncExitStack() as stack:
            if self._limited:
                await stack.enter_async_context(self._alone)
            loop = asyncio.get_running_loop()
            start = max(self._next, loop.time())
            self._next = start + self._gap
            await asyncio.sleep(start - loop.time())
            yield

    async def slow_down(self, seconds: float) -> None:
        """Start nothing for so long, and then only one call at a time."""
        self._limited, self._good = True, 0
        self._next = max(self._next, asyncio.get_running_loop().time() + seconds)
        await asyncio.sleep(0)

    def ease(self) -> None:
        """Note a call that went well; after many of them calls run side by side again."""
        self._good += 1
        if self._good >= _EASE_AFTER:
            self._limited = False


def _in_chunks(done: "queue.Queue[LiveAnswer | BaseException | None]") -> Iterator[list[LiveAnswer]]:
    """Yield what arrived in each half second, until the end mark."""
    while True:
        chunk: list[LiveAnswer] = []
        end: BaseException | bool = False
        with contextlib.suppress(queue.Empty):
            item = done.get(timeout=_FLUSH_SECONDS)
            while isinstance(item, LiveAnswer):
                chunk.append(item)
                item = done.get_nowait() if len(chunk) < 1000 else done.get(timeout=_FLUSH_SECONDS)
            end = item if isinstance(item, BaseException) else True
        yield chunk
        if isinstance(end, BaseException):
            raise end
        if end:
            return


def _json(body: bytes) -> msgspec.Raw:
    """Return the body as it came if it is JSON on one line, else what is nearest to it."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
        return msgspec.Raw(msgspec.json.format(body, indent=-1) if b"\n" in body else body)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(body[:100_000].decode(errors="replace")))
