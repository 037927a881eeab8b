"""Result files as no provider should write them: each bad line costs one row at most, and stops no other."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from pipeline.clock import SystemClock
from pipeline.ids import ExperimentName
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from pipeline.storage.local import LocalStore
from pipeline.storage.streams import LONGEST_LINE, lines
from tests.conftest import environment
from tests.flows.studies import counts, finished, problems, rows

ESSAYS = ExperimentName("essays")


class _Altered(httpx.HTTPTransport):
    """Changes the first line of the first result file that passes."""

    def __init__(self, alter: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._alter: Callable[[bytes], bytes] | None = alter

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if not request.url.path.endswith("/content") or self._alter is None:
            return response
        first, _, rest = response.read().partition(b"\n")
        altered, self._alter = self._alter(first), None
        return httpx.Response(200, content=altered + b"\n" + rest)


def _deep(line: bytes) -> bytes:
    return line[:-1] + b',"more":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("alter", "statuses"),
    [
        (_deep, {"ok": 6}),
        (lambda line: line[:-1] + b',"more":"' + b"x" * (64 * 2**20) + b'"}', {"ok": 6}),
        (lambda line: line[:-1] + b',"more":NaN}', {"ok": 6}),
        (lambda line: line[:-1] + b',"more":1e999}', {"ok": 6}),
        (lambda line: line[:-1] + b',"more":' + b"9" * 5000 + b"}", {"ok": 6}),
        (lambda line: line[: len(line) // 2], {"ok": 6}),
        (lambda line: b"\xff\xfe" + line, {"ok": 6}),
        (lambda line: line + b"\n" + line, {"ok": 6}),
        (lambda line: line + b'\n{"custom_id":"' + b"0" * 32 + b'","response":null}', {"ok": 6}),
        (lambda line: line + b'\n{"custom_id":null}\n{"custom_id":7}\n{"custom_id":[]}\n[]\n7\n\n\r\n', {"ok": 6}),
        (lambda line: line + b"\r", {"ok": 6}),
        (lambda line: line + b" " + line, {"ok": 6}),
        (lambda line: line[:9] + b"\0" * 9 + line[9:], {"ok": 6}),
        (lambda line: b"\0" * 100 + b"\n" + line, {"ok": 6}),
        (lambda line: b"\n" * 2**22 + line, {"ok": 6}),
        (lambda line: b"{" + _id(line) + b',"response":null,"error":null}', None),
        (lambda line: _with_body(line, b'{"error":{"message":"no","code":"odd"}}'), None),
        (lambda line: _with_body(line, b'{"choices":[]}'), None),
        (lambda line: _with_body(line, b'{"choices":[{"message":{"content":null}}]}'), {"ok": 5, "unparsed": 1}),
        (lambda line: _with_body(line, b'{"choices":[{"message":{"content":[]}}]}'), {"ok": 5, "unparsed": 1}),
        (
            lambda line: line.replace(b'"total_tokens"', b'"prompt_tokens":-5,"completion_tokens":99999999999,"x"'),
            {"ok": 6},
        ),
        (lambda line: line.replace(b'"usage"', b'"was"'), {"ok": 6}),
        (lambda line: line.replace(b'"created"', b'"created":1e300,"x"'), {"ok": 6}),
    ],
    ids=[
        "deep", "64MB", "NaN", "1e999", "5000 digits", "cut", "not UTF-8", "doubled", "foreign", "no id", "CRLF",
        "two in one", "NUL inside", "NUL alone", "newlines", "null null", "error at 200", "no choice", "null content",
        "no content", "odd usage", "no usage", "odd time",
    ],
)  # fmt: skip
def test_one_bad_line_stops_no_other(
    simulate: Callable[..., Simulator],
    store: LocalStore,
    experiment_file: Callable[..., Path],
    alter: Callable[[bytes], bytes],
    statuses: dict[str, int] | None,
) -> None:
    settings = Settings(environment(simulate(), PAIRLOG_QUIET_SECONDS="0.1", PAIRLOG_LEASE_SECONDS="5"))
    with Worker(store, clock=SystemClock(), settings=settings, transport=_Altered(alter)) as worker:
        assert not finished(worker, experiment_file(samples=4)).is_open
        found = {name: count for name, count in counts(worker).items() if count and name != "planned"}
        assert found == (statuses or {"ok": 5, "errored": 1})
        assert rows(worker).num_rows == 6
        assert problems(worker) == []


def test_what_was_wrong_is_counted_once_however_often_the_lines_are_read(
    simulate: Callable[..., Simulator], store: LocalStore, experiment_file: Callable[..., Path]
) -> None:
    settings = Settings(environment(simulate(), PAIRLOG_QUIET_SECONDS="0.1", PAIRLOG_LEASE_SECONDS="5"))
    foreign = b'{"custom_id":"' + b"0" * 32 + b'","response":null}'
    bad = _Altered(lambda line: b"\n".join([line, line, foreign, line[:9]]))
    with Worker(store, clock=SystemClock(), settings=settings, transport=bad) as worker:
        finished(worker, experiment_file(samples=4))
        published = [batch.rows for run in worker.runs(ESSAYS) for batch in run.state.batches.values()]
    assert [(each.doubled, each.foreign, each.damaged) for each in published if each] == [(1, 1, 1)]


def _with_body(line: bytes, body: bytes) -> bytes:
    return b"{" + _id(line) + b',"response":{"status_code":200,"body":' + body + b"}}"


def _id(line: bytes) -> bytes:
    start = line.index(b'"custom_id"')
    return line[start : line.index(b",", start)]


class _InBoth(httpx.HTTPTransport):
    """Names the answers as errors too: a file in which each request failed besides."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        is_again = "-again" in request.url.path
        request.url = httpx.URL(str(request.url).replace("-again", ""))
        response = super().handle_request(request)
        if request.method != "GET" or response.status_code != 200:
            return response
        body = response.read()
        if request.url.path.endswith("/content") and is_again:
            failed = [b"{" + _id(line) + b',"response":{"status_code":500,"body":{}}}' for line in body.splitlines()]
            return httpx.Response(200, content=b"\n".join(failed))
        if b'"output_file_id":"' in body:
            handle = body.partition(b'"output_file_id":"')[2].partition(b'"')[0]
            body = body.replace(b'"error_file_id":null', b'"error_file_id":"' + handle + b'-again"')
        return httpx.Response(200, content=body)


def test_an_answer_counts_also_where_the_errors_name_its_request_too(
    simulate: Callable[..., Simulator], store: LocalStore, experiment_file: Callable[..., Path]
) -> None:
    simulator = simulate()
    settings = Settings(environment(simulator, PAIRLOG_QUIET_SECONDS="0.1", PAIRLOG_LEASE_SECONDS="5"))
    with Worker(store, clock=SystemClock(), settings=settings, transport=_InBoth()) as worker:
        assert not finished(worker, experiment_file(samples=4)).is_open
        assert counts(worker)["ok"] == simulator.ledger.totals.requests == 6
        (run,) = worker.runs(worker.experiment_names()[0])
        assert [batch.rows.doubled for batch in run.refresh().batches.values() if batch.rows] == [6]


def test_lines_split_at_newlines_only_and_too_long_ones_are_marked() -> None:
    chunks = [b"\xef\xbb\xbfa\xe2\x80\xa8b\r\n\n", b"c", b"d\n", b"x" * (LONGEST_LINE + 1), b"\nlast"]
    assert list(lines(chunks)) == [b"a\xe2\x80\xa8b", b"cd", b"", b"last"]
