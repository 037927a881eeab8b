"""A system prompt and several turns reach every wire in that wire's own words, with their gaps in order."""

import json
from typing import Any

import pytest

from pipeline import providers
from pipeline.domain import Frame, Judge, Message, gap

TALK = (
    Message(role="system", text=gap("system")),
    Message(role="user", text=gap("said_1")),
    Message(role="assistant", text=gap("said_2")),
    Message(role="user", text=gap("said_3")),
)
CHAT = [
    {"role": "system", "content": "system"},
    {"role": "user", "content": "said_1"},
    {"role": "assistant", "content": "said_2"},
    {"role": "user", "content": "said_3"},
]
GOOGLE = {
    "systemInstruction": {"parts": [{"text": "system"}]},
    "contents": [
        {"role": "user", "parts": [{"text": "said_1"}]},
        {"role": "model", "parts": [{"text": "said_2"}]},
        {"role": "user", "parts": [{"text": "said_3"}]},
    ],
}
CLAUDE = {"system": "system", "messages": CHAT[1:]}
CONVERSE = {
    "system": [{"text": "system"}],
    "messages": [{"role": each["role"], "content": [{"text": each["content"]}]} for each in CHAT[1:]],
}


def document(frame: Frame) -> dict[str, Any]:
    """The line with each gap filled by its own name."""
    filled = b"".join(text + slot.encode() for text, slot in zip(frame.texts, (*frame.slots, ""), strict=True))
    found: dict[str, Any] = json.loads(filled)
    return found


def part(found: dict[str, Any], names: object) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name in set(names)}  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("provider", "model", "inside", "expected"),
    [
        ("openai", "gpt-6-luna", "body", {"messages": CHAT}),
        ("azure", "m", "body", {"messages": CHAT}),
        ("groq", "m", "body", {"messages": CHAT}),
        ("mistral", "m", "body", {"messages": CHAT}),
        ("together", "m", "body", {"messages": CHAT}),
        ("xai", "m", "body", {"messages": CHAT}),
        ("anthropic", "claude-haiku-5-5", "params", CLAUDE),
        ("gemini", "gemini-3.8-flash", "request", GOOGLE),
        ("vertex", "gemini-3.8-flash", "request", GOOGLE),
        ("bedrock", "anthropic.claude-haiku-5-5-v1:0", "modelInput", CLAUDE),
        ("bedrock", "amazon.nova-pro-v1:0", "modelInput", CONVERSE),
    ],
)
def test_a_batch_line_holds_the_conversation(provider: str, model: str, inside: str, expected: dict[str, Any]) -> None:
    frame = providers.batch_module(provider).frame(Judge(provider=provider, model=model), schema=None, messages=TALK)
    assert part(document(frame)[inside], expected) == expected
    assert [slot for slot in frame.slots if slot != "request_id"] == ["system", "said_1", "said_2", "said_3"]


@pytest.mark.parametrize("provider", [name for name in providers.names() if "live" in providers.module(name).MODES])
def test_a_live_body_holds_the_conversation(provider: str) -> None:
    judge = Judge(provider=provider, model="m", mode="live")
    frame = providers.live_module(provider).live_frame(judge, schema=None, messages=TALK)
    assert frame.slots == ("system", "said_1", "said_2", "said_3")


def test_responses_take_the_conversation_as_their_input() -> None:
    judge = Judge(provider="openai", model="gpt-6-luna", endpoint="responses")
    frame = providers.batch_module("openai").frame(judge, schema=None, messages=TALK)
    assert document(frame)["body"]["input"] == CHAT
