"""Calls can be made to fail in every way the wire allows, and the ledger tells what was done all the same."""

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import openai
import pytest

from pipeline.simulator import Simulator, SimulatorSettings
from tests.simulator.openai_wire import CHAT, KEY, Wire, some_lines


class Served(Wire):
    """A simulator behind a real server, one for all tests here: each sets its own faults."""

    def __init__(self, simulator: Simulator, http: httpx.Client) -> None:
        super().__init__(http)
        self.ledger = simulator.ledger

    def strike(self, faults: str) -> None:
        answer = self.http.post("/simulator/faults", json=faults)
        assert answer.status_code == 200, answer.text


@pytest.fixture
def served(simulator: Simulator) -> Iterator[Served]:
    with httpx.Client(base_url=simulator.url) as http:
        wire = Served(simulator, http)
        wire.strike("")
        yield wire


BROKEN = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


@pytest.mark.parametrize(("fault", "applied"), [("lost", True), ("dropped", False), ("reset", False), ("late", True)])
def test_a_create_call_without_an_answer_may_have_been_carried_out(served: Served, fault: str, applied: bool) -> None:
    file_id = served.upload(some_lines(1))
    served.strike(f"create.{fault}:3600=1")  # late: after all tests here, which would find it in their listings
    with pytest.raises(BROKEN):
        served.create(file_id, metadata={"key": fault})
    create = served.ledger.creates[-1]
    assert (create.outcome, create.status) == ("applied" if applied else "refused", 0)
    assert (create.fault, create.metadata, create.input_file_id) == (f"create.{fault}", {"key": fault}, file_id)
    assert [batch.batch_id for batch in served.ledger.batches if batch.input_file_id == file_id] == (
        [create.batch_id] if applied else []
    )
    assert served.create(file_id).status_code == 200


@pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 413, 429, 500, 502, 503, 504])
def test_a_create_call_is_refused_with_a_status(served: Served, status: int) -> None:
    served.strike(f"create.{status}=1")
    answer = served.create("file-none")
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert (served.ledger.creates[-1].outcome, served.ledger.creates[-1].batch_id) == ("refused", None)


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
def test_a_create_call_is_carried_out_though_it_is_answered_with_a_failure(served: Served, status: int) -> None:
    served.strike(f"create.{status}_applied=1")
    answer = served.create("file-none", metadata={"key": f"k{status}"})
    listed = served.listed()["data"][0]
    assert answer.status_code == status
    assert listed["metadata"] == {"key": f"k{status}"}
    assert served.ledger.creates[-1].batch_id == listed["id"]


def test_a_refused_body_is_refused_whatever_fault_waits(served: Served) -> None:
    served.strike("create.lost=1")
    assert served.create("file-none", completion_window="1h").status_code == 400
    assert served.ledger.creates[-1].outcome == "refused"


@pytest.mark.parametrize(("spelled", "seconds"), [("create.429:7=1", 7.0), ("create.429=1", 1.0)])
def test_a_rate_limit_says_when_to_come_back(served: Served, spelled: str, seconds: float) -> None:
    served.strike(spelled)
    answer = served.create("file-none")
    assert float(answer.headers["retry-after"]) == seconds
    assert float(answer.headers["retry-after-ms"]) == 1000 * seconds
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"


def test_a_rate_limit_may_name_a_date(served: Served) -> None:
    served.strike("create.429_date:90=1")
    answer = served.create("file-none")
    then = parsedate_to_datetime(answer.headers["retry-after"])
    assert 80 < (then - datetime.now(UTC)).total_seconds() < 100


def test_an_empty_account_is_told_from_a_rate_limit(served: Served) -> None:
    served.strike("create.quota=1")
    answer = served.create("file-none")
    assert (answer.status_code, answer.json()["error"]["type"]) == (429, "insufficient_quota")
    assert "retry-after" not in answer.headers


