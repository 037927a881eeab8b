"""What only Anthropic does: requests inside the create call, candidates in place of a key, thinking by family."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clock import FixedClock, SystemClock
from pipeline.domain import Judge
from pipeline.errors import AccountError, ConfigError, CorruptObjectError, OutcomeUnknownError, UnavailableError
from pipeline.providers import Sought, Submission, anthropic
from pipeline.settings import Settings
from pipeline.simulator import Simulator

KEY = {"ANTHROPIC_API_KEY": "canary-ant"}


def a_judge(model: str = "claude-haiku-5-5", **more: Any) -> Judge:
    return Judge(provider="anthropic", model=model, **more)


def a_submission(lines: bytes, *, chunks: Callable[[], Iterator[bytes]] | None = None, **more: Any) -> Submission:
    return Submission(
        batch_key="pl-1",
        labels={},
        judge=a_judge(**more),
        requests=lines.count(b"\n"),
        size=len(lines),
        chunks=chunks or (lambda: iter([lines])),
    )


def params_of(judge: Judge, schema: dict[str, object] | None = None) -> dict[str, Any]:
    texts = anthropic.frame(judge, schema=schema).texts
    return dict(json.loads(b"x".join(texts))["params"])


class Seen:
    """Answers every call and remembers it."""

    def __init__(self, status: int = 200, body: object = None) -> None:
        self.calls: list[httpx.Request] = []
        self._answer = (status, body or {"id": "msgbatch_1", "processing_status": "in_progress"})

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.calls.append(request)
        return httpx.Response(self._answer[0], json=self._answer[1])


def built(seen: Callable[[httpx.Request], httpx.Response], **environment: str) -> anthropic.Anthropic:
    settings = Settings({**KEY, **environment})
    clock = FixedClock(datetime(2026, 11, 16, tzinfo=UTC))
    return anthropic.build(settings, clock, transport=httpx.MockTransport(seen))


@given(count=st.integers(1, 6), cuts=st.lists(st.integers(0, 300), max_size=6), newline=st.booleans())
def test_the_create_body_is_the_lines_however_they_are_cut(count: int, cuts: list[int], newline: bool) -> None:
    rows = [{"custom_id": f"r{number}", "params": {"text": "a\nb,]}"}} for number in range(count)]
    lines = b"\n".join(json.dumps(row).encode() for row in rows) + (b"\n" if newline else b"")
    places = [0, *sorted(min(cut, len(lines)) for cut in cuts), len(lines)]
    chunks = [lines[begin:end] for begin, end in pairwise(places)]
    seen = Seen()
    with closing(built(seen)) as provider:
        provider.create(a_submission(lines, chunks=lambda: iter(chunks)), file_id=None)
    assert json.loads(seen.calls[0].content) == {"requests": rows}
    assert seen.calls[0].headers["content-length"] == str(len(seen.calls[0].content))
    assert "transfer-encoding" not in seen.calls[0].headers


def test_an_input_that_proves_damaged_never_becomes_a_whole_body(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    line = json.dumps({"custom_id": "r0", "params": {"model": "m", "max_tokens": 1, "messages": []}}).encode() + b"\n"

    def chunks() -> Iterator[bytes]:
        yield line
        raise CorruptObjectError("not what was prepared")

    settings = Settings({**KEY, "ANTHROPIC_BASE_URL": simulator.anthropic_base_url})
    with closing(anthropic.build(settings, SystemClock())) as provider, pytest.raises(CorruptObjectError):
        provider.create(a_submission(line, chunks=chunks), file_id=None)
    assert simulator.ledger.batches == []


@pytest.mark.parametrize(
    ("environment", "more", "version"),
    [
        ({}, {}, "2026-10-21"),
        ({"ANTHROPIC_VERSION": "2023-06-01"}, {}, "2023-06-01"),
        ({}, {"model": "claude-haiku-4-5", "temperature": 0.0}, "2023-06-01"),
    ],
)
def test_the_version_follows_setting_and_judge(environment: dict[str, str], more: dict[str, Any], version: str) -> None:
    seen = Seen()
    with closing(built(seen, **environment)) as provider:
        provider.create(a_submission(b"{}\n", **more), file_id=None)
    assert seen.calls[0].headers["anthropic-version"] == version
    call = anthropic.live_call(Settings({**KEY, **environment}), a_judge(**more))
    assert call.headers["anthropic-version"] == version


def test_results_are_only_ever_fetched_from_our_own_address() -> None:
    elsewhere = "https://elsewhere.example/results"
    seen = Seen(body={"id": "msgbatch_1", "processing_status": "ended", "results_url": elsewhere})
    with closing(built(seen)) as provider:
        parts = provider.status("msgbatch_1").parts
        list(provider.download(parts["output"]))
    assert {call.url.host for call in seen.calls} == {"api.anthropic.com"}


def test_missing_credit_is_the_accounts_fault_even_as_a_400() -> None:
    error = {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}
    with closing(built(Seen(400, {"type": "error", "error": error}))) as provider, pytest.raises(AccountError):
        provider.create(a_submission(b"{}\n"), file_id=None)


def test_overload_leaves_a_create_unknown() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with closing(built(Seen(529, error))) as provider, pytest.raises(OutcomeUnknownError):
        provider.create(a_submission(b"{}\n"), file_id=None)


def test_candidates_are_told_by_time_and_number_and_proven_by_their_ids(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    settings = Settings({**KEY, "ANTHROPIC_BASE_URL": simulator.anthropic_base_url})
    now = datetime.now(UTC)
    with closing(anthropic.build(settings, SystemClock())) as provider:
        made = {count: provider.create(a_submission(some_lines(count)), file_id=None) for count in (2, 3)}
        assert [batch.remote_id for batch in provider.candidates(since=now, requests=3)] == [made[3]]
        assert provider.candidates(since=now, requests=4) == []
        assert provider.candidates(since=now + timedelta(minutes=20), requests=3) == []
        assert provider.find(Sought(batch_key="pl-1", since=now)) == []
        while provider.status(made[3]).end is None:
            pass
        assert sorted(provider.custom_ids(made[3])) == ["r0", "r1", "r2"]


@pytest.mark.parametrize(
    ("counts", "is_candidate"),
    [({"processing": 3}, True), ({"processing": 2}, False), ({"processing": 0}, True), ({}, True), (None, True)],
)
def test_a_batch_that_counts_nothing_yet_may_be_ours(counts: dict[str, int] | None, is_candidate: bool) -> None:
    row = {"id": "msgbatch_1", "processing_status": "in_progress", "request_counts": counts}
    with closing(built(Seen(body={"data": [row]}))) as provider:
        found = provider.candidates(since=datetime(2026, 11, 16, tzinfo=UTC), requests=3)
    assert [batch.end for batch in found] == [None] * is_candidate


@pytest.mark.parametrize("more", [{"data": []}, {"data": [{"id": "msgbatch_1", "processing_status": "ended"}]}])
def test_a_listing_whose_end_is_not_reached_proves_nothing(more: dict[str, Any]) -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    with closing(built(Seen(body={**more, "has_more": True}))) as provider, pytest.raises(UnavailableError):
        provider.candidates(since=now, requests=3)


@pytest.mark.parametrize("wrong", ["1970-01-01T00:00:00Z", "2026-11-01T00:00:00Z"])
def test_an_entry_with_an_old_or_a_wrong_time_does_not_end_a_listing(wrong: str) -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)

    def listed(number: int, made: str) -> dict[str, Any]:
        return {"id": f"msgbatch_{number}", "processing_status": "in_progress", "created_at": made}

    others = [] if wrong.startswith("1970") else [listed(3, now.isoformat())]
    first = {"data": [*others, listed(2, wrong)], "has_more": True}
    pages = iter([first, {"data": [listed(1, now.isoformat())], "has_more": False}])
    with closing(built(lambda request: httpx.Response(200, json=next(pages)))) as provider:
        found = provider.candidates(since=now, requests=3)
    assert "msgbatch_1" in [batch.remote_id for batch in found]


def some_lines(count: int) -> bytes:
    message = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    return b"".join(json.dumps({"custom_id": f"r{at}", "params": message}).encode() + b"\n" for at in range(count))


def test_damaged_lines_are_left_out_of_the_ids() -> None:
    lines = b'\xff\n{"custom_id":"a","result":{}}\r\n\n{"custom_id":\n{"custom_id":7}\n{"custom_id":"b","result":'
    with closing(built(lambda request: httpx.Response(200, content=lines + b"{}}"))) as provider:
        assert list(provider.custom_ids("msgbatch_1")) == ["a", "b"]


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("model", "reasoning", "thinking", "effort", "max_tokens"),
    [
        ("claude-haiku-5-5", "default", None, None, 4096 + 8192),
        ("claude-haiku-5-5", "none", {"type": "disabled"}, None, 4096),
        ("claude-haiku-5-5", "low", ADAPTIVE, "low", 8192),
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}, None, 4096),
        ("claude-sonnet-5", "none", {"type": "disabled"}, None, 4096),
        ("claude-opus-5-5", "max", ADAPTIVE, "max", 4096 + 49152),
        ("claude-opus-4-8", "default", None, None, 4096),
        ("claude-opus-4-6", "high", ADAPTIVE, "high", 4096 + 16384),
        (
            "claude-haiku-4-5-20251001", "medium",
            {"type": "enabled", "budget_tokens": 8192, "display": "summarized"}, None, 4096 + 8192,
        ),
        ("claude-next-9", "default", None, None, 4096 + 16384),
        ("claude-next-9", "xhigh", ADAPTIVE, "xhigh", 4096 + 32768),
    ],
)  # fmt: skip
def test_reasoning_is_asked_for_as_the_family_takes_it(
    model: str, reasoning: str, thinking: object, effort: str | None, max_tokens: int
) -> None:
    judge = a_judge(model, reasoning=reasoning)
    anthropic.check_judge(judge)
    params = params_of(judge)
    assert params.get("thinking") == thinking
    assert params.get("output_config", {}).get("effort") == effort
    assert params["max_tokens"] == max_tokens


@pytest.mark.parametrize(
    ("model", "more", "says"),
    [
        ("claude-opus-5-5", {"reasoning": "none"}, "always thinks"),
        ("claude-fable-5-2", {"reasoning": "none"}, "always thinks"),
        ("claude-haiku-5-5", {"reasoning": "minimal"}, "minimal"),
        ("claude-sonnet-5", {"temperature": 0.0}, "temperature"),
        ("claude-opus-4-7", {"temperature": 0.0}, "temperature"),
        ("claude-sonnet-4-5", {"temperature": 0.0, "reasoning": "low"}, "temperature"),
        ("claude-haiku-4-5", {"reasoning": "high", "max_output_tokens": 2000}, "max_output_tokens 2000"),
    ],
)
def test_what_is_known_to_be_refused_is_refused(model: str, more: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        anthropic.check_judge(a_judge(model, **more))


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("claude-sonnet-4-6", {"temperature": 0.0}),
        ("claude-next-9", {"temperature": 0.5, "reasoning": "none"}),
        ("claude-haiku-5-5", {"reasoning": "low", "max_output_tokens": 200}),
    ],
)
def test_what_is_not_known_to_be_refused_is_sent(model: str, more: dict[str, Any]) -> None:
    anthropic.check_judge(a_judge(model, **more))


def test_a_schema_travels_beside_the_effort() -> None:
    schema: dict[str, object] = {"type": "object", "additionalProperties": False}
    config = params_of(a_judge(reasoning="low"), schema)["output_config"]
    assert config == {"effort": "low", "format": {"type": "json_schema", "schema": schema}}


PROGRAM = """
import pathlib, threading, http.server
from pipeline.clock import SystemClock
from pipeline.domain import Judge
from pipeline.providers import Submission, anthropic
from pipeline.settings import Settings

class Sink(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        left = int(self.headers["content-length"])
        while left:
            left -= len(self.rfile.read(min(left, 1 << 20)))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"id":"msgbatch_1"}')
    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
threading.Thread(target=server.serve_forever, daemon=True).start()
line = b'{"custom_id":"r0","params":"%b"}\\n' % (b"x" * 2000)
block = line * 1000
environment = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}"}
provider = anthropic.build(Settings(environment), SystemClock())
submission = Submission(
    batch_key="k", labels={}, judge=Judge(provider="anthropic", model="m"), requests=100_000, size=100 * len(block),
    chunks=lambda: (block for _ in range(100)),
)
assert submission.size > 200_000_000
provider.create(submission, file_id=None)
status = pathlib.Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of its memory from Linux")
def test_two_hundred_megabytes_are_sent_in_little_memory() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < 128
