"""The simulator refuses what these providers refuse, in their words."""

import hashlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.simulator.openai_wire import KEY, InProcess, a_chat, a_line, jsonl

CHAT = "/v1/chat/completions"
SIGNED = {"authorization": "AWS4-HMAC-SHA256 Credential=AKIASIMULATED/20261116/us-east-1/bedrock/aws4_request"}
JOB = {
    "jobName": "pl-1",
    "roleArn": "arn:aws:iam::123456789012:role/meadow",
    "modelId": "amazon.nova-lite-v1:0",
    "inputDataConfig": {"s3InputDataConfig": {"s3Uri": "s3://meadow/in/a.jsonl"}},
    "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://meadow/out/"}},
}
MISTRAL_JOB = {"input_files": ["f"], "endpoint": CHAT, "model": "m"}


@pytest.mark.parametrize(
    ("path", "headers", "body", "status", "says"),
    [
        ("/groq/openai/v1/chat/completions", {}, a_chat(), 401, "API key"),
        ("/groq/openai/v1/chat/completions", KEY, a_chat(nonsense=1), 400, "nonsense"),
        ("/groq/openai/v1/chat/completions", KEY, a_chat(include_reasoning=True, reasoning_format="raw"), 400, "only"),
        ("/azure/openai/v1/batches", KEY, {}, 401, "API key"),
        ("/azure/openai/v1/batches", {"api-key": "k"}, {}, 400, "input_file_id"),
        ("/mistral/v1/batch/jobs", KEY, MISTRAL_JOB, 404, "was not found"),
        ("/mistral/v1/batch/jobs", KEY, {**MISTRAL_JOB, "nonsense": 1}, 422, "nonsense"),
        ("/mistral/v1/batch/jobs", KEY, {**MISTRAL_JOB, "input_files": []}, 422, "input_files"),
        ("/mistral/v1/batch/jobs", KEY, {**MISTRAL_JOB, "timeout_hours": 169}, 422, "timeout_hours"),
        ("/mistral/v1/batch/jobs", KEY, {**MISTRAL_JOB, "metadata": {"a": 1}}, 422, "metadata"),
        ("/mistral/v1/batch/jobs", KEY, {**MISTRAL_JOB, "endpoint": "/v1/fim"}, 422, "endpoint"),
        ("/together/v1/batches", KEY, {"endpoint": CHAT, "input_file_id": "file-nope"}, 404, "not found"),
        ("/together/v1/batches", KEY, {"endpoint": CHAT, "metadata": {}}, 400, "invalid request"),
        ("/xai/v1/batches", KEY, {"input_file_id": "file-nope"}, 400, "name"),
        ("/xai/v1/batches", KEY, {"name": "pl-1", "input_file_id": "file-nope"}, 404, "uploaded files"),
        ("/aws/model-invocation-job", {}, JOB, 403, "Token"),
        ("/aws/model-invocation-job", SIGNED, {**JOB, "nonsense": 1}, 400, "nonsense"),
        ("/aws/model-invocation-job", SIGNED, {**JOB, "jobName": "a b"}, 400, "jobName"),
        ("/aws/model-invocation-job", SIGNED, {**JOB, "clientRequestToken": "-a"}, 400, "clientRequestToken"),
        ("/aws/model-invocation-job", SIGNED, {**JOB, "timeoutDurationInHours": 1}, 400, "timeoutDurationInHours"),
        ("/ollama/api/chat", {}, {"model": "qwen3:8b", "messages": [], "nonsense": 1}, 400, "nonsense"),
        ("/ollama/api/chat", {}, {"model": "gpt-oss:20b", "messages": [], "think": False}, 400, "think"),
        ("/compatible/v1/chat/completions", {}, {"model": "m"}, 400, "messages"),
    ],
)  # fmt: skip
def test_a_call_is_refused_as_the_provider_refuses_it(
    path: str, headers: dict[str, str], body: Any, status: int, says: str, simulated: Callable[..., InProcess]
) -> None:
    wire = simulated()
    answer = wire.http.post(path, json=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert says in answer.text
    assert wire.ledger.batches == []
    assert wire.ledger.totals.requests == 0


def announced(wire: InProcess, content: bytes) -> httpx.Response:
    fields = {
        "purpose": "batch-api",
        "file_name": "mine.jsonl",
        "file_type": "jsonl",
        "checksum": hashlib.sha256(content).hexdigest(),
    }
    parts = [(name, (None, value)) for name, value in fields.items()]
    return wire.http.post("/together/v1/files", files=parts, headers=KEY, follow_redirects=False)


@pytest.mark.parametrize(
    ("content", "headers", "status"), [(b"{}\n", {}, 200), (b"{}\n", KEY, 400), (b"other bytes", {}, 400)]
)
def test_together_takes_just_the_announced_bytes_and_no_key(
    content: bytes, headers: dict[str, str], status: int, simulated: Callable[..., InProcess]
) -> None:
    wire = simulated()
    answer = announced(wire, b"{}\n")
    assert (answer.status_code, wire.ledger.files) == (302, [])
    assert wire.http.put(answer.headers["location"], content=content, headers=headers).status_code == status
    read = wire.http.post(f"/together/v1/files/{answer.headers['x-together-file-id']}/preprocess", headers=KEY)
    assert read.status_code == (200 if status == 200 else 404)
    assert announced(wire, b"{}\n").status_code == (409 if status == 200 else 302)


@pytest.mark.parametrize(
    "lines",
    [
        jsonl(a_line("a"), a_line("a")),
        jsonl(a_line("x" * 65)),
        jsonl(a_line("a", url="/v1/embeddings")),
        jsonl(a_line("a", {"messages": []})),
        jsonl(a_line("a", a_chat(stream=True))),
        jsonl(a_line("a"), a_line("b", a_chat(model="another"))),
        b"not json\n",
        b"",
    ],
)
def test_a_bad_line_fails_the_whole_batch_unpaid(lines: bytes, simulated: Callable[..., InProcess]) -> None:
    wire = simulated()
    form: dict[str, Any] = {"data": {"purpose": "batch"}, "files": {"file": ("mine.jsonl", lines)}}
    file_id = wire.http.post("/xai/v1/files", headers=KEY, **form).json()["id"]
    made = wire.http.post("/xai/v1/batches", headers=KEY, json={"name": "pl-1", "input_file_id": file_id}).json()
    batch = wire.http.get(f"/xai/v1/batches/{made['batch_id']}", headers=KEY).json()
    assert batch["cancel_by_xai_message"]
    assert wire.ledger.totals.requests == 0


def test_limits_can_be_set_for_every_wire(simulated: Callable[..., InProcess]) -> None:
    wire = simulated(max_requests=2)
    form: dict[str, Any] = {"data": {"purpose": "batch"}, "files": {"file": ("mine.jsonl", jsonl(*map(a_line, "abc")))}}
    file_id = wire.http.post("/groq/openai/v1/files", headers=KEY, **form).json()["id"]
    order = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    made = wire.http.post("/groq/openai/v1/batches", headers=KEY, json=order).json()
    batch = wire.http.get(f"/groq/openai/v1/batches/{made['id']}", headers=KEY).json()
    assert batch["status"] == "failed"
    assert "3 requests" in batch["errors"]["data"][0]["message"]
