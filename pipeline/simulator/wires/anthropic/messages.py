"""Messages: what is accepted, what it asks, what the answer looks like."""

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.judge import Ask, Reply
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.anthropic.models import EFFORTS, effort_of, shows_thoughts, thinking_of
from pipeline.simulator.wires.anthropic.speaking import NEW, invalid

_KNOWN = frozenset(
    (
        "cache_control", "container", "context_management", "inference_geo", "max_tokens", "mcp_servers", "messages",
        "metadata", "model", "output_config", "service_tier", "speed", "stop_sequences", "stream", "system",
        "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p",
    )
)  # fmt: skip
_SAMPLING = ("temperature", "top_p", "top_k")
_STOPS = {
    "stop": "end_turn", "length": "max_tokens", "refusal": "refusal", "filter": "refusal", "failed": "end_turn",
}  # fmt: skip
_BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


def problem(params: JsonObject, *, version: str) -> Problem | None:
    """Return why the request is refused, if it is."""
    for name in ("model", "max_tokens", "messages"):
        if name not in params:
            return invalid(f"{name}: Field required")
    if not isinstance(params["model"], str) or not params["model"]:
        return invalid("model: Input should be a valid string")
    extra = next((name for name in params if name not in _KNOWN), None)
    if extra is not None:
        return invalid(f"{extra}: Extra inputs are not permitted")
    return (
        _limit_problem(params["max_tokens"])
        or _messages_problem(params["messages"])
        or _sampling_problem(params, version)
        or _thinking_problem(params)
        or _config_problem(params)
    )


def _limit_problem(given: object) -> Problem | None:
    if not isinstance(given, int) or isinstance(given, bool):
        return invalid("max_tokens: Input should be a valid integer")
    return None if given >= 1 else invalid("max_tokens: Input should be greater than or equal to 1")


def _messages_problem(messages: object) -> Problem | None:
    if not isinstance(messages, list) or not messages:
        return invalid("messages: at least one message is required")
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            return invalid(f"messages.{at}.role: Input should be 'user' or 'assistant'")
        if not isinstance(message.get("content"), str | list) or not message["content"]:
            return invalid(f"messages.{at}.content: Input should be a non-empty string or list of blocks")
    if messages[-1]["role"] == "assistant":
        return invalid("messages: the final message must be from the user; prefill is not supported by this model")
    return None


def _sampling_problem(params: JsonObject, version: str) -> Problem | None:
    given = next((name for name in _SAMPLING if name in params), None)
    if given is None:
        return None
    if version == NEW:
        return invalid(f"{given}: Extra inputs are not permitted")
    if not thinking_of(params["model"]).sampling:
        return invalid(f"{given}: sampling parameters are not supported by {params['model']}")
    if effort_of(params) != "none":
        return invalid(f"{given}: may not be set when thinking is enabled")
    return None


def _thinking_problem(params: JsonObject) -> Problem | None:
    asked = params.get("thinking")
    if asked is None:
        return None
    kind = asked.get("type") if isinstance(asked, dict) else None
    known = thinking_of(params["model"])
    if kind not in known.types:
        return invalid(f"thinking.type: '{kind}' is not supported by {params['model']}; use {', '.join(known.types)}")
    if asked.get("display", "omitted") not in ("summarized", "omitted"):
        return invalid("thinking.display: Input should be 'summarized' or 'omitted'")
    if kind != "enabled":
        return None
    budget = asked.get("budget_tokens")
    if not isinstance(budget, int) or budget < 1024:
        return invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if budget >= params["max_tokens"]:
        return invalid("`max_tokens` must be greater than `thinking.budget_tokens`")
    return None


def _config_problem(params: JsonObject) -> Problem | None:
    config = params.get("output_config")
    if config is None:
        return None
    if not isinstance(config, dict):
        return invalid("output_config: Input should be an object")
    known, effort = thinking_of(params["model"]), config.get("effort")
    if effort is not None and (effort not in EFFORTS or not known.effort):
        return invalid(f"output_config.effort: '{effort}' is not supported by {params['model']}")
    off = (params.get("thinking") or {}).get("type") in ("disabled", "between_tools")
    if effort is not None and off and EFFORTS.index(effort) > EFFORTS.index(known.highest_off):
        return invalid(f"output_config.effort: '{effort}' needs thinking on {params['model']}")
    return _format_problem(config.get("format"))


def _format_problem(wish: object) -> Problem | None:
    if wish is None:
        return None
    if not isinstance(wish, dict) or wish.get("type") != "json_schema" or not isinstance(wish.get("schema"), dict):
        return invalid("output_config.format: Input should have type 'json_schema' and a schema")
    return _schema_problem(wish["schema"])


def _schema_problem(schema: JsonObject) -> Problem | None:
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return invalid("output_config.format.schema: 'additionalProperties' must be false for every object")
    bound = next((name for name in _BOUNDS if name in schema), None)
    if bound is not None:
        return invalid(f"output_config.format.schema: property '{bound}' is not supported")
    inner = (part for part in schema.get("properties", {}).values() if isinstance(part, dict))
    return next((found for part in inner if (found := _schema_problem(part))), None)


def ask(params: JsonObject) -> Ask:
    """Return what an accepted request asks."""
    wish = (params.get("output_config") or {}).get("format") or {}
    parts = [_text(params.get("system")), *(_text(message["content"]) for message in params["messages"])]
    return Ask(
        model=params["model"],
        prompt="\n".join(part for part in parts if part),
        schema=wish.get("schema"),
        effort=effort_of(params),
        max_output_tokens=params["max_tokens"],
    )


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(block.get("text") or "" for block in content if isinstance(block, dict))
    return content if isinstance(content, str) else ""


def answer(params: JsonObject, reply: Reply, *, mark: str, tier: str) -> JsonObject:
    """Return the message."""
    refused = reply.stop in ("refusal", "filter")
    details = {"type": "refusal", "category": "general_harms", "explanation": None} if refused else None
    return {
        "id": f"msg_{mark}",
        "type": "message",
        "role": "assistant",
        "model": params["model"],
        "content": _blocks(params, reply),
        "stop_reason": _STOPS[reply.stop],
        "stop_sequence": None,
        "stop_details": details,
        "container": None,
        "diagnostics": None,
        "usage": _usage(reply, tier),
    }


def _blocks(params: JsonObject, reply: Reply) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    if reply.reasoning_tokens:
        thoughts = reply.thoughts if shows_thoughts(params) else ""
        blocks.append({"type": "thinking", "thinking": thoughts, "signature": "c2ltdWxhdGVk"})
    if reply.text and reply.stop != "refusal":
        blocks.append({"type": "text", "text": reply.text, "citations": None})
    return blocks


def _usage(reply: Reply, tier: str) -> JsonObject:
    return {
        "input_tokens": reply.input_tokens - reply.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.cached_tokens,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"thinking_tokens": reply.reasoning_tokens},
        "server_tool_use": None,
        "service_tier": tier,
        "inference_geo": "global",
        "speed": None,
    }
