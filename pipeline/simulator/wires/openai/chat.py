"""Chat completions: what is accepted, what it asks, what the answer looks like."""

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.judge import Ask, Reply
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.openai.models import effort_of, effort_problem, parameter_problem, schema_problem
from pipeline.simulator.wires.openai.speaking import invalid, missing, unknown

_KNOWN = frozenset(
    (
        "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens",
        "max_tokens", "messages", "metadata", "modalities", "model", "moderation", "n", "parallel_tool_calls",
        "prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
        "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream",
        "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity",
        "web_search_options",
    )
)  # fmt: skip
_ROLES = ("developer", "system", "user", "assistant", "tool", "function")
_FINISH = {"stop": "stop", "refusal": "stop", "length": "length", "filter": "content_filter"}


def problem(body: JsonObject) -> Problem | None:
    """Return why the request is refused, if it is."""
    effort = effort_of(body["model"], body.get("reasoning_effort"))
    return (
        _messages_problem(body.get("messages"))
        or next((unknown(name) for name in body if name not in _KNOWN), None)
        or effort_problem(body["model"], body.get("reasoning_effort"), "reasoning_effort")
        or parameter_problem(body, effort)
        or _limit_problem(body)
        or _format_problem(body.get("response_format"))
    )


def _messages_problem(messages: object) -> Problem | None:
    if messages is None:
        return missing("messages")
    if not isinstance(messages, list) or not messages:
        return invalid("messages", "Invalid 'messages': expected an array with at least one message.", "empty_array")
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            return invalid(f"messages[{at}].role", f"Invalid role: supported values are {', '.join(_ROLES)}.")
        if not isinstance(message.get("content"), str | list):
            return invalid(f"messages[{at}].content", "Invalid content: expected a string or an array of parts.")
    return None


def _limit_problem(body: JsonObject) -> Problem | None:
    for name in ("max_completion_tokens", "max_tokens"):
        given = body.get(name)
        if given is not None and (not isinstance(given, int) or given < 1):
            return invalid(name, f"Invalid '{name}': expected a whole number of at least 1.", "integer_below_min_value")
    return None


def _format_problem(wish: object) -> Problem | None:
    if wish is None:
        return None
    if not isinstance(wish, dict) or wish.get("type") not in ("text", "json_object", "json_schema"):
        return invalid("response_format", "Invalid response_format: expected type text, json_object or json_schema.")
    if wish["type"] != "json_schema":
        return None
    given = wish.get("json_schema")
    if not isinstance(given, dict):
        return missing("response_format.json_schema")
    return schema_problem(given, "response_format")


def ask(body: JsonObject) -> Ask:
    """Return what an accepted request asks."""
    wish = body.get("response_format") or {}
    return Ask(
        model=body["model"],
        prompt="\n".join(text_of(message["content"]) for message in body["messages"]),
        schema=wish["json_schema"]["schema"] if wish.get("type") == "json_schema" else None,
        effort=effort_of(body["model"], body.get("reasoning_effort")),
        max_output_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
    )


def text_of(content: object) -> str:
    """Return the text of a message's content, whether a string or parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def answer(body: JsonObject, reply: Reply, *, mark: str, at: int) -> JsonObject:
    """Return the completion."""
    refused = reply.stop == "refusal"
    message: JsonObject = {
        "role": "assistant",
        "content": None if refused else reply.text,
        "refusal": reply.text if refused else None,
        "annotations": [],
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[reply.stop]}
    return {
        "id": f"chatcmpl-{mark}",
        "object": "chat.completion",
        "created": at,
        "model": body["model"],
        "choices": [choice],
        "usage": _usage(reply),
        "service_tier": "default",
        "system_fingerprint": None,
    }


def _usage(reply: Reply) -> JsonObject:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": reply.cached_tokens,
            "audio_tokens": 0,
            "cache_write_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": reply.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
