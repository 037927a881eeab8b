"""The official Mistral SDK, unchanged, uses the simulator and finds everything shaped as it expects."""

from collections.abc import Iterator

import mistralai.client as mistral
import pytest

from pipeline.simulator import Simulator
from tests.simulator.openai_wire import CHAT, a_chat, a_prompt, jsonl, rows

MODEL = "mistral-small-latest"


@pytest.fixture(scope="module")
def client(simulator: Simulator) -> Iterator["mistral.Mistral"]:
    with mistral.Mistral(api_key="simulated", server_url=simulator.mistral_base_url) as made:
        yield made


def uploaded(client: "mistral.Mistral", *ids: str) -> str:
    bodies = [{name: value for name, value in a_chat().items() if name != "model"} for _ in ids]
    content = jsonl(*({"custom_id": name, "body": body} for name, body in zip(ids, bodies, strict=True)))
    return str(client.files.upload(file={"file_name": "mine.jsonl", "content": content}, purpose="batch").id)


def test_a_whole_batch_is_uploaded_run_and_read(client: "mistral.Mistral", simulator: Simulator) -> None:
    file_id = uploaded(client, "a", "b", "c")
    created = client.batch.jobs.create(
        input_files=[file_id], model=MODEL, endpoint=CHAT, metadata={"batch_key": "b1"}, timeout_hours=24
    )
    assert (created.status, created.metadata) == ("QUEUED", {"batch_key": "b1"})
    ended = client.batch.jobs.get(job_id=created.id)
    assert (ended.status, ended.total_requests, ended.succeeded_requests) == ("SUCCESS", 3, 3)
    output = rows(client.files.download(file_id=ended.output_file).read())
    assert sorted(row["custom_id"] for row in output) == ["a", "b", "c"]
    assert {row["response"]["body"]["model"] for row in output} == {MODEL}
    listed = client.batch.jobs.list(page=0, page_size=10)
    assert (listed.total, [job.id for job in listed.data]) == (1, [created.id])
    assert simulator.ledger.totals.requests == 3


def test_a_batch_is_cancelled_and_its_file_deleted(client: "mistral.Mistral") -> None:
    file_id = uploaded(client, "d")
    job = client.batch.jobs.create(input_files=[file_id], model=MODEL, endpoint=CHAT)
    assert client.batch.jobs.cancel(job_id=job.id).status == "CANCELLATION_REQUESTED"
    assert client.batch.jobs.get(job_id=job.id).status == "CANCELLED"
    assert client.files.delete(file_id=file_id).deleted


def test_a_failed_batch_says_why(client: "mistral.Mistral") -> None:
    job = client.batch.jobs.create(input_files=[uploaded(client, "e", "e")], model=MODEL, endpoint=CHAT)
    failed = client.batch.jobs.get(job_id=job.id)
    assert failed.status == "FAILED"
    assert "line 2" in failed.errors[0].message


def test_thoughts_are_chunks_of_the_content(client: "mistral.Mistral") -> None:
    answer = client.chat.complete(
        model=MODEL, messages=[{"role": "user", "content": a_prompt()}], reasoning_effort="high"
    )
    thoughts, said = answer.choices[0].message.content
    assert (thoughts.type, said.type) == ("thinking", "text")
    assert "<BETTER_SAMPLE>" in said.text


def test_refusals_become_the_errors_of_the_sdk(client: "mistral.Mistral") -> None:
    with pytest.raises(mistral.errors.MistralError) as refused:
        client.batch.jobs.get(job_id="00000000-0000-4000-8000-000000000000")
    assert refused.value.status_code == 404
