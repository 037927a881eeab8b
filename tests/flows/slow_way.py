"""A way to the simulator on which answers take their time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx

from pipeline.simulator import Simulator


@contextmanager
def slow_way(
    simulator: Simulator, *, seconds: float, marked: bytes | None = None, refusal: bytes = b"", status: int = 403
) -> Iterator[str]:
    """A way to the simulator on which an answer takes so long; prompts with the mark get the refusal instead."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if marked and marked in body:
                time.sleep(seconds / 2)
                self._reply(status, refusal)
                return
            passed = {name: self.headers[name] for name in ("authorization", "content-type")}
            answer = httpx.post(simulator.url + self.path, content=body, headers=passed, trust_env=False)
            time.sleep(seconds)
            self._reply(answer.status_code, answer.content)

        def _reply(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Keep standard error for what went wrong."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
