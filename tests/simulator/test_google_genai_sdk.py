"""The official Google GenAI SDK, unchanged, uses the simulator as Gemini and as Vertex."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google.genai as genai
import google.genai.errors as errors
import google.oauth2.credentials as credentials
import httpx
import pytest

from pipeline.simulator import Simulator, parse_faults
from tests.simulator.openai_wire import a_prompt, jsonl

MODEL = "gemini-3.8-flash"
ENDED = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED"}


@pytest.fixture
def simulator(simulate: Callable[..., Simulator]) -> Simulator:
    """Serve a simulator to one test: what was billed there is counted."""
    return simulate()


@pytest.fixture
def client(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with genai.Client(api_key="AIza-x", http_options={"base_url": simulator.gemini_base_url}) as made:
        yield made


@pytest.fixture
def vertex(simulator: Simulator) -> Iterator[Any]:
    with genai.Client(
        vertexai=True,
        project="meadow-815",
        location="us-central1",
        credentials=credentials.Credentials(token="x"),
        http_options={"base_url": simulator.vertex_base_url},
    ) as made:
        yield made


def a_request(**config: Any) -> dict[str, Any]:
    contents = [{"role": "user", "parts": [{"text": a_prompt()}]}]
    return {"contents": contents, **({"generationConfig": config} if config else {})}


@pytest.fixture
def upload(client: Any, tmp_path: Path) -> Callable[..., Any]:
    def send(*lines: dict[str, Any]) -> Any:
        path = tmp_path / "input.jsonl"
        path.write_bytes(jsonl(*lines))
        return client.files.upload(file=path, config={"mime_type": "jsonl", "display_name": "trial"})

    return send


def some_lines(count: int, **config: Any) -> list[dict[str, Any]]:
    return [{"key": f"r{number}", "request": a_request(**config)} for number in range(count)]


def ended(client: Any, name: str) -> Any:
    job = client.batches.get(name=name)
    while job.state.name not in ENDED:
        job = client.batches.get(name=name)
    return job


def rows(content: bytes) -> dict[str, Any]:
    return {row["key"]: row for row in map(json.loads, filter(None, content.split(b"\n")))}


def test_a_whole_gemini_batch(client: Any, upload: Callable[..., Any]) -> None:
    file = upload(*some_lines(5))
    assert (file.state.name, file.display_name) == ("ACTIVE", "trial")
    created = client.batches.create(model=MODEL, src=file.name, config={"display_name": "pl-1"})
    assert (created.state.name, created.display_name) == ("JOB_STATE_PENDING", "pl-1")
    job = ended(client, created.name)
    assert job.state.name == "JOB_STATE_SUCCEEDED"
    results = rows(client.files.download(file=job.dest.file_name))
    assert set(results) == {f"r{number}" for number in range(5)}
    for row in results.values():
        response = genai.types.GenerateContentResponse.model_validate(row["response"])
        assert "<BETTER_SAMPLE>" in response.text
        assert response.usage_metadata.prompt_token_count > 0


def test_a_large_file_is_uploaded_in_pieces(client: Any, upload: Callable[..., Any], simulator: Simulator) -> None:
    lines = some_lines(2)
    lines[0]["request"]["contents"][0]["parts"].append({"text": "x " * (5 * 2**20)})
    job = client.batches.create(model=MODEL, src=upload(*lines).name, config={"display_name": "pl-2"})
    assert ended(client, job.name).state.name == "JOB_STATE_SUCCEEDED"
    assert simulator.ledger.totals.requests == 2


def test_batches_are_listed_page_by_page(client: Any, upload: Callable[..., Any]) -> None:
    file = upload(*some_lines(1))
    made = {
        client.batches.create(model=MODEL, src=file.name, config={"display_name": f"pl-{at}"}).name for at in range(3)
    }
    assert {job.name for job in client.batches.list(config={"page_size": 2})} == made


def test_a_cancelled_gemini_batch(client: Any, upload: Callable[..., Any]) -> None:
    created = client.batches.create(model=MODEL, src=upload(*some_lines(2)).name, config={"display_name": "pl-3"})
    client.batches.cancel(name=created.name)
    assert ended(client, created.name).state.name == "JOB_STATE_CANCELLED"


def test_an_expired_gemini_batch_has_no_results(client: Any, upload: Callable[..., Any], simulator: Simulator) -> None:
    simulator.engine.faults.replace(parse_faults("expire.share=0.5"))
    created = client.batches.create(model=MODEL, src=upload(*some_lines(4)).name, config={"display_name": "pl-4"})
    job = ended(client, created.name)
    assert job.state.name == "JOB_STATE_EXPIRED"
    assert job.dest is None or job.dest.file_name is None
    assert simulator.ledger.totals.requests == 0


def test_a_bad_request_fails_alone_and_a_bad_line_fails_all(client: Any, upload: Callable[..., Any]) -> None:
    file = upload(*some_lines(1), {"key": "bad", "request": a_request(nonsense=1)})
    job = ended(client, client.batches.create(model=MODEL, src=file.name, config={"display_name": "pl-5"}).name)
    results = rows(client.files.download(file=job.dest.file_name))
    assert results["bad"]["error"]["code"] == 3
    assert "response" in results["r0"]
    file = upload(*some_lines(1), {"request": a_request()})
    job = ended(client, client.batches.create(model=MODEL, src=file.name, config={"display_name": "pl-6"}).name)
    assert job.state.name == "JOB_STATE_FAILED"


def test_files_are_deleted(client: Any, upload: Callable[..., Any]) -> None:
    file = upload(*some_lines(1))
    client.files.delete(name=file.name)
    with pytest.raises(errors.ClientError):
        client.files.get(name=file.name)


def test_live_content_with_thoughts(client: Any) -> None:
    config = {"thinking_config": {"thinking_level": "LOW", "include_thoughts": True}}
    response = client.models.generate_content(model=MODEL, contents=a_prompt(), config=config)
    parts = response.candidates[0].content.parts
    assert [bool(part.thought) for part in parts] == [True, False]
    assert "<BETTER_SAMPLE>" in response.text
    assert response.usage_metadata.thoughts_token_count > 0


@pytest.mark.parametrize(
    "config",
    [
        {"thinking_config": {"thinking_level": "MINIMAL"}},
        {"thinking_config": {"thinking_level": "LOW", "thinking_budget": 100}},
    ],
)
def test_what_a_model_does_not_take_is_refused(client: Any, config: dict[str, Any]) -> None:
    with pytest.raises(errors.ClientError) as raised:
        client.models.generate_content(model=MODEL, contents="Hello", config=config)
    assert raised.value.status == "INVALID_ARGUMENT"


def test_a_whole_vertex_job(vertex: Any, simulator: Simulator) -> None:
    lines = [{"request": {**a_request(), "labels": {"request_id": f"r{number}"}}} for number in range(5)]
    bucket = f"{simulator.vertex_base_url}/upload/storage/v1/b/meadow/o"
    query = {"uploadType": "media", "name": "in/x.jsonl", "ifGenerationMatch": "0"}
    assert httpx.post(bucket, params=query, content=jsonl(*lines)).status_code == 200
    assert httpx.post(bucket, params=query, content=jsonl(*lines)).status_code == 412
    created = vertex.batches.create(
        model=MODEL, src="gs://meadow/in/x.jsonl", config={"display_name": "pl-7", "dest": "gs://meadow/out"}
    )
    assert created.state.name == "JOB_STATE_PENDING"
    job = ended(vertex, created.name)
    assert job.state.name == "JOB_STATE_SUCCEEDED"
    found = list(vertex.batches.list(config={"filter": 'display_name="pl-7"'}))
    assert [one.name for one in found] == [created.name]
    listed = httpx.get(f"{simulator.vertex_base_url}/storage/v1/b/meadow/o", params={"prefix": "out/"}).json()
    assert len(listed["items"]) == 2
    assert simulator.ledger.times_billed() == {f"r{number}": 1 for number in range(5)}
