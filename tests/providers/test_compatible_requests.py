"""What is sent to the providers that took OpenAI's chat completions over, and where to."""

import json
from typing import Any

import pytest

from pipeline import providers
from pipeline.domain import PROMPT, REQUEST_ID, Frame, Judge
from pipeline.errors import ConfigError
from pipeline.settings import Settings

KEY = "canary-0123456789"
SCHEMA = {"type": "object", "properties": {}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
ASKED = [{"role": "user", "content": PROMPT}]
CONTEXT = {"num_ctx": 32_768}


def a_judge(provider: str, **more: Any) -> Judge:
    return Judge(provider=provider, model=more.pop("model", "m"), **more)


def document(frame: Frame) -> Any:
    """The frame's document, with the marks of its gaps where they were."""
    marks = {"request_id": REQUEST_ID, "prompt": PROMPT}
    pieces = [text + marks[slot].encode() for text, slot in zip(frame.texts, frame.slots, strict=False)]
    return json.loads(b"".join([*pieces, frame.texts[-1]]))


@pytest.mark.parametrize(
    ("provider", "judge", "expected"),
    [
        ("groq", {}, {}),
        ("groq", {"reasoning": "low"}, {"reasoning_effort": "low", "include_reasoning": True}),
        ("groq", {"reasoning": "none"}, {"reasoning_effort": "none"}),
        ("groq", {"max_output_tokens": 9, "temperature": 0.0}, {"max_completion_tokens": 9, "temperature": 0.0}),
        ("together", {"reasoning": "high"}, {"reasoning_effort": "high"}),
        ("together", {"reasoning": "none"}, {"reasoning": {"enabled": False}}),
        ("together", {"max_output_tokens": 9}, {"max_tokens": 9}),
        ("mistral", {"reasoning": "high", "max_output_tokens": 9}, {"reasoning_effort": "high", "max_tokens": 9}),
        ("compatible", {"reasoning": "none"}, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("compatible", {"reasoning": "low", "max_output_tokens": 9}, {"reasoning_effort": "low", "max_tokens": 9}),
    ],
)
def test_a_live_body_says_what_the_judge_asks(provider: str, judge: dict[str, Any], expected: dict[str, Any]) -> None:
    module, asked = providers.live_module(provider), a_judge(provider, mode="live", **judge)
    plain = {"model": "m", "messages": ASKED}
    assert document(module.live_frame(asked, schema=None)) == plain | expected
    assert document(module.live_frame(asked, schema=SCHEMA)) == plain | expected | {"response_format": FORMAT}


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        ({}, {}),
        ({"reasoning": "none"}, {"think": False}),
        ({"reasoning": "on"}, {"think": True}),
        ({"reasoning": "low"}, {"think": "low"}),
        ({"max_output_tokens": 9}, {"options": {**CONTEXT, "num_predict": 9}}),
        ({"temperature": 0.5}, {"options": {**CONTEXT, "temperature": 0.5}}),
    ],
)
def test_ollama_is_asked_in_its_own_words(judge: dict[str, Any], expected: dict[str, Any]) -> None:
    module, asked = providers.live_module("ollama"), a_judge("ollama", mode="live", **judge)
    plain = {"model": "m", "messages": ASKED, "stream": False, "options": CONTEXT}
    assert document(module.live_frame(asked, schema=None)) == plain | expected
    assert document(module.live_frame(asked, schema=SCHEMA)) == plain | expected | {"format": SCHEMA}


ADDRESS = {"method": "POST", "url": "/v1/chat/completions"}
BODY = {"model": "m", "messages": ASKED}


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("openai", {"custom_id": REQUEST_ID, **ADDRESS, "body": BODY}),
        ("azure", {"custom_id": REQUEST_ID, **ADDRESS, "body": BODY}),
        ("groq", {"custom_id": REQUEST_ID, **ADDRESS, "body": BODY}),
        ("xai", {"custom_id": REQUEST_ID, **ADDRESS, "body": BODY}),
        ("together", {"custom_id": REQUEST_ID, "body": BODY}),
        ("mistral", {"custom_id": REQUEST_ID, "body": {"messages": ASKED}}),
    ],
)
def test_a_line_has_the_shape_of_its_provider(provider: str, expected: dict[str, Any]) -> None:
    assert document(providers.batch_module(provider).frame(a_judge(provider), schema=None)) == expected


