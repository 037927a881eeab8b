"""The official Together SDK, unchanged, uses the simulator and finds everything shaped as it expects."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import together

from pipeline.simulator import Simulator
from tests.simulator.openai_wire import CHAT, a_chat, a_prompt, jsonl, rows
from tests.simulator.sdk_models import strict

MODEL = "openai/gpt-oss-120b"


@pytest.fixture(scope="module")
def client(simulator: Simulator) -> Iterator["together.Together"]:
    with together.Together(api_key="simulated", base_url=simulator.together_base_url, max_retries=0) as made:
        yield made


def uploaded(client: "together.Together", folder: Path, *ids: str, name: str = "mine.jsonl") -> str:
    lines = [{"custom_id": custom_id, "body": a_chat(model=MODEL, reasoning_effort="low")} for custom_id in ids]
    path = folder / name
    path.write_bytes(jsonl(*lines))
    return str(client.files.upload(file=path, purpose="batch-api", check=False).id)


def test_a_whole_batch_is_uploaded_run_and_read(
    client: "together.Together", simulator: Simulator, tmp_path: Path
) -> None:
    file_id = uploaded(client, tmp_path, "a", "b", "c")
    strict(client.files.retrieve(file_id))
    created = client.batches.create(endpoint=CHAT, input_file_id=file_id)
    strict(created)
    assert created.job.status == "VALIDATING"
    ended = client.batches.retrieve(created.job.id)
    strict(ended)
    assert (ended.status, ended.progress, ended.input_file_id) == ("COMPLETED", 100.0, file_id)
    output = rows(client.files.content(ended.output_file_id).read())
    assert sorted(row["custom_id"] for row in output) == ["a", "b", "c"]
    assert all(row["response"]["body"]["choices"][0]["message"]["reasoning"] for row in output)
    assert [job.id for job in client.batches.list()] == [ended.id]
    assert simulator.ledger.totals.requests == 3


def test_equal_bytes_are_kept_once(client: "together.Together", tmp_path: Path) -> None:
    first = uploaded(client, tmp_path, "x", name="first.jsonl")
    assert uploaded(client, tmp_path, "x", name="second.jsonl") == first
    assert client.files.retrieve(first).filename == "first.jsonl"
    assert client.files.delete(first).deleted
    uploaded(client, tmp_path, "x", name="second.jsonl")
    assert client.files.retrieve(first).filename == "second.jsonl"


def test_a_batch_is_cancelled(client: "together.Together", tmp_path: Path) -> None:
    job = client.batches.create(endpoint=CHAT, input_file_id=uploaded(client, tmp_path, "d")).job
    client.batches.cancel(job.id)
    assert client.batches.retrieve(job.id).status == "CANCELLED"


def test_a_failed_batch_says_why(client: "together.Together", tmp_path: Path) -> None:
    job = client.batches.create(endpoint=CHAT, input_file_id=uploaded(client, tmp_path, "e", "e")).job
    failed = client.batches.retrieve(job.id)
    strict(failed)
    assert failed.status == "FAILED"
    assert "line 2" in failed.error


def test_chat_is_answered_live(client: "together.Together") -> None:
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": a_prompt()}])
    assert "<BETTER_SAMPLE>" in answer.choices[0].message.content
    assert answer.usage.total_tokens > 0


def test_refusals_become_the_errors_of_the_sdk(client: "together.Together") -> None:
    with pytest.raises(together.NotFoundError):
        client.batches.retrieve("nope")
    with pytest.raises(together.NotFoundError):
        client.batches.create(endpoint=CHAT, input_file_id="file-nope")
