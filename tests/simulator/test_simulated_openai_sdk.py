"""The official OpenAI SDK, unchanged, uses the simulator and finds everything shaped as it expects."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types import Batch, FileDeleted, FileObject
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from pipeline.simulator import Simulator
from tests.simulator.openai_wire import CHAT, VERDICT, a_chat, a_line, a_prompt, jsonl, rows, some_lines
from tests.simulator.sdk_models import strict

BATCH_KEYS = {
    "id", "object", "endpoint", "model", "errors", "input_file_id", "completion_window", "status", "output_file_id",
    "error_file_id", "created_at", "in_progress_at", "expires_at", "finalizing_at", "completed_at", "failed_at",
    "expired_at", "cancelling_at", "cancelled_at", "request_counts", "metadata", "usage",
}  # fmt: skip
FILE_KEYS = {
    "id", "object", "bytes", "created_at", "expires_at", "filename", "purpose", "status", "status_details",
}  # fmt: skip
CHAT_KEYS = {"id", "object", "created", "model", "choices", "usage", "service_tier", "system_fingerprint"}
RESPONSE_KEYS = {
    "id", "object", "created_at", "status", "background", "error", "incomplete_details", "instructions",
    "max_output_tokens", "model", "output", "parallel_tool_calls", "previous_response_id", "reasoning", "service_tier",
    "store", "temperature", "text", "tool_choice", "tools", "top_p", "truncation", "usage", "user", "metadata",
}  # fmt: skip


@pytest.fixture(scope="module")
def client(simulator: Simulator) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="sk-simulated", base_url=simulator.openai_base_url, max_retries=0) as made:
        yield made


def submitted(client: openai.OpenAI, content: bytes, **more: Any) -> Batch:
    file = client.files.create(file=("input.jsonl", content), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h", **more)


def test_a_whole_batch_is_uploaded_run_and_read(client: openai.OpenAI, simulator: Simulator) -> None:
    bad = a_line("bad", a_chat(reasoning_effort="minimal"))
    content = jsonl(*(a_line(f"r{number}") for number in range(5)), bad)
    file = strict(client.files.create(file=("mine.jsonl", content), purpose="batch"), FILE_KEYS)
    assert (file.filename, file.bytes, file.purpose, file.status) == ("mine.jsonl", len(content), "batch", "processed")

    created = client.batches.create(
        input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"batch_key": "b1"}
    )
    strict(created, BATCH_KEYS)
    assert (created.status, created.metadata, created.usage) == ("validating", {"batch_key": "b1"}, None)

    ended = strict(client.batches.retrieve(created.id), BATCH_KEYS)
    assert ended.status == "completed"
    assert ended.request_counts is not None
    assert ended.request_counts.model_dump() == {"total": 6, "completed": 5, "failed": 1}
    assert ended.usage is not None
    assert ended.usage.total_tokens == ended.usage.input_tokens + ended.usage.output_tokens > 0
    assert ended.output_file_id is not None
    assert ended.error_file_id is not None

    output = rows(client.files.content(ended.output_file_id).content)
    assert sorted(row["custom_id"] for row in output) == [f"r{number}" for number in range(5)]
    for row in output:
        assert set(row) == {"id", "custom_id", "response", "error"}
        assert set(row["response"]) == {"status_code", "request_id", "body"}
        strict(ChatCompletion.model_validate(row["response"]["body"]), CHAT_KEYS)

    (error,) = rows(client.files.content(ended.error_file_id).content)
    assert (error["custom_id"], error["response"]["status_code"], error["error"]) == ("bad", 400, None)
    assert set(error["response"]["body"]["error"]) == {"message", "type", "param", "code"}
    result = strict(client.files.retrieve(ended.output_file_id), FILE_KEYS)
    assert (result.purpose, result.filename) == ("batch_output", f"{ended.id}_output.jsonl")


def test_listing_pages_by_itself_newest_first(client: openai.OpenAI) -> None:
    made = [submitted(client, some_lines(1)).id for _ in range(5)]
    listed = [batch.id for batch in client.batches.list(limit=2)]
    assert listed[:5] == made[::-1]
    assert len(set(listed)) == len(listed)


def test_a_batch_is_cancelled(client: openai.OpenAI) -> None:
    batch = submitted(client, some_lines(3))
    cancelling = strict(client.batches.cancel(batch.id), BATCH_KEYS)
    cancelled = strict(client.batches.retrieve(batch.id), BATCH_KEYS)
    assert (cancelling.status, cancelled.status) == ("cancelling", "cancelled")


def test_a_failed_batch_names_its_lines(client: openai.OpenAI) -> None:
    batch = submitted(client, jsonl(a_line("a"), a_line("a")))
    failed = strict(client.batches.retrieve(batch.id), BATCH_KEYS)
    assert failed.status == "failed"
    assert failed.errors is not None
    assert failed.errors.data is not None
    assert [(problem.code, problem.line) for problem in failed.errors.data] == [("duplicate_custom_id", 2)]


def test_files_are_listed_and_deleted(client: openai.OpenAI) -> None:
    file = client.files.create(file=("gone.jsonl", b"{}"), purpose="batch")
    assert file.id in [listed.id for listed in client.files.list(purpose="batch")]
    deleted = strict(client.files.delete(file.id), {"id", "object", "deleted"})
    assert isinstance(deleted, FileDeleted)
    assert deleted.deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file.id)
    assert all(isinstance(listed, FileObject) and listed.id != file.id for listed in client.files.list())


def test_chat_is_answered_live(client: openai.OpenAI, simulator: Simulator) -> None:
    before = simulator.ledger.totals.live
    answer = client.chat.completions.create(
        model="gpt-6-luna",
        reasoning_effort="low",
        messages=[{"role": "system", "content": "Judge."}, {"role": "user", "content": a_prompt()}],
        response_format={"type": "json_schema", "json_schema": {"name": "v", "strict": True, "schema": VERDICT}},
    )
    strict(answer, CHAT_KEYS)
    assert json.loads(answer.choices[0].message.content or "")["better"] in ("first", "second")
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    assert (answer.usage.completion_tokens_details.reasoning_tokens or 0) > 0
    assert simulator.ledger.totals.live == before + 1


@pytest.mark.parametrize("summary", ["auto", None])
def test_responses_are_answered_live(client: openai.OpenAI, summary: Any) -> None:
    answer = client.responses.create(
        model="gpt-6.1-sol",
        instructions="Judge.",
        input=[{"role": "user", "content": [{"type": "input_text", "text": a_prompt()}]}],
        reasoning={"effort": "medium", "summary": summary},
        max_output_tokens=4000,
        store=False,
    )
    assert isinstance(answer, Response)
    assert set(json.loads(answer.to_json(exclude_unset=True))) == RESPONSE_KEYS
    assert answer.status == "completed"
    assert answer.output_text.endswith(("SAMPLE_1</BETTER_SAMPLE>", "SAMPLE_2</BETTER_SAMPLE>"))
    reasoning = answer.output[0]
    assert reasoning.type == "reasoning"
    assert bool(reasoning.summary) is (summary is not None)


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert "gpt-6-luna" in [model.id for model in client.models.list()]
    assert client.models.retrieve("gpt-6-luna").object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-0")


def test_refusals_become_the_errors_of_the_sdk(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="No batch found with id 'batch_nope'"):
        client.batches.retrieve("batch_nope")
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="gpt-6-luna", max_tokens=5, messages=[{"role": "user", "content": "hi"}])
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", "max_tokens")
    assert refused.value.request_id
