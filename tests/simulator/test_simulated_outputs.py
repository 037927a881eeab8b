"""Result files can be made odd, wrong or incomplete, exactly as much as asked."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulator.openai_wire import KEY, InProcess, a_chat, a_prompt, jsonl, some_lines

Simulated = Callable[..., InProcess]
IDS = [f"r{number}" for number in range(20)]


def answered(row: dict[str, Any]) -> str | None:
    content: str | None = row["response"]["body"]["choices"][0]["message"]["content"]
    return content


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["custom_id"] for row in rows]


def test_order_is_not_kept_unless_asked(simulated: Simulated) -> None:
    shuffled, kept, forced = (
        simulated(**fields) for fields in ({}, {"shuffle": False}, {"shuffle": False, "faults": "output.shuffle"})
    )
    orders = [ids(wire.output(wire.run(some_lines(20)))) for wire in (shuffled, kept, forced)]
    assert orders[0] != IDS
    assert sorted(orders[0]) == sorted(IDS)
    assert orders[1] == IDS
    assert orders[2] != IDS


@pytest.mark.parametrize(("fault", "status"), [("line.400", 400), ("line.429", 429), ("line.500", 500)])
def test_a_share_of_the_requests_fails_and_is_not_billed(simulated: Simulated, fault: str, status: int) -> None:
    wire = simulated(faults=f"{fault}=0.25")
    batch = wire.run(some_lines(20))
    errors = wire.errors(batch)
    assert [row["response"]["status_code"] for row in errors] == [status] * 5
    assert set(errors[0]["response"]["body"]["error"]) == {"message", "type", "param", "code"}
    assert sorted(ids(errors) + ids(wire.output(batch))) == sorted(IDS)
    assert wire.ledger.totals.requests == 15


def test_where_every_request_fails_there_is_an_error_file_only(simulated: Simulated) -> None:
    wire = simulated(faults="line.500")
    batch = wire.run(some_lines(3))
    assert (batch["status"], batch["output_file_id"]) == ("completed", None)
    assert len(wire.errors(batch)) == 3


def test_a_fault_strikes_other_requests_in_the_next_batch(simulated: Simulated) -> None:
    wire = simulated(faults="line.500=0.25")
    failed = [sorted(ids(wire.errors(wire.run(some_lines(20))))) for _ in range(2)]
    assert failed[0] != failed[1]


@pytest.mark.parametrize(
    ("fault", "finish", "content", "refusal"),
    [
        ("answer.refusal", "stop", None, "That is not something the simulator will judge."),
        ("answer.length", "length", "", None),
        ("answer.filter", "content_filter", "", None),
        ("answer.unparseable", "stop", "It depends on what one is looking for.", None),
        (
            "answer.both",
            "stop",
            "<BETTER_SAMPLE>SAMPLE_1</BETTER_SAMPLE> <BETTER_SAMPLE>SAMPLE_2</BETTER_SAMPLE>",
            None,
        ),
    ],
)
def test_chat_answers_go_wrong(
    simulated: Simulated, fault: str, finish: str, content: str | None, refusal: str | None
) -> None:
    wire = simulated(faults=fault)
    (row,) = wire.output(wire.run(some_lines(1)))
    choice = row["response"]["body"]["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"], choice["message"]["refusal"]) == (
        finish, content, refusal,
    )  # fmt: skip
    assert wire.ledger.totals.requests == 1
    live = wire.chat().json()["choices"][0]
    assert (live["finish_reason"], live["message"]) == (finish, choice["message"])


def test_an_answer_cut_without_reasoning_has_lost_its_tag(simulated: Simulated) -> None:
    choice = simulated(faults="answer.length").chat(reasoning_effort="none").json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"]
    assert "</BETTER_SAMPLE>" not in choice["message"]["content"]


def responses_line(custom_id: str) -> dict[str, Any]:
    body = {"model": "gpt-6.1-sol", "input": a_prompt(), "reasoning": {"summary": "auto"}, "max_output_tokens": 4000}
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/responses", "body": body}


@pytest.mark.parametrize(
    ("fault", "status", "why", "kinds"),
    [
        ("", "completed", None, ["reasoning", "message"]),
        ("answer.length", "incomplete", {"reason": "max_output_tokens"}, ["reasoning"]),
        ("answer.filter", "incomplete", {"reason": "content_filter"}, []),
        ("answer.refusal", "completed", None, ["reasoning", "message"]),
        ("answer.failed", "failed", None, []),
    ],
)
def test_responses_stop_in_their_own_shapes(
    simulated: Simulated, fault: str, status: str, why: dict[str, str] | None, kinds: list[str]
) -> None:
    wire = simulated(faults=fault)
    batch = wire.run(jsonl(responses_line("a")), endpoint="/v1/responses")
    (row,) = wire.output(batch)
    body = row["response"]["body"]
    assert (body["status"], body["incomplete_details"]) == (status, why)
    assert [item["type"] for item in body["output"]] == kinds
    assert (body["error"] is not None, body["usage"] is None) == (status == "failed", status == "failed")
    if fault == "answer.refusal":
        assert body["output"][1]["content"][0]["type"] == "refusal"
    assert wire.ledger.totals.requests == (0 if status == "failed" else 1)


def test_a_chat_whose_model_fails_is_an_error_line(simulated: Simulated) -> None:
    wire = simulated(faults="answer.failed")
    (error,) = wire.errors(wire.run(some_lines(1)))
    assert error["response"]["status_code"] == 500
    assert wire.chat().status_code == 500
    assert wire.ledger.totals.requests == 0


def test_line_separators_of_unicode_come_unescaped(simulated: Simulated) -> None:
    wire = simulated(faults="answer.u2028")
    batch = wire.run(some_lines(2))
    content = wire.content(batch["output_file_id"])
    assert content.count("\u2028".encode()) == 2
    assert content.count(b"\n") == 2
    assert all("\u2029" in (answered(row) or "") for row in wire.output(batch))


def test_a_structured_answer_may_come_in_a_fence(simulated: Simulated) -> None:
    schema = {"type": "object", "properties": {"better": {"enum": ["first", "second"]}}}
    wish = {"type": "json_schema", "json_schema": {"name": "v", "schema": schema}}
    content = simulated(faults="answer.fenced").chat(response_format=wish).json()["choices"][0]["message"]["content"]
    assert json.loads(content.removeprefix("```json\n").removesuffix("\n```"))["better"] in ("first", "second")


def test_lines_may_be_missing(simulated: Simulated) -> None:
    wire = simulated(faults="output.missing=0.25")
    batch = wire.run(some_lines(20))
    assert len(wire.output(batch)) == 15
    assert batch["request_counts"]["completed"] == wire.ledger.totals.requests == 20
    assert Counter(entry.delivered for entry in wire.ledger.billed()) == {True: 15, False: 5}


@pytest.mark.parametrize("fault", ["output.damaged", "output.bad_utf8"])
def test_lines_may_be_unreadable(simulated: Simulated, fault: str) -> None:
    wire = simulated(faults=f"{fault}=0.25")
    lines = wire.content(wire.run(some_lines(20))["output_file_id"]).splitlines()
    unreadable = 0
    for line in lines:
        try:
            json.loads(line)
        except ValueError:
            unreadable += 1
    assert (len(lines), unreadable) == (20, 5)
    assert sum(not entry.delivered for entry in wire.ledger.billed()) == 5


def test_lines_may_come_twice(simulated: Simulated) -> None:
    wire = simulated(faults="output.doubled=0.25")
    lines = wire.content(wire.run(some_lines(20))["output_file_id"]).splitlines()
    assert (len(lines), len(set(lines))) == (25, 20)
    assert wire.ledger.totals.requests == 20


def test_lines_may_come_twice_with_different_answers(simulated: Simulated) -> None:
    wire = simulated(faults="output.differing=0.25")
    rows = wire.output(wire.run(some_lines(20)))
    twice = [custom_id for custom_id, count in Counter(ids(rows)).items() if count == 2]
    assert (len(rows), len(twice)) == (25, 5)
    for custom_id in twice:
        assert len({answered(row) for row in rows if row["custom_id"] == custom_id}) == 2


def test_lines_of_strangers_may_come_along(simulated: Simulated) -> None:
    wire = simulated(faults="output.foreign=0.25")
    rows = wire.output(wire.run(some_lines(20)))
    strangers = [custom_id for custom_id in ids(rows) if custom_id not in IDS]
    assert (len(rows), len(strangers), len(set(strangers))) == (25, 5, 5)


def test_line_faults_strike_different_lines(simulated: Simulated) -> None:
    wire = simulated(faults="line.500=0.25,output.missing=0.25,answer.refusal=0.25,output.doubled=0.25")
    batch = wire.run(some_lines(20))
    rows = wire.output(batch)
    assert (len(wire.errors(batch)), len(rows)) == (5, 15)
    assert sum(answered(row) is None for row in rows) == 5


@pytest.mark.parametrize(
    ("fault", "begin", "end", "between"),
    [
        ("output.crlf", b"{", b"}\r\n", b"}\r\n{"),
        ("output.bom", b"\xef\xbb\xbf{", b"}\n", b"}\n{"),
        ("output.blank", b"{", b"}\n", b"}\n\n{"),
        ("output.no_newline", b"{", b"}", b"}\n{"),
    ],
)
def test_files_may_have_odd_ends(simulated: Simulated, fault: str, begin: bytes, end: bytes, between: bytes) -> None:
    wire = simulated(faults=f"{fault},line.500=0.4")
    batch = wire.run(some_lines(5))
    for file_id, lines in ((batch["output_file_id"], 3), (batch["error_file_id"], 2)):
        content = wire.content(file_id)
        assert content.startswith(begin)
        assert content.endswith(end)
        assert content.count(between) == lines - 1


def test_the_output_file_may_be_absent(simulated: Simulated) -> None:
    wire = simulated(faults="output.absent=1,line.500=0.5*1")
    batch = wire.run(some_lines(4))
    assert (batch["status"], batch["output_file_id"], len(wire.errors(batch))) == ("completed", None, 2)
    assert [entry.delivered for entry in wire.ledger.billed()] == [False, False]
    assert wire.run(some_lines(4))["output_file_id"] is not None


def test_the_error_file_id_may_be_empty(simulated: Simulated) -> None:
    wire = simulated(faults="output.empty_error_id")
    assert wire.run(some_lines(1))["error_file_id"] == ""


def test_result_files_live_as_long_as_was_asked(simulated: Simulated) -> None:
    wire = simulated()
    batch = wire.run(some_lines(1), output_expires_after={"anchor": "created_at", "seconds": 7200})
    file = wire.http.get(f"/v1/files/{batch['output_file_id']}", headers=KEY).json()
    assert (file["expires_at"] - file["created_at"], file["purpose"]) == (7200, "batch_output")


def test_an_answer_is_the_same_live_and_in_a_batch(simulated: Simulated) -> None:
    wire = simulated()
    (row,) = wire.output(wire.run(some_lines(1)))
    live = wire.http.post("/v1/chat/completions", json=a_chat(a_prompt("Text of r0.")), headers=KEY).json()
    assert live["choices"] == row["response"]["body"]["choices"]
