"""Responses: what is accepted, what it asks, what the answer looks like."""

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.judge import Ask, Reply
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.openai.chat import text_of
from pipeline.simulator.wires.openai.models import effort_of, effort_problem, parameter_problem, schema_problem
from pipeline.simulator.wires.openai.speaking import invalid, missing, unknown

_KNOWN = frozenset(
    (
        "access_programs", "background", "context_management", "conversation", "image", "include", "input",
        "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model", "moderation", "parallel_tool_calls",
        "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
        "reasoning", "safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature", "text",
        "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
    )
)  # fmt: skip
_SUMMARIES = (None, "auto", "concise", "detailed")
_WHY_INCOMPLETE = {"length": "max_output_tokens", "filter": "content_filter"}


def problem(body: JsonObject) -> Problem | None:
    """Return why the request is refused, if it is."""
    reasoning = body.get("reasoning") or {}
    if not isinstance(reasoning, dict):
        return invalid("reasoning", "Invalid 'reasoning': expected an object.", "invalid_type")
    asked = reasoning.get("effort")
    return (
        _input_problem(body.get("input"))
        or next((unknown(name) for name in body if name not in _KNOWN), None)
        or effort_problem(body["model"], asked, "reasoning.effort")
        or _summary_problem(reasoning)
        or parameter_problem(body, effort_of(body["model"], asked))
        or _logprobs_problem(body, effort_of(body["model"], asked))
        or _limit_problem(body.get("max_output_tokens"))
        or _format_problem(body.get("text"))
    )


def _input_problem(given: object) -> Problem | None:
    if given is None:
        return missing("input")
    if isinstance(given, str):
        return None
    if not isinstance(given, list) or not given:
        return invalid("input", "Invalid 'input': expected a string or a list with at least one item.", "invalid_type")
    for at, item in enumerate(given):
        if not isinstance(item, dict):
            return invalid(f"input[{at}]", "Invalid item: expected an object.", "invalid_type")
        if item.get("type", "message") == "message" and not isinstance(item.get("content"), str | list):
            return invalid(f"input[{at}].content", "Invalid content: expected a string or an array of parts.")
    return None


def _summary_problem(reasoning: JsonObject) -> Problem | None:
    if reasoning.get("summary") in _SUMMARIES:
        return None
    return invalid("reasoning.summary", "Invalid summary: supported values are auto, concise, detailed.")


def _logprobs_problem(body: JsonObject, effort: str) -> Problem | None:
    if effort == "none" or "message.output_text.logprobs" not in (body.get("include") or ()):
        return None
    return invalid("include", "Unsupported parameter: 'include' of logprobs with this model.", "unsupported_parameter")


def _limit_problem(given: object) -> Problem | None:
    if given is None or (isinstance(given, int) and given >= 1):
        return None
    message = "Invalid 'max_output_tokens': expected a whole number of at least 1."
    return invalid("max_output_tokens", message, "integer_below_min_value")


def _format_problem(text: object) -> Problem | None:
    wish = text.get("format") if isinstance(text, dict) else None
    if wish is None:
        return None
    if not isinstance(wish, dict) or wish.get("type") not in ("text", "json_object", "json_schema"):
        return invalid("text.format", "Invalid format: expected type text, json_object or json_schema.")
    return schema_problem(wish, "text.format") if wish["type"] == "json_schema" else None


def _format(body: JsonObject) -> JsonObject:
    given = (body.get("text") or {}).get("format") or {"type": "text"}
    return {**given, "description": given.get("description")} if given["type"] == "json_schema" else given


def ask(body: JsonObject) -> Ask:
    """Return what an accepted request asks."""
    given = body["input"]
    parts = [given] if isinstance(given, str) else [text_of(item.get("content")) for item in given]
    wish = _format(body)
    return Ask(
        model=body["model"],
        prompt="\n".join([body.get("instructions") or "", *parts]),
        schema=wish["schema"] if wish["type"] == "json_schema" else None,
        effort=effort_of(body["model"], (body.get("reasoning") or {}).get("effort")),
        max_output_tokens=body.get("max_output_tokens"),
    )


def answer(body: JsonObject, reply: Reply, *, mark: str, at: int) -> JsonObject:
    """Return the response."""
    reasoning, asked = body.get("reasoning") or {}, ask(body)
    failed = reply.stop == "failed"
    incomplete = _WHY_INCOMPLETE.get(reply.stop)
    error = {"code": "server_error", "message": "The model failed to generate a response."}
    return {
        "id": f"resp_{mark}",
        "object": "response",
        "created_at": at,
        "status": "failed" if failed else "incomplete" if incomplete else "completed",
        "background": False,
        "error": error if failed else None,
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": body["model"],
        "output": _output(reply, reasoning.get("summary"), mark),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": asked.effort, "summary": reasoning.get("summary")},
        "service_tier": "default",
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": {"format": _format(body), "verbosity": (body.get("text") or {}).get("verbosity", "medium")},
        "tool_choice": "auto",
        "tools": [],
        "top_p": body.get("top_p", 1.0),
        "truncation": "disabled",
        "usage": None if failed else _usage(reply),
        "user": body.get("user"),
        "metadata": body.get("metadata") or {},
    }


def _output(reply: Reply, summary: object, mark: str) -> list[JsonObject]:
    items: list[JsonObject] = []
    if reply.reasoning_tokens:
        parts = [{"type": "summary_text", "text": reply.thoughts}] if summary and reply.stop != "length" else []
        encrypted = "c2ltdWxhdGVk"
        items.append({"id": f"rs_{mark}", "type": "reasoning", "summary": parts, "encrypted_content": encrypted})
    if reply.text:
        said = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        refused = {"type": "refusal", "refusal": reply.text}
        items.append(
            {
                "id": f"msg_{mark}",
                "type": "message",
                "role": "assistant",
                "status": "incomplete" if reply.stop == "length" else "completed",
                "content": [refused if reply.stop == "refusal" else said],
            }
        )
    return items


def _usage(reply: Reply) -> JsonObject:
    return {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
