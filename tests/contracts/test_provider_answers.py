"""What answers of every provider mean, recorded or made up, and that damaged ones are refused."""

import contextlib
import json
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import providers
from pipeline.clock import FixedClock
from pipeline.domain import Output
from pipeline.providers import LiveAnswer, RemoteBatch
from pipeline.settings import Settings
from tests.contracts.trials import ADAPTERS, BATCH, GOLDEN, LIVE, golden

FIELDS = ["custom_id", "key", "result", "response", "request", "error", "status", "type"]
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5), lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner)
)


@pytest.mark.parametrize("name", BATCH)
def test_the_id_of_a_recorded_line_stands_where_the_module_says(name: str) -> None:
    """A line that is not as we know it was paid for: whose it is can still be told."""
    found = 0
    for file in (GOLDEN / name).glob("line.*.json"):
        case = json.loads(file.read_text("utf-8"))
        value = case["line"]
        for member in providers.particulars(name).ID_PATH:
            value = value.get(member) if isinstance(value, dict) else None
        assert value in {case["output"]["request_id"], None}
        found += value is not None
    assert found >= len(list((GOLDEN / name).glob("line.*.json"))) - 1


@pytest.mark.parametrize(("name", "case"), golden("line"))
def test_a_recorded_line_means_this_output(name: str, case: dict[str, Any]) -> None:
    line = json.dumps(case["line"], ensure_ascii=False).encode()
    assert providers.batch_module(name).decode(line) == msgspec.convert(case["output"], Output)


@pytest.mark.parametrize("name", [name for name in BATCH if providers.particulars(name).decode_lines])
def test_recorded_lines_mean_together_what_they_mean_alone(name: str) -> None:
    cases = [json.loads(file.read_text("utf-8"))["line"] for file in sorted((GOLDEN / name).glob("line.*.json"))]
    lines = [json.dumps(line, ensure_ascii=False).encode() for line in cases]
    decode_lines = providers.particulars(name).decode_lines
    assert decode_lines is not None
    assert decode_lines(b"\n".join(lines) + b"\n") == [providers.batch_module(name).decode(line) for line in lines]
    with pytest.raises((ValueError, msgspec.DecodeError)):
        decode_lines(b"\n".join([*lines, lines[0][:-1]]))


@pytest.mark.parametrize(("name", "case"), golden("live"))
def test_a_recorded_live_answer_means_this_output(name: str, case: dict[str, Any]) -> None:
    line = json.dumps(case["line"], ensure_ascii=False).encode()
    assert providers.live_module(name).decode_live(line) == msgspec.convert(case["output"], Output)


@pytest.mark.parametrize(("name", "case"), golden("batch"))
def test_a_recorded_batch_means_this(name: str, case: dict[str, Any], clock: FixedClock) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=case["answer"]))
    provider = providers.batch_module(name).build(Settings(ADAPTERS[name].offline), clock, transport=transport)
    with contextlib.closing(provider):
        assert provider.status(case["batch"]["remote_id"]) == msgspec.convert(case["batch"], RemoteBatch)


@pytest.mark.parametrize("name", BATCH)
def test_recorded_lines_cover_what_can_happen_to_a_request(name: str) -> None:
    cases = [json.loads(file.read_text("utf-8"))["output"] for file in (GOLDEN / name).glob("line.*.json")]
    assert {case["status"] for case in cases} >= {"answered", "truncated", "refused", "errored"}
    assert {case.get("again", False) for case in cases if case["status"] == "errored"} == {True, False}


WANTS_MONEY = (
    "insufficient_quota", "payment_required", "billing_hard_limit_reached", "credit_limit", "Insufficient balance",
)  # fmt: skip


def with_words(value: Any, words: str, other: str) -> Any:
    """The same line in other words; what stands alone as an error that says nothing says them too."""
    if isinstance(value, dict):
        silent = value.get("error", "") is None and value.get("response") is None
        told = {key: with_words(inner, words, other) for key, inner in value.items()}
        return told | ({"error": {"code": other}} if silent else {})
    return other if value == words else value


@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize("words", WANTS_MONEY)
def test_a_line_that_failed_for_want_of_money_says_so_in_any_of_the_words(name: str, words: str) -> None:
    cases = [json.loads(file.read_text("utf-8")) for file in sorted((GOLDEN / name).glob("line.errored.*.json"))]
    decode = providers.batch_module(name).decode
    altered = 0
    for case in cases:
        said = case["output"]["reason"]
        line = with_words(case["line"], said.partition(": ")[2] or said, words)
        altered += line != case["line"]
        assert decode(json.dumps(line).encode()).unpaid == (line != case["line"])
    assert altered, "no recorded line names its reason"


@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"{", b"{}", b"[]", b"null", b'"text"', b"\xff\xfe{}", b"NaN", b'{"custom_id":NaN}', b"\x00",
        b"[" * 100_000, b'{"a":' * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_line_is_refused(name: str, damaged: bytes) -> None:
    with pytest.raises((ValueError, msgspec.DecodeError, RecursionError)):
        providers.batch_module(name).decode(damaged)


@pytest.mark.parametrize(("name", "case"), golden("line"))
def test_a_line_cut_anywhere_is_refused(name: str, case: dict[str, Any]) -> None:
    line = json.dumps(case["line"], ensure_ascii=False).encode()
    for length in range(0, len(line) - 1, 7):
        with pytest.raises((ValueError, msgspec.DecodeError)):
            providers.batch_module(name).decode(line[:length])


@pytest.mark.parametrize("name", BATCH)
@settings(max_examples=25)
@given(line=st.binary(max_size=200) | DOCUMENTS.map(lambda value: json.dumps(value).encode()))
def test_no_line_breaks_the_decoder(name: str, line: bytes) -> None:
    with contextlib.suppress(ValueError, msgspec.DecodeError):
        assert isinstance(providers.batch_module(name).decode(line), Output)


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize(
    ("status", "body", "again"),
    [
        (429, b'{"error":{"message":"slow down"}}', True),
        (503, b'{"error":{"message":"busy"}}', True),
        (500, b'"an oddity"', True),
        (408, b"null", True),
        (400, b'{"error":{"message":"no such field"}}', False),
        (404, b'{"error":{"message":"no such model"}}', False),
    ],
)
def test_a_refused_live_call_is_an_output_too(name: str, status: int, body: bytes, again: bool) -> None:
    line = msgspec.json.encode(LiveAnswer(request_id="r-9", status=status, body=msgspec.Raw(body)))
    output = providers.live_module(name).decode_live(line)
    assert (output.request_id, output.status, output.again) == ("r-9", "errored", again)
    assert output.reason
