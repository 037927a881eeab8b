"""Members that nobody needs cost no answer, whatever they are; members that make an answer are never guessed."""

import copy
from typing import Any

import msgspec
import pytest

from pipeline import providers
from pipeline.domain import Output, Tokens

ODD: tuple[object, ...] = ("x", "", 1.5, 10**30, [], {}, True, [{}], [None], {"a": None}, "2026-11-18T00:00:00Z", None)

_COMPLETION: dict[str, Any] = {
    "model": "m",
    "created": 1794965461,
    "choices": [{"message": {"content": "yes", "refusal": None, "reasoning": "hm"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 4, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
}
_MESSAGE: dict[str, Any] = {
    "model": "m",
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 4, "output_tokens": 2},
}
_CONTENT: dict[str, Any] = {
    "candidates": [{"content": {"parts": [{"text": "yes"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2},
    "modelVersion": "m",
    "createTime": "2026-11-18T00:00:00Z",
}
_CONVERSED: dict[str, Any] = {
    "output": {"message": {"content": [{"text": "yes"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 4, "outputTokens": 2},
}
LINES: dict[str, dict[str, Any]] = {
    "openai": {"custom_id": "a", "response": {"status_code": 200, "body": _COMPLETION}, "error": None},
    "anthropic": {"custom_id": "a", "result": {"type": "succeeded", "message": _MESSAGE}},
    "gemini": {"key": "a", "response": _CONTENT},
    "vertex": {"request": {"labels": {"request_id": "a"}}, "response": _CONTENT, "processed_time": "x"},
    "xai": {"batch_request_id": "a", "batch_result": {"response": {"chat_get_completion": _COMPLETION}}},
    "bedrock": {"recordId": "a", "modelOutput": _CONVERSED},
}
BESIDE = (
    ("openai", "response body model"), ("openai", "response body created"),
    ("openai", "response body choices 0 finish_reason"), ("openai", "response body choices 0 message reasoning"),
    ("openai", "response body usage"), ("openai", "response body usage prompt_tokens"),
    ("openai", "response body usage prompt_tokens_details"),
    ("openai", "response body usage prompt_tokens_details cached_tokens"),
    ("anthropic", "result message model"), ("anthropic", "result message stop_reason"),
    ("anthropic", "result message usage"), ("anthropic", "result message usage output_tokens"),
    ("anthropic", "result message content 0 thinking"),
    ("gemini", "metadata"), ("gemini", "response usageMetadata"), ("gemini", "response modelVersion"),
    ("gemini", "response usageMetadata promptTokenCount"), ("gemini", "response candidates 0 finishReason"),
    ("vertex", "processed_time"), ("vertex", "response createTime"), ("vertex", "response usageMetadata"),
    ("xai", "batch_result response chat_get_completion usage"),
    ("xai", "batch_result response chat_get_completion usage completion_tokens"),
    ("xai", "batch_result response chat_get_completion created"),
    ("bedrock", "modelOutput usage"), ("bedrock", "modelOutput usage inputTokens"),
    ("bedrock", "modelOutput stopReason"),
)  # fmt: skip


def decoded(provider: str, path: str, value: object) -> Output:
    """Return what is read of the provider's line with another value at the path."""
    line: Any = copy.deepcopy(LINES[provider])
    *way, last = path.split()
    inner = line
    for member in way:
        inner = inner[int(member) if member.isdecimal() else member]
    inner[last] = value
    return providers.batch_module(provider).decode(msgspec.json.encode(line))


@pytest.mark.parametrize(("provider", "path"), BESIDE)
def test_what_stands_beside_an_answer_costs_none(provider: str, path: str) -> None:
    for value in ODD:
        output = decoded(provider, path, value)
        assert (output.request_id, output.status, output.content) == ("a", "answered", "yes"), value


@pytest.mark.parametrize("nothing", [[], False, 0, "", None])
@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ("openai", "error"), ("openai", "response body choices 0 message refusal"), ("anthropic", "result error"),
        ("gemini", "error"), ("vertex", "status"), ("xai", "batch_result error"), ("bedrock", "error"),
    ],
)  # fmt: skip
def test_an_error_that_says_nothing_is_none(provider: str, path: str, nothing: object) -> None:
    assert decoded(provider, path, nothing).content == "yes"


@pytest.mark.parametrize("count", [12, 12.0, "12"])
def test_counts_are_read_however_they_are_written(count: object) -> None:
    assert decoded("openai", "response body usage prompt_tokens", count).tokens == Tokens(input=12, cached=1, output=2)


@pytest.mark.parametrize("status", ["200", 200.0, None, "ok", {}])
def test_an_answer_counts_under_a_status_that_is_no_number(status: object) -> None:
    assert decoded("openai", "response status_code", status).content == "yes"


@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ("openai", "custom_id"), ("openai", "response"), ("openai", "response body choices"),
        ("openai", "response body choices 0 message"), ("openai", "response body choices 0 message content"),
        ("anthropic", "result type"), ("anthropic", "result message content"), ("gemini", "key"),
        ("gemini", "response candidates 0 content parts"), ("vertex", "request labels"),
    ],
)  # fmt: skip
def test_what_makes_an_answer_is_not_guessed(provider: str, path: str) -> None:
    with pytest.raises((ValueError, msgspec.DecodeError)):
        decoded(provider, path, 7)
