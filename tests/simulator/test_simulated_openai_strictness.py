"""The simulator refuses what OpenAI refuses, when and how OpenAI does."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulator.openai_wire import CHAT, KEY, InProcess, a_chat, a_line, a_prompt, jsonl, some_lines

Simulated = Callable[..., InProcess]
BATCH = {"input_file_id": "file-none", "endpoint": CHAT, "completion_window": "24h"}


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer "}, {"authorization": "Basic abc"}])
@pytest.mark.parametrize("path", ["/v1/batches", "/v1/files", "/v1/models"])
def test_a_key_is_needed(simulated: Simulated, headers: dict[str, str], path: str) -> None:
    answer = simulated().http.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_only_the_accepted_keys_are_accepted(simulated: Simulated) -> None:
    wire = simulated(api_keys=("sk-right",))
    assert wire.http.get("/v1/models", headers={"authorization": "Bearer sk-right"}).status_code == 200
    refused = wire.http.get("/v1/models", headers={"authorization": "Bearer sk-wrong"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")


def test_an_unknown_route_is_refused_in_words(simulated: Simulated) -> None:
    answer = simulated().http.get("/v1/nothing", headers=KEY)
    assert (answer.status_code, answer.json()["error"]["message"]) == (404, "Invalid URL (GET /v1/nothing)")


@pytest.mark.parametrize(
    ("data", "files", "param"),
    [
        ({}, {"file": ("a.jsonl", b"{}")}, "purpose"),
        ({"purpose": "pleasure"}, {"file": ("a.jsonl", b"{}")}, "purpose"),
        ({"purpose": "batch"}, {"other": ("a.jsonl", b"{}")}, "file"),
        ({"purpose": "batch", "expires_after[anchor]": "now"}, {"file": ("a", b"")}, "expires_after[anchor]"),
        (
            {"purpose": "batch", "expires_after[anchor]": "created_at", "expires_after[seconds]": "60"},
            {"file": ("a", b"")},
            "expires_after[seconds]",
        ),
    ],
)
def test_an_upload_needs_purpose_and_file(simulated: Simulated, data: Any, files: Any, param: str) -> None:
    answer = simulated().http.post("/v1/files", data=data, files=files, headers=KEY)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_an_upload_that_is_not_multipart_is_refused(simulated: Simulated) -> None:
    assert simulated().http.post("/v1/files", content=b"{}", headers=KEY).status_code == 400


def test_a_file_lives_as_long_as_was_asked(simulated: Simulated) -> None:
    data = {"purpose": "batch", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    file = simulated().http.post("/v1/files", data=data, files={"file": ("a.jsonl", b"{}")}, headers=KEY).json()
    assert file["expires_at"] - file["created_at"] == 3600


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input_file_id": None}, "input_file_id"),
        ({"endpoint": None}, "endpoint"),
        ({"completion_window": None}, "completion_window"),
        ({"endpoint": "/v1/chat"}, "endpoint"),
        ({"completion_window": "48h"}, "completion_window"),
        ({"name": "mine"}, "name"),
        ({"metadata": {f"k{number}": "v" for number in range(17)}}, "metadata"),
        ({"metadata": {"k" * 65: "v"}}, "metadata"),
        ({"metadata": {"k": "v" * 513}}, "metadata"),
        ({"metadata": {"k": 1}}, "metadata"),
        ({"metadata": "text"}, "metadata"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "output_expires_after"),
        ({"output_expires_after": {"anchor": "now", "seconds": 3600}}, "output_expires_after"),
    ],
)
def test_a_create_call_is_checked(simulated: Simulated, change: dict[str, Any], param: str) -> None:
    wire = simulated()
    answer = wire.http.post("/v1/batches", json={**BATCH, **change}, headers=KEY)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert [create.outcome for create in wire.ledger.creates] == ["refused"]
    assert wire.ledger.batches == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff"])
def test_a_create_call_that_is_no_json_object_is_refused(simulated: Simulated, body: bytes) -> None:
    assert simulated().http.post("/v1/batches", content=body, headers=KEY).status_code == 400


def test_the_widest_metadata_is_accepted_and_comes_back(simulated: Simulated) -> None:
    metadata = {f"{number:064d}": "v" * 512 for number in range(16)}
    answer = simulated().create("file-none", metadata=metadata)
    assert (answer.status_code, answer.json()["metadata"]) == (200, metadata)


def test_a_batch_of_an_unknown_file_is_accepted_and_fails_later(simulated: Simulated) -> None:
    wire = simulated()
    created = wire.create("file-none").json()
    batch = wire.poll(created["id"])
    assert (created["status"], batch["status"], batch["usage"], batch["model"]) == ("validating", "failed", None, None)
    (problem,) = batch["errors"]["data"]
    assert (problem["code"], problem["line"], problem["param"]) == ("invalid_request", None, "file_id")
    assert "Cannot find file file-none" in problem["message"]


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in a_line("r1").items() if key != name}


GOOD = a_line("r0")
OTHER_MODEL = a_line("r1", {**a_chat(), "model": "gpt-6-sol"})


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"\xef\xbb\xbf" + jsonl(GOOD), "invalid_json_line", 1),
        (jsonl(GOOD) + b"{cut\n", "invalid_json_line", 2),
        (jsonl(GOOD) + b"\n" + jsonl(a_line("r1")), "invalid_json_line", 2),
        (jsonl(GOOD) + b"[1]\n", "invalid_json_line", 2),
        (jsonl(GOOD) + b'{"custom_id":"\xff"}\n', "invalid_json_line", 2),
        (jsonl(GOOD, without("custom_id")), "missing_required_parameter", 2),
        (jsonl(GOOD, without("method")), "missing_required_parameter", 2),
        (jsonl(GOOD, without("url")), "missing_required_parameter", 2),
        (jsonl(GOOD, without("body")), "missing_required_parameter", 2),
        (jsonl(GOOD, {**a_line("r1"), "custom_id": 7}), "missing_required_parameter", 2),
        (jsonl(GOOD, a_line("r1", {"model": "gpt-6-luna"})), "missing_required_parameter", 2),
        (jsonl(GOOD, a_line("r1", {"messages": []})), "missing_required_parameter", 2),
        (jsonl(GOOD, a_line("r1", method="GET")), "invalid_method", 2),
        (jsonl(GOOD, a_line("r1", url="/v1/responses")), "mismatched_url", 2),
        (jsonl(GOOD, GOOD), "duplicate_custom_id", 2),
        (jsonl(GOOD, OTHER_MODEL), "model_mismatch", 2),
        (jsonl(GOOD, a_line("r1", a_chat(stream=True))), "invalid_request", 2),
        (b"", "empty_file", None),
    ],
)
def test_one_bad_line_fails_the_whole_batch(simulated: Simulated, content: bytes, code: str, line: int | None) -> None:
    wire = simulated()
    batch = wire.run(content)
    assert batch["status"] == "failed"
    assert batch["errors"]["object"] == "list"
    assert [(problem["code"], problem["line"]) for problem in batch["errors"]["data"]] == [(code, line)]
    assert batch["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert (batch["output_file_id"], batch["error_file_id"]) == (None, None)
    assert wire.ledger.totals.requests == 0


@pytest.mark.parametrize(
    ("limits", "code"), [({"max_requests": 2}, "too_many_tasks"), ({"max_bytes": 100}, "file_too_large")]
)
def test_a_batch_over_its_limits_fails(simulated: Simulated, limits: dict[str, int], code: str) -> None:
    batch = simulated(**limits).run(some_lines(3))
    assert [problem["code"] for problem in batch["errors"]["data"]] == [code]


def test_the_limit_of_openai_is_fifty_thousand_requests(simulated: Simulated) -> None:
    body = json.dumps(a_chat("x")).encode()
    line = b'{"custom_id":"%d","method":"POST","url":"/v1/chat/completions","body":%b}\n'
    batch = simulated(patience_seconds=60).run(b"".join(line % (number, body) for number in range(50_001)))
    assert [problem["code"] for problem in batch["errors"]["data"]] == ["too_many_tasks"]


def test_a_file_without_a_final_newline_is_read_to_its_end(simulated: Simulated) -> None:
    assert simulated().run(some_lines(2).rstrip(b"\n"))["request_counts"]["completed"] == 2


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"messages": []}, "messages", "empty_array"),
    ({"messages": [{"role": "judge", "content": "x"}]}, "messages[0].role", "invalid_value"),
    ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content", "invalid_value"),
    ({"max_tokens": 5}, "max_tokens", "unsupported_parameter"),
    ({"max_completion_tokens": 0}, "max_completion_tokens", "integer_below_min_value"),
    ({"temperature": 0}, "temperature", "unsupported_parameter"),
    ({"top_p": 0.5, "reasoning_effort": "low"}, "top_p", "unsupported_parameter"),
    ({"logprobs": True}, "logprobs", "unsupported_parameter"),
    ({"stop": ["x"], "reasoning_effort": "none"}, "stop", "unsupported_parameter"),
    ({"reasoning_effort": "minimal"}, "reasoning_effort", "unsupported_value"),
    ({"reasoning_effort": "huge"}, "reasoning_effort", "invalid_value"),
    ({"model": "gpt-5-mini", "reasoning_effort": "none"}, "reasoning_effort", "unsupported_value"),
    ({"model": "gpt-5.1", "reasoning_effort": "xhigh"}, "reasoning_effort", "unsupported_value"),
    ({"model": "gpt-6.1-sol", "reasoning_effort": "none"}, "reasoning_effort", "unsupported_value"),
    ({"model": "gpt-4.1", "reasoning_effort": "low"}, "reasoning_effort", "unsupported_parameter"),
    ({"colour": "red"}, "colour", "unknown_parameter"),
    ({"response_format": {"type": "xml"}}, "response_format", "invalid_value"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "missing_required_parameter"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}},
        "response_format.name",
        "invalid_value",
    ),
    (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "v", "strict": True, "schema": {"type": "object", "properties": {}}},
            }
        },
        "response_format",
        "invalid_json_schema",
    ),
]


@pytest.mark.parametrize(("change", "param", "code"), REFUSED)
def test_a_chat_request_openai_would_refuse_becomes_an_error_line(
    simulated: Simulated, change: dict[str, Any], param: str, code: str
) -> None:
    wire = simulated()
    body = {**a_chat(), **change}
    batch = wire.run(jsonl(a_line("bad", body)))
    (error,) = wire.errors(batch)
    said = error["response"]["body"]["error"]
    assert (batch["status"], batch["output_file_id"], error["response"]["status_code"]) == ("completed", None, 400)
    assert (said["param"], said["code"], said["type"]) == (param, code, "invalid_request_error")
    live = wire.http.post(CHAT, json=body, headers=KEY)
    assert (live.status_code, live.json()["error"]) == (400, said)
    assert wire.ledger.totals.requests == 0


ACCEPTED: list[dict[str, Any]] = [
    {"reasoning_effort": "none", "temperature": 0, "seed": 1},
    {"reasoning_effort": "max", "max_completion_tokens": 5000},
    {"model": "gpt-5.4-2026-03-01", "temperature": 0},
    {"model": "gpt-5-mini", "reasoning_effort": "minimal"},
    {"model": "gpt-4.1-mini", "max_tokens": 50, "temperature": 0, "stop": ["x"]},
    {"model": "some-model", "max_tokens": 500, "temperature": 0, "reasoning_effort": "low"},
]


@pytest.mark.parametrize("change", ACCEPTED)
def test_a_chat_request_openai_would_accept_is_answered(simulated: Simulated, change: dict[str, Any]) -> None:
    answer = simulated().http.post(CHAT, json={**a_chat(), **change}, headers=KEY)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": ["text"]}, "input[0]"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"messages": []}, "messages"),
        ({"reasoning": "low"}, "reasoning"),
        ({"reasoning": {"effort": "none"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "long"}}, "reasoning.summary"),
        ({"temperature": 0}, "temperature"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "name": "v"}}}, "text.format.schema"),
    ],
)
def test_a_response_request_is_checked(simulated: Simulated, change: dict[str, Any], param: str) -> None:
    body = {"model": "gpt-6.1-sol", "input": a_prompt(), **change}
    answer = simulated().http.post("/v1/responses", json=body, headers=KEY)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_only_the_given_models_exist_if_any_are_given(simulated: Simulated) -> None:
    wire = simulated(models=("mine",))
    assert wire.chat(model="mine").status_code == 200
    refused = wire.chat(model="gpt-6-luna")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")


def test_streaming_is_refused_live_too(simulated: Simulated) -> None:
    assert simulated().chat(stream=True).status_code == 400


@pytest.mark.parametrize("limit", ["0", "101", "-1", "many"])
def test_a_page_of_batches_has_one_to_a_hundred(simulated: Simulated, limit: str) -> None:
    answer = simulated().http.get("/v1/batches", params={"limit": limit}, headers=KEY)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "limit")


def test_pages_of_batches_go_on_after_a_cursor(simulated: Simulated) -> None:
    wire = simulated()
    newest_first = [wire.submit(some_lines(1)) for _ in range(25)][::-1]
    page = wire.listed()
    assert [batch["id"] for batch in page["data"]] == newest_first[:20]
    assert (page["first_id"], page["last_id"], page["has_more"]) == (newest_first[0], newest_first[19], True)
    rest = wire.listed(after=page["last_id"], limit=5)
    assert ([batch["id"] for batch in rest["data"]], rest["has_more"]) == (newest_first[20:], False)
    assert wire.listed(after=newest_first[-1])["data"] == []
    assert wire.http.get("/v1/batches", params={"after": "batch_nope"}, headers=KEY).status_code == 404


def test_pages_of_files_go_on_after_a_cursor(simulated: Simulated) -> None:
    wire = simulated()
    oldest_first = [wire.upload(b"{}") for _ in range(3)]
    asked: dict[str, str | int] = {"order": "asc", "limit": 2, "purpose": "batch"}
    page = wire.http.get("/v1/files", params=asked, headers=KEY).json()
    assert ([file["id"] for file in page["data"]], page["has_more"]) == (oldest_first[:2], True)
    rest = wire.http.get("/v1/files", params={**asked, "after": page["last_id"]}, headers=KEY).json()
    assert ([file["id"] for file in rest["data"]], rest["has_more"]) == (oldest_first[2:], False)
    other = wire.http.get("/v1/files", params={"purpose": "vision"}, headers=KEY).json()
    assert (other["data"], other["first_id"]) == ([], None)


@pytest.mark.parametrize("method_and_path", ["GET /v1/files/{}", "GET /v1/files/{}/content", "DELETE /v1/files/{}"])
def test_a_file_that_is_not_there_is_not_found(simulated: Simulated, method_and_path: str) -> None:
    wire = simulated()
    method, path = method_and_path.split()
    assert wire.http.request(method, path.format("file-none"), headers=KEY).status_code == 404


def test_a_batch_that_is_not_there_is_not_found(simulated: Simulated) -> None:
    answer = simulated().http.get("/v1/batches/batch_nope", headers=KEY)
    assert answer.status_code == 404
    assert answer.json() == {
        "error": {
            "message": "No batch found with id 'batch_nope'.",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        }
    }
    assert answer.headers["x-request-id"].startswith("req_")


def test_a_batch_that_ended_cannot_be_cancelled(simulated: Simulated) -> None:
    wire = simulated()
    batch = wire.run(some_lines(1))
    assert wire.cancel(batch["id"]).status_code == 409
    assert wire.cancel("batch_nope").status_code == 404
    assert [cancel.outcome for cancel in wire.ledger.cancels] == ["refused"]


def test_an_input_file_deleted_before_the_check_is_not_found(simulated: Simulated) -> None:
    wire = simulated()
    file_id = wire.upload(some_lines(1))
    batch_id = wire.create(file_id).json()["id"]
    wire.http.delete(f"/v1/files/{file_id}", headers=KEY)
    assert wire.poll(batch_id)["errors"]["data"][0]["code"] == "invalid_request"


def test_an_input_file_deleted_after_the_check_is_still_executed(simulated: Simulated) -> None:
    wire = simulated(walk=True)
    file_id = wire.upload(some_lines(2))
    batch_id = wire.create(file_id).json()["id"]
    assert wire.poll(batch_id)["status"] == "in_progress"
    wire.http.delete(f"/v1/files/{file_id}", headers=KEY)
    assert [wire.poll(batch_id)["status"] for _ in range(2)] == ["finalizing", "completed"]
