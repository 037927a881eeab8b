"""Live calls: many at once, at a steady rate, and one by one for as long as the provider says "too many".

A call that timed out or failed in between is made again; after a few tries the last answer stands, and the engine
sends the request again as it does for a batch. Whatever stops the calls, those under way are paid for: their answers
are waited for and handed over. While nobody takes answers no call begins: whoever should may have been replaced.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterable, Iterator

import httpx
import msgspec

from pipeline.clock import Clock
from pipeline.errors import AccountError, RejectedError
from pipeline.providers import LiveAnswer, LiveCall
from pipeline.providers._bodies import with_content
from pipeline.providers._refusals import fault_of, retry_after, without_keys

_TRIES = 5
_MOST_AT_ONCE = 32
_EASE_AFTER = 20
_FLUSH_SECONDS = 0.5
_LOOK_SECONDS = 0.2
_MOST_A_CHUNK = 1_000
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TIMEOUT = httpx.Timeout(600.0, connect=10.0)
# Connections: on one that goes on, a server's second answer to a call would be taken for the answer to the next.
_ONE_CALL_EACH = httpx.Limits(max_connections=None, max_keepalive_connections=0)
_LARGEST_ANSWER = 8 * 2**20  # longer lines of outputs are not read, and a call without a line is made again
_LOST = b'{"error":{"message":"the call broke off","code":"connection_lost"}}'
_TOO_LARGE = b'{"error":{"message":"the answer did not end","code":"answer_too_large"}}'
# What a 403 says of one prompt (OpenRouter, xAI, Azure), and what it says of whoever sent it, which weighs more.
_OF_CONTENT = ("moderat", "safety", "flagged", "content polic", "content_polic", "content filter", "content_filter",
               "usage guidelines")  # fmt: skip
_OF_ACCOUNT = ("account", "organi", "api key", "api_key", "credit", "billing", "quota", "permission", "subscription")


class Calls:
    """Makes the calls of one live batch."""

    def __init__(
        self,
        call: LiveCall,
        *,
        rate: float,
        clock: Clock,
        patience: float,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._call = call
        self._rate = rate
        self._clock = clock
        self._patience = patience
        self._taken_at = clock.monotonic()
        self._transport = transport
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._worker: threading.Thread | None = None
        self._arrived: list[LiveAnswer] = []
        self._fault: BaseException | None = None

    def answers(self, calls: Iterable[tuple[str, bytes]]) -> Iterator[list[LiveAnswer]]:
        """Make the calls and yield their answers as they arrive, about twice a second; also empty lists.

        Raises AccountError if the provider does not accept the key, or is not at that address, once everything answered
        or under way has been yielded. A caller that is interrupted gets the rest from `rest`.
        """
        self._worker = threading.Thread(target=self._run, args=(list(calls),), daemon=True)
        self._worker.start()
        yield from self._chunks()
        if self._fault is not None:
            raise self._fault

    def rest(self) -> Iterator[list[LiveAnswer]]:
        """Begin no further call; yield the last list again if it was not taken, and what is still under way."""
        self.stop()
        yield from self._chunks()

    def stop(self) -> None:
        """Begin no further call; what is under way is still answered and yielded."""
        self._stop.set()

    def _chunks(self) -> Iterator[list[LiveAnswer]]:
        """Yield what arrived in each half second; a list counts as taken when the next one is asked for."""
        ended = self._worker is None
        while not ended or self._arrived:
            is_much = len(self._arrived) >= _MOST_A_CHUNK
            ended = self._ended.wait(0 if is_much else _FLUSH_SECONDS) or not (self._worker and self._worker.is_alive())
            chunk, handed_at = self._arrived[:_MOST_A_CHUNK], self._clock.monotonic()
            yield chunk
            self._taken_at = handed_at
            del self._arrived[: len(chunk)]

    def _run(self, calls: list[tuple[str, bytes]]) -> None:
        try:
            asyncio.run(self._make(calls))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits, which raises it
            self._fault = error
        finally:
            self._ended.set()

    async def _make(self, calls: list[tuple[str, bytes]]) -> None:
        pacer = _Pacer(self._rate, self._stop)
        pending = iter(calls)
        faults: list[AccountError] = []
        async with httpx.AsyncClient(
            timeout=_TIMEOUT, limits=_ONE_CALL_EACH, transport=self._transport, trust_env=False
        ) as client:

            async def work() -> None:
                for request_id, body in pending:
                    if self._stop.is_set():
                        return
                    try:
                        answer = await self._answer(client, pacer, request_id, body)
                    except AccountError as fault:
                        faults.append(fault)
                        self.stop()
                    else:
                        if answer is not None:
                            self._arrived.append(answer)

            workers = [asyncio.create_task(work()) for _ in range(min(_MOST_AT_ONCE, len(calls)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for each in workers:
                    each.cancel()
        if faults:
            raise faults[0]

    async def _answer(
        self, client: httpx.AsyncClient, pacer: "_Pacer", request_id: str, body: bytes
    ) -> LiveAnswer | None:
        """Return the answer to a call, or None if the calls were stopped before it had one to keep."""
        answer = LiveAnswer(request_id=request_id, status=503, body=msgspec.Raw(_LOST))
        for number in range(_TRIES):
            async with pacer.turn():
                if not await self._may_begin():
                    return None
                response = await self._post(client, body)
            if response is None:
                await pacer.wait(min(0.5 * 2**number, 8.0))
                continue
            fault = None if response.is_success else fault_of(response, "POST", response.url.path)
            if isinstance(fault, RejectedError) and fault.is_of_another_place:
                raise AccountError(str(fault), code=fault.code) from fault
            if isinstance(fault, AccountError) and not _is_about_content(response):
                raise fault
            said = without_keys(response.content, response.request)
            answer = LiveAnswer(request_id=request_id, status=response.status_code, body=_json(said))
            if response.status_code not in _AGAIN:
                pacer.ease()
                return answer
            asked = retry_after(response)
            await pacer.slow_down(min(0.5 * 2**number, 8.0) if asked is None else asked)
        return answer

    async def _may_begin(self) -> bool:
        """Say whether a call may begin, once answers are being taken; not if the calls were stopped."""
        while not self._stop.is_set() and self._clock.monotonic() - self._taken_at > self._patience:
            await asyncio.sleep(_LOOK_SECONDS)
        return not self._stop.is_set()

    async def _post(self, client: httpx.AsyncClient, body: bytes) -> httpx.Response | None:
        headers = {**self._call.headers, "content-type": "application/json"}
        request = client.build_request("POST", self._call.url, content=body, headers=headers)
        with contextlib.suppress(httpx.HTTPError):
            response = await client.send(request, stream=True, follow_redirects=False)
            async with contextlib.aclosing(response):
                return with_content(response, await _read(response))
        return None


async def _read(response: httpx.Response) -> bytes:
    """Return what came back, read no further than an answer is long; one that goes on is paid for all the same."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _LARGEST_ANSWER:
            return _TOO_LARGE
    return bytes(body)


