"""A proxy in front of an object store that counts requests and spoils chosen ones."""

import http.client
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import parse_qs, urlsplit

import msgspec

from pipeline.storage._s3_client import S3Client

Act = Literal["cut", "lost", "garbled"] | tuple[int, bytes]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it passed."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]

    @property
    def kind(self) -> str:
        """LIST for a listing, else the method."""
        is_list = "list-type" in self.query or (self.method == "GET" and self.path.endswith("/o"))
        return "LIST" if is_list else self.method


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to the next `times` requests that match, instead of an answer.

    cut: the request is not passed on and the connection breaks. lost: it is passed on, its answer is not.
    garbled: the answer's body comes backwards. An answer is given in the store's place.
    """

    matches: Callable[[Call], bool]
    act: Act
    times: int = 1


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the store answered."""

    status: int
    headers: list[tuple[str, str]]
    content: bytes


class Proxy:
    """What passed, and what is to go wrong."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream).netloc
        self._lock = threading.Lock()
        self._faults: list[list[Fault]] = []
        self.calls: list[Call] = []
        self.url = ""
        self.s3_client: S3Client | None = None

    def spoil(self, matches: Callable[[Call], bool], act: Act, times: int = 1) -> None:
        """Let the next requests that match go wrong."""
        self._faults.append([Fault(matches=matches, act=act)] * times)

    def forget(self) -> None:
        """Begin anew for another test."""
        self._faults.clear()
        self.calls.clear()

    def counts(self) -> Counter[str]:
        """How many requests of each kind passed."""
        return Counter(call.kind for call in self.calls)

    def take(self, call: Call) -> Act | None:
        with self._lock:
            self.calls.append(call)
            for faults in self._faults:
                if faults and faults[0].matches(call):
                    return faults.pop().act
        return None

    def forward(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> Answer:
        """Return what the store answers; the Host header stays, for the signature covers it."""
        with closing(http.client.HTTPConnection(self._upstream, timeout=60)) as connection:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return Answer(status=answer.status, headers=answer.getheaders(), content=answer.read())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def _pass(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = Call(
            method=self.command,
            path=parts.path,
            query=parse_qs(parts.query, keep_blank_values=True),
            headers={name.lower(): value for name, value in self.headers.items()},
        )
        act = self.proxy.take(call)
        if act == "cut":
            self.close_connection = True
            return
        if isinstance(act, tuple):
            self._reply(act[0], [("Content-Type", "application/xml")], act[1])
            return
        answer = self.proxy.forward(self.command, self.path, list(self.headers.items()), body)
        if act == "lost":
            self.close_connection = True
            return
        content = answer.content[::-1] if act == "garbled" else answer.content
        self._reply(answer.status, answer.headers, content)

    def _reply(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        dropped = {"transfer-encoding", "connection", "content-length"}
        for name, value in headers:
            if name.lower() not in dropped or (self.command == "HEAD" and name.lower() == "content-length"):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass  # noqa: N815 - the names http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def proxied(upstream: str) -> Iterator[Proxy]:
    """Run a proxy in front of the server at this address until the block ends."""
    proxy = Proxy(upstream)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": proxy}))
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
