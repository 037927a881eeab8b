"""What stands for a live call without an answer that can be kept means the same for every provider."""

import msgspec
import pytest

from pipeline import providers
from pipeline.clock import SystemClock
from pipeline.providers import LiveAnswer, LiveCall, _live, live_client
from tests.providers.twice import answering_twice

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


def test_a_second_answer_to_one_call_is_not_taken_for_the_answer_to_the_next() -> None:
    calls = [(f"r{number}", b"%d" % number) for number in range(60)]
    with answering_twice(lambda asked: asked) as address:
        client = live_client(LiveCall(address, {}), rate=500.0, clock=SystemClock(), patience=5.0)
        found = {answer.request_id: bytes(answer.body) for some in client.answers(calls) for answer in some}
    assert found == dict(calls)