def test_a_message_or_nothing_may_come_back_in_place_of_an_answer(served: Served) -> None:
    file_id = served.upload(some_lines(1))
    served.strike("create.message=1,create.empty=1")
    answers = [served.create(file_id) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert answers[0].json() == {"message": "upstream is restarting"}
    assert answers[1].content == b""
    assert [create.outcome for create in served.ledger.creates[-3:]] == ["applied"] * 3


def test_a_page_of_html_may_come_back(served: Served) -> None:
    served.strike("create.html=1")
    answer = served.create("file-none")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert served.ledger.creates[-1].outcome == "applied"


def test_the_id_may_be_missing(served: Served) -> None:
    served.strike("create.no_id=1")
    answer = served.create("file-none")
    assert answer.status_code == 200
    assert "id" not in answer.json()
    assert answer.json()["object"] == "batch"
    assert served.ledger.creates[-1].batch_id == served.listed()["data"][0]["id"]


def test_the_status_may_be_a_new_word(served: Served) -> None:
    served.strike("create.unknown_status=1")
    answer = served.create("file-none").json()
    assert answer["status"] == "rescheduling"
    assert served.ledger.creates[-1].batch_id == answer["id"]


@pytest.mark.parametrize(
    ("call", "method", "path"),
    [
        ("poll", "GET", "/v1/batches/{batch}"),
        ("list", "GET", "/v1/batches"),
        ("list", "GET", "/v1/files"),
        ("cancel", "POST", "/v1/batches/{batch}/cancel"),
        ("download", "GET", "/v1/files/{file}/content"),
        ("delete", "DELETE", "/v1/files/{file}"),
    ],
)
def test_every_call_can_be_struck_and_is_answered_the_next_time(
    served: Served, call: str, method: str, path: str
) -> None:
    file_id = served.upload(some_lines(1))
    batch_id = served.create(file_id).json()["id"]
    served.strike(f"{call}.500=1,{call}.404=1,{call}.dropped=1")
    where = path.format(batch=batch_id, file=file_id)
    assert [served.http.request(method, where, headers=KEY).status_code for _ in range(2)] == [500, 404]
    with pytest.raises(BROKEN):
        served.http.request(method, where, headers=KEY)
    assert served.http.request(method, where, headers=KEY).status_code == 200


@pytest.mark.parametrize("fault", ["reset", "dropped"])
def test_an_upload_breaks_off(served: Served, fault: str) -> None:
    before = len(served.ledger.files)
    served.strike(f"upload.{fault}=1")
    with pytest.raises(BROKEN):
        served.upload(b"x" * 3_000_000)
    assert len(served.ledger.files) == before
    assert served.upload(b"x").startswith("file-")


def test_an_upload_fails(served: Served) -> None:
    served.strike("upload.500=1")
    file = ("a.jsonl", b"x" * 3_000_000)
    answer = served.http.post("/v1/files", data={"purpose": "batch"}, files={"file": file}, headers=KEY)
    assert answer.status_code == 500


def read(answer: httpx.Response, into: bytearray) -> None:
    for part in answer.iter_raw():
        into.extend(part)


def test_a_download_is_cut_in_the_middle_and_whole_the_next_time(served: Served) -> None:
    content = some_lines(2000)
    file_id = served.upload(content)
    served.strike("download.cut=1")
    received = bytearray()
    with served.http.stream("GET", f"/v1/files/{file_id}/content", headers=KEY) as answer:
        assert int(answer.headers["content-length"]) == len(content)
        with pytest.raises(httpx.RemoteProtocolError):
            read(answer, received)
    assert bytes(received) == content[: len(content) // 2]
    assert served.content(file_id) == content


def test_a_live_call_that_is_lost_is_billed(served: Served) -> None:
    before = served.ledger.totals.live
    served.strike("live.lost=1,live.dropped=1")
    for _ in range(2):
        with pytest.raises(BROKEN):
            served.chat()
    assert served.ledger.totals.live == before + 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("live.429:0=1", openai.RateLimitError),
        ("live.401=1", openai.AuthenticationError),
        ("live.500=1", openai.InternalServerError),
        ("live.lost=1", openai.APIConnectionError),
    ],
)
def test_faults_become_the_errors_of_the_sdk(
    served: Served, simulator: Simulator, fault: str, error: type[Exception]
) -> None:
    served.strike(fault)
    with openai.OpenAI(api_key="k", base_url=simulator.openai_base_url, max_retries=0) as client:
        call: dict[str, Any] = {"model": "gpt-6-luna", "messages": [{"role": "user", "content": "hi"}]}
        with pytest.raises(error):
            client.chat.completions.create(**call)
        assert client.chat.completions.create(**call).object == "chat.completion"


def test_faults_are_replaced_and_shown(served: Served) -> None:
    served.strike("create.lost=2,line.500=0.5")
    shown = served.http.get("/simulator/faults").json()
    assert shown == {"create.lost": {"value": None, "times": 2}, "line.500": {"value": 0.5, "times": None}}
    assert served.http.post("/simulator/faults", json={"create.lots": 1}).status_code == 400
    assert served.http.get("/simulator/faults").json() == shown
    assert served.http.post("/simulator/faults", json={}).json() == {}


def test_a_large_file_survives_upload_and_download(served: Served) -> None:
    content = bytes(range(256)) * 80_000
    assert served.content(served.upload(content)) == content


def test_two_simulators_do_not_know_one_another(served: Served) -> None:
    with Simulator(SimulatorSettings()) as other, httpx.Client(base_url=other.url) as http:
        batch_id = served.submit(some_lines(1))
        assert http.get(f"/v1/batches/{batch_id}", headers=KEY).status_code == 404
        assert other.ledger.creates == []
    assert CHAT.startswith("/v1")