def test_bedrock_asks_claude_in_anthropics_words_and_others_in_those_of_converse() -> None:
    frame = providers.batch_module("bedrock").frame
    claude = a_judge("bedrock", model="us.anthropic.claude-haiku-4-5-20251001-v1:0", max_output_tokens=99)
    nova = a_judge("bedrock", model="amazon.nova-lite-v1:0", max_output_tokens=99, temperature=0.0)
    assert document(frame(claude, schema=None)) == {
        "recordId": REQUEST_ID,
        "modelInput": {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 99, "messages": ASKED},
    }
    assert document(frame(nova, schema=None)) == {
        "recordId": REQUEST_ID,
        "modelInput": {
            "messages": [{"role": "user", "content": [{"text": PROMPT}]}],
            "inferenceConfig": {"maxTokens": 99, "temperature": 0.0},
        },
    }


@pytest.mark.parametrize(
    ("provider", "judge", "names"),
    [
        ("groq", {"model": "openai/gpt-oss-120b", "reasoning": "none"}, "low"),
        ("groq", {"model": "qwen/qwen3.8-27b", "reasoning": "xhigh"}, "medium"),
        ("groq", {"endpoint": "responses"}, "chat"),
        ("mistral", {"endpoint": "responses"}, "chat"),
        ("together", {"endpoint": "responses"}, "chat"),
        ("xai", {"endpoint": "responses"}, "chat"),
        ("compatible", {"endpoint": "responses"}, "chat"),
        ("anthropic", {"endpoint": "responses"}, "chat"),
        ("gemini", {"endpoint": "responses"}, "chat"),
        ("vertex", {"endpoint": "responses"}, "chat"),
        ("azure", {"reasoning": "low", "temperature": 1.0}, "temperature"),
        ("ollama", {"model": "gpt-oss:20b", "reasoning": "none"}, "low"),
        ("ollama", {"reasoning": "xhigh"}, "high"),
        ("bedrock", {"answer": "json"}, "tag"),
        ("bedrock", {"model": "amazon.nova-lite-v1:0", "reasoning": "low"}, "leave it out"),
    ],
)
def test_a_judge_that_is_known_to_be_refused_is_refused_here(provider: str, judge: dict[str, Any], names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        providers.module(provider).check_judge(a_judge(provider, **judge))


@pytest.mark.parametrize(
    ("provider", "judge"),
    [
        ("groq", {"reasoning": "xhigh"}),
        ("groq", {"model": "openai/gpt-oss-20b", "reasoning": "high"}),
        ("mistral", {"reasoning": "high"}),
        ("together", {"reasoning": "max"}),
        ("xai", {"reasoning": "low"}),
        ("azure", {"endpoint": "responses", "reasoning": "max"}),
        ("compatible", {"reasoning": "anything"}),
        ("ollama", {"model": "qwen3:8b", "reasoning": "none"}),
        ("ollama", {"model": "gpt-oss:20b", "reasoning": "high"}),
        ("bedrock", {"model": "anthropic.claude-haiku-4-5-20251001-v1:0", "reasoning": "low"}),
    ],
)
def test_what_is_not_known_to_be_refused_is_sent(provider: str, judge: dict[str, Any]) -> None:
    providers.module(provider).check_judge(a_judge(provider, **judge))


@pytest.mark.parametrize(
    ("provider", "environment", "url"),
    [
        ("groq", {}, "https://api.groq.com/openai/v1/chat/completions"),
        ("groq", {"GROQ_BASE_URL": "https://g.example/"}, "https://g.example/openai/v1/chat/completions"),
        ("groq", {"GROQ_BASE_URL": "https://g.example/openai/v1"}, "https://g.example/openai/v1/chat/completions"),
        ("together", {}, "https://api-inference.together.ai/v1/chat/completions"),
        ("together", {"TOGETHER_BASE_URL": "https://t.example"}, "https://t.example/v1/chat/completions"),
        ("together", {"TOGETHER_BASE_URL": "https://t.example/v1/"}, "https://t.example/v1/chat/completions"),
        ("mistral", {}, "https://api.mistral.ai/v1/chat/completions"),
        ("mistral", {"MISTRAL_BASE_URL": "https://m.example"}, "https://m.example/v1/chat/completions"),
        ("compatible", {"PAIRLOG_COMPATIBLE_BASE_URL": "http://localhost:8000"}, "http://localhost:8000/v1/chat/completions"),
        ("compatible", {"PAIRLOG_COMPATIBLE_BASE_URL": "https://v.example/v1"}, "https://v.example/v1/chat/completions"),
        ("ollama", {}, "http://127.0.0.1:11434/api/chat"),
        ("ollama", {"OLLAMA_HOST": "localhost"}, "http://localhost:11434/api/chat"),
        ("ollama", {"OLLAMA_HOST": "127.0.0.1:99"}, "http://127.0.0.1:99/api/chat"),
        ("ollama", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434/api/chat"),
        ("ollama", {"OLLAMA_HOST": ":99"}, "http://127.0.0.1:99/api/chat"),
        ("ollama", {"OLLAMA_HOST": "[::1]:99"}, "http://[::1]:99/api/chat"),
        ("ollama", {"OLLAMA_HOST": "http://localhost:99/sub/"}, "http://localhost:99/sub/api/chat"),
        ("ollama", {"OLLAMA_HOST": "https://ollama.com"}, "https://ollama.com/api/chat"),
    ],
)  # fmt: skip
def test_live_calls_go_to_the_address_of_the_environment(provider: str, environment: dict[str, str], url: str) -> None:
    module = providers.live_module(provider)
    keys = {name: KEY for name in module.KEYS if name.endswith("_KEY")}
    assert module.live_call(Settings({**keys, **environment}), a_judge(provider)).url == url


@pytest.mark.parametrize(
    ("provider", "environment"),
    [
        ("ollama", {"OLLAMA_HOST": "gpu.example"}),
        ("ollama", {"OLLAMA_HOST": "localhost:port"}),
        ("compatible", {"PAIRLOG_COMPATIBLE_BASE_URL": "http://gpu.example/v1"}),
        ("compatible", {}),
        ("together", {"TOGETHER_API_KEY": KEY, "TOGETHER_BASE_URL": "http://t.example"}),
        ("groq", {}),
    ],
)
def test_an_address_or_key_that_cannot_be_used_is_named(provider: str, environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"{provider.upper()}_"):
        providers.live_module(provider).live_call(Settings(environment), a_judge(provider))


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({"OLLAMA_HOST": "localhost", "OLLAMA_API_KEY": KEY}, False),
        ({"OLLAMA_HOST": "https://ollama.com", "OLLAMA_API_KEY": KEY}, True),
        ({"OLLAMA_HOST": "https://ollama.com"}, False),
    ],
)
def test_only_a_hosted_ollama_gets_a_key(environment: dict[str, str], sent: bool) -> None:
    call = providers.live_module("ollama").live_call(Settings(environment), a_judge("ollama"))
    assert (call.headers == {"authorization": f"Bearer {KEY}"}) is sent


def test_a_compatible_server_gets_a_key_only_if_one_is_set() -> None:
    environment = {"PAIRLOG_COMPATIBLE_BASE_URL": "http://127.0.0.1:8000"}
    live_call = providers.live_module("compatible").live_call
    assert live_call(Settings(environment), a_judge("compatible")).headers == {}
    keyed = Settings({**environment, "PAIRLOG_COMPATIBLE_API_KEY": KEY})
    assert live_call(keyed, a_judge("compatible")).headers == {"authorization": f"Bearer {KEY}"}
