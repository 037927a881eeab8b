"""The official Groq SDK, unchanged, uses the simulator and finds everything shaped as it expects."""

import json
from collections.abc import Iterator

import groq
import pytest

from pipeline.simulator import Simulator
from tests.simulator.openai_wire import CHAT, a_chat, a_line, a_prompt, jsonl, rows
from tests.simulator.sdk_models import strict

MODEL = "openai/gpt-oss-120b"


@pytest.fixture(scope="module")
def client(simulator: Simulator) -> Iterator["groq.Groq"]:
    with groq.Groq(api_key="gsk-simulated", base_url=simulator.groq_base_url, max_retries=0) as made:
        yield made


def test_a_whole_batch_is_uploaded_run_and_read(client: "groq.Groq", simulator: Simulator) -> None:
    good = [a_line(f"r{number}", a_chat(model=MODEL, reasoning_effort="low")) for number in range(4)]
    bad = a_line("bad", a_chat(model=MODEL, reasoning_effort="none"))
    file = client.files.create(file=("mine.jsonl", jsonl(*good, bad)), purpose="batch")
    created = client.batches.create(
        input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"batch_key": "b1"}
    )
    ended = client.batches.retrieve(created.id)
    for answer in (created, ended):
        strict(answer)
    assert (created.status, ended.status, ended.metadata) == ("validating", "completed", {"batch_key": "b1"})
    assert ended.request_counts.model_dump() == {"total": 5, "completed": 4, "failed": 1}
    output = rows(client.files.content(ended.output_file_id).read())
    assert sorted(row["custom_id"] for row in output) == ["r0", "r1", "r2", "r3"]
    for row in output:
        completion = groq.types.chat.ChatCompletion.model_validate(row["response"]["body"])
        assert completion.choices[0].message.reasoning
    (error,) = rows(client.files.content(ended.error_file_id).read())
    assert (error["custom_id"], error["response"]["status_code"]) == ("bad", 400)
    assert [batch.id for batch in client.batches.list().data] == [created.id]
    assert simulator.ledger.totals.requests == 4


def test_a_batch_is_cancelled_and_its_file_deleted(client: "groq.Groq") -> None:
    file = client.files.create(file=("mine.jsonl", jsonl(a_line("a", a_chat(model=MODEL)))), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    assert client.batches.cancel(batch.id).status == "cancelling"
    assert client.batches.retrieve(batch.id).status == "cancelled"
    assert client.files.delete(file.id).deleted
    assert file.id not in [listed.id for listed in client.files.list().data]


def test_chat_is_answered_live_with_thoughts(client: "groq.Groq") -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": a_prompt()}],
        reasoning_effort="low",
        include_reasoning=True,
    )
    assert answer.choices[0].message.reasoning
    assert answer.usage.completion_tokens_details.reasoning_tokens > 0
    assert "<BETTER_SAMPLE>" in answer.choices[0].message.content


def test_refusals_become_the_errors_of_the_sdk(client: "groq.Groq") -> None:
    with pytest.raises(groq.NotFoundError):
        client.batches.retrieve("batch_nope")
    with pytest.raises(groq.BadRequestError) as refused:
        client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "hi"}],
            include_reasoning=True,
            reasoning_format="parsed",
        )
    assert json.loads(refused.value.response.content)["error"]["param"] == "include_reasoning"
