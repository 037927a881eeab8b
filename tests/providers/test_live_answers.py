"""What stands for a live call without an answer that can be kept means the same for every provider."""

import http.server
import threading
from collections.abc import Iterator

import msgspec
import pytest

from pipeline import providers
from pipeline.clock import SystemClock
from pipeline.providers import LiveAnswer, LiveCall, _live, live_client

LIVE = [name for name in providers.names() if "live" in providers.module(name).MODES]


def output(name: str, status: int, body: bytes) -> tuple[str, bool]:
    answer = LiveAnswer(request_id="r", status=status, body=msgspec.Raw(body))
    found = providers.live_module(name).decode_live(msgspec.json.encode(answer))
    return found.status, found.again


@pytest.mark.parametrize("name", LIVE)
def test_a_call_that_broke_off_is_made_again(name: str) -> None:
    assert output(name, 503, _live._LOST) == ("errored", True)


@pytest.mark.parametrize("name", LIVE)
def test_an_answer_that_did_not_end_is_not_asked_for_again(name: str) -> None:
    assert output(name, 200, _live._TOO_LARGE) == ("errored", False)


class _Twice(http.server.BaseHTTPRequestHandler):
    """Answers every call with what was asked, twice, and keeps the connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body) * 2)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def answering_twice() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Twice) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_second_answer_to_one_call_is_not_taken_for_the_answer_to_the_next(answering_twice: str) -> None:
    client = live_client(LiveCall(answering_twice, {}), rate=500.0, clock=SystemClock(), patience=5.0)
    calls = [(f"r{number}", b"%d" % number) for number in range(60)]
    found = {answer.request_id: bytes(answer.body) for some in client.answers(calls) for answer in some}
    assert found == dict(calls)