def _is_about_content(response: httpx.Response) -> bool:
    """Say whether a 403 is about this one prompt: it names content, and neither the account nor its money."""
    words = response.text.lower() if response.status_code == 403 else ""
    return any(word in words for word in _OF_CONTENT) and not any(word in words for word in _OF_ACCOUNT)


class _Pacer:
    """Lets calls start at a steady rate; while the provider limits us, one after the other."""

    def __init__(self, rate: float, stop: threading.Event) -> None:
        self._gap = 1.0 / rate
        self._stop = stop
        self._next = 0.0
        self._alone = asyncio.Lock()
        self._limited = False
        self._good = 0

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for this call's turn, or until the calls are stopped."""
        async with contextlib.AsyncExitStack() as stack:
            if self._limited:
                await stack.enter_async_context(self._alone)
            loop = asyncio.get_running_loop()
            start = max(self._next, loop.time())
            self._next = start + self._gap
            await self.wait(start - loop.time())
            yield

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until the calls are stopped."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0 and not self._stop.is_set():
            await asyncio.sleep(min(left, _LOOK_SECONDS))

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


def _json(body: bytes) -> msgspec.Raw:
    """Return the body as it came if it is JSON on one line, else what is nearest to it."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
        return msgspec.Raw(msgspec.json.format(body, indent=-1) if b"\n" in body else body)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(body[:100_000].decode(errors="replace")))
