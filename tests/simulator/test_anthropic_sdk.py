"""The official Anthropic SDK, unchanged, uses the simulator and finds everything shaped as it expects."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from pipeline.simulator import Simulator, parse_faults
from tests.simulator.openai_wire import VERDICT, a_prompt
from tests.simulator.sdk_models import strict

BATCH_KEYS = {
    "id", "type", "processing_status", "request_counts", "ended_at", "created_at", "expires_at", "archived_at",
    "cancel_initiated_at", "results_url",
}  # fmt: skip
MESSAGE_KEYS = {
    "id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "stop_details", "container",
    "diagnostics", "usage",
}  # fmt: skip


@pytest.fixture(scope="module")
def client(simulator: Simulator) -> Iterator[Any]:
    with anthropic.Anthropic(api_key="sk-ant-x", base_url=simulator.anthropic_base_url, max_retries=0) as made:
        yield made


@pytest.fixture(autouse=True)
def no_faults(simulator: Simulator) -> Iterator[None]:
    yield
    simulator.engine.faults.replace({})


def a_message(**more: Any) -> dict[str, Any]:
    content = [{"role": "user", "content": a_prompt()}]
    return {"model": "claude-haiku-5-5", "max_tokens": 4096, "messages": content, **more}


def some_requests(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"custom_id": f"r{number}", "params": a_message(**more)} for number in range(count)]


def ended(client: Any, batch_id: str) -> Any:
    batch = client.messages.batches.retrieve(batch_id)
    while batch.processing_status != "ended":
        batch = client.messages.batches.retrieve(batch_id)
    return batch


def test_a_whole_batch(client: Any) -> None:
    created = strict(client.messages.batches.create(requests=some_requests(5)), BATCH_KEYS)
    assert (created.processing_status, created.request_counts.processing) == ("in_progress", 5)
    assert created.results_url is None
    batch = strict(ended(client, created.id), BATCH_KEYS)
    assert batch.request_counts.succeeded == 5
    results = {row.custom_id: row.result for row in client.messages.batches.results(batch.id)}
    assert set(results) == {f"r{number}" for number in range(5)}
    for result in results.values():
        message = strict(result.message, MESSAGE_KEYS)
        assert (result.type, message.stop_reason, message.usage.service_tier) == ("succeeded", "end_turn", "batch")
        assert "<BETTER_SAMPLE>" in message.content[-1].text


def test_the_newest_batch_is_listed_first_page_by_page(client: Any) -> None:
    made = [client.messages.batches.create(requests=some_requests(1)).id for _ in range(3)]
    listed = [batch.id for batch in client.messages.batches.list(limit=2)]
    assert listed[:3] == made[::-1]
    assert len(listed) == len(set(listed))


def test_requests_that_failed_are_nested_errors(client: Any, simulator: Simulator) -> None:
    simulator.engine.faults.replace(parse_faults("line.500=1"))
    batch = ended(client, client.messages.batches.create(requests=some_requests(2)).id)
    assert batch.request_counts.errored == 2
    kinds = {row.result.error.error.type for row in client.messages.batches.results(batch.id)}
    assert kinds == {"api_error"}


def test_a_bad_parameter_fails_its_request_alone(client: Any) -> None:
    requests = [*some_requests(1), {"custom_id": "bad", "params": a_message(temperature=0.5)}]
    batch = ended(client, client.messages.batches.create(requests=requests).id)
    results = {row.custom_id: row.result.type for row in client.messages.batches.results(batch.id)}
    assert results == {"r0": "succeeded", "bad": "errored"}


def test_an_expired_batch_ends_with_expired_rows(client: Any, simulator: Simulator) -> None:
    simulator.engine.faults.replace(parse_faults("expire.share=0.5"))
    batch = ended(client, client.messages.batches.create(requests=some_requests(4)).id)
    types = sorted(row.result.type for row in client.messages.batches.results(batch.id))
    assert types == ["expired", "expired", "succeeded", "succeeded"]
    assert (batch.request_counts.expired, batch.request_counts.succeeded) == (2, 2)


def test_a_cancelled_batch_can_be_deleted(client: Any) -> None:
    created = client.messages.batches.create(requests=some_requests(3))
    assert strict(client.messages.batches.cancel(created.id), BATCH_KEYS).processing_status == "canceling"
    batch = ended(client, created.id)
    assert batch.request_counts.canceled == 3
    assert {row.result.type for row in client.messages.batches.results(batch.id)} == {"canceled"}
    assert client.messages.batches.delete(batch.id).type == "message_batch_deleted"


@pytest.mark.parametrize(
    ("requests", "says"),
    [
        ([], "requests"),
        ([{"custom_id": "x" * 65, "params": a_message()}], "at most 64 characters"),
        ([{"custom_id": "a b", "params": a_message()}], "pattern"),
        (some_requests(1) * 2, "not unique"),
        ([{"custom_id": "a", "params": a_message(stream=True)}], "stream"),
        ([{"custom_id": "a", "params": a_message(max_tokens=0)}], "max_tokens"),
    ],
)
def test_a_create_call_is_checked(client: Any, requests: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(anthropic.BadRequestError, match=says):
        client.messages.batches.create(requests=requests)


def test_thoughts_are_shown_when_asked_for(client: Any) -> None:
    asked = {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}}
    message = strict(client.messages.create(**a_message(**asked)), MESSAGE_KEYS)
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].thinking
    assert message.usage.output_tokens > message.usage.output_tokens_details.thinking_tokens > 0


def test_structured_output_is_json(client: Any) -> None:
    asked = {"output_config": {"format": {"type": "json_schema", "schema": VERDICT}}}
    message = client.messages.create(**a_message(**asked))
    assert json.loads(message.content[-1].text)["better"] in {"first", "second"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"model": "claude-opus-5-5", "thinking": {"type": "disabled"}}, "thinking.type"),
        ({"model": "claude-sonnet-5-5", "thinking": {"type": "disabled"}}, "thinking.type"),
        ({"model": "claude-haiku-4-5", "thinking": {"type": "adaptive"}}, "thinking.type"),
        ({"model": "claude-haiku-4-5", "thinking": {"type": "enabled", "budget_tokens": 4096}}, "max_tokens"),
        ({"model": "claude-haiku-4-5", "output_config": {"effort": "low"}}, "effort"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}, "additionalProperties"),
        ({"messages": [{"role": "assistant", "content": "I"}]}, "prefill"),
    ],
)
def test_what_a_model_does_not_take_is_refused(client: Any, more: dict[str, Any], says: str) -> None:
    with pytest.raises(anthropic.BadRequestError, match=says):
        client.messages.create(**a_message(**more))


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("live.401=1", "AuthenticationError"), ("live.403=1", "PermissionDeniedError"), ("live.404=1", "NotFoundError"),
        ("live.429=1", "RateLimitError"), ("live.500=1", "InternalServerError"),
    ],
)  # fmt: skip
def test_refusals_are_the_errors_the_sdk_knows(client: Any, simulator: Simulator, fault: str, error: str) -> None:
    simulator.engine.faults.replace(parse_faults(fault))
    with pytest.raises(getattr(anthropic, error)) as raised:
        client.messages.create(**a_message())
    assert raised.value.request_id
