"""The official Ollama SDK, unchanged, uses the simulator and finds everything shaped as it expects."""

import json
from collections.abc import Iterator
from contextlib import closing

import ollama
import pytest

from pipeline.simulator import Simulator
from tests.simulator.openai_wire import a_prompt

SCHEMA = {
    "type": "object",
    "properties": {"better": {"type": "string", "enum": ["first", "second"]}},
    "required": ["better"],
}
ASKED = [{"role": "user", "content": a_prompt()}]


@pytest.fixture(scope="module")
def client(simulator: Simulator) -> Iterator["ollama.Client"]:
    with closing(ollama.Client(host=simulator.ollama_host)) as made:
        yield made


def test_chat_is_answered_with_thoughts(client: "ollama.Client", simulator: Simulator) -> None:
    before = simulator.ledger.totals.live
    answer = client.chat(model="gpt-oss:20b", messages=ASKED, think="low", options={"num_ctx": 8192})
    assert isinstance(answer, ollama.ChatResponse)
    assert answer.message.thinking
    assert "<BETTER_SAMPLE>" in answer.message.content
    assert (answer.done, answer.done_reason) == (True, "stop")
    assert simulator.ledger.totals.live == before + 1


def test_an_answer_keeps_to_a_schema(client: "ollama.Client") -> None:
    answer = client.chat(model="qwen3:8b", messages=ASKED, format=SCHEMA)
    assert json.loads(answer.message.content)["better"] in ("first", "second")


def test_an_answer_is_streamed_unless_it_is_not_to_be(client: "ollama.Client") -> None:
    chunks = list(client.chat(model="qwen3:8b", messages=ASKED, stream=True))
    assert [chunk.done for chunk in chunks] == [False, True]
    assert "<BETTER_SAMPLE>" in "".join(chunk.message.content for chunk in chunks)


def test_a_small_context_cuts_the_prompt_without_a_word(client: "ollama.Client") -> None:
    long = [{"role": "user", "content": a_prompt("word " * 2000)}]
    whole = client.chat(model="qwen3:8b", messages=long, options={"num_ctx": 32_768})
    cut = client.chat(model="qwen3:8b", messages=long, options={"num_ctx": 512})
    assert whole.prompt_eval_count > 2000
    assert cut.prompt_eval_count <= 513


def test_models_are_listed_and_unknown_values_refused(client: "ollama.Client") -> None:
    assert [model.model for model in client.list().models] == ["gpt-oss:20b", "qwen3:8b"]
    with pytest.raises(ollama.ResponseError, match="think value"):
        client.chat(model="gpt-oss:20b", messages=ASKED, think=False)
