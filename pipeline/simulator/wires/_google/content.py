"""Generated content: what is accepted (in camelCase or snake_case), what it asks, what the answer looks like."""

import re

import msgspec

from pipeline.simulator.documents import JsonObject, JsonValue
from pipeline.simulator.engine import Engine
from pipeline.simulator.judge import Ask, Reply
from pipeline.simulator.wires._google.speaking import invalid, problem_of
from pipeline.simulator.wires._speaking import Problem

_KNOWN = frozenset(
    (
        "contents", "systemInstruction", "generationConfig", "safetySettings", "tools", "toolConfig", "cachedContent",
        "labels", "model", "serviceTier",
    )
)  # fmt: skip
_CONFIG = frozenset(
    (
        "candidateCount", "stopSequences", "maxOutputTokens", "temperature", "topP", "topK", "seed", "presencePenalty",
        "frequencyPenalty", "responseMimeType", "responseSchema", "responseJsonSchema", "thinkingConfig",
        "responseLogprobs", "logprobs", "responseModalities", "mediaResolution",
    )
)  # fmt: skip
_THINKING = frozenset(("thinkingLevel", "thinkingBudget", "includeThoughts"))
_ALL, _UPPER = ("MINIMAL", "LOW", "MEDIUM", "HIGH"), ("LOW", "MEDIUM", "HIGH")
_LEVELS = (
    (r"gemini-4-argon.*", _UPPER, "MEDIUM"),
    (r"gemini-3\.[78]-flash.*", _UPPER, "MEDIUM"),
    (r"gemini-3\.6-flash.*", _ALL, "MEDIUM"),
    (r"gemini-3\.5-flash-lite.*", _ALL, "MINIMAL"),
    (r"gemini-3-flash.*", _ALL, "HIGH"),
    (r"gemini-3\.1-pro.*", _UPPER, "HIGH"),
)
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY", "refusal": "PROHIBITED_CONTENT"}
_LABEL = re.compile(r"[a-z0-9_-]{0,63}")


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was executed: the response, and what it rests on."""

    response: JsonObject
    ask: Ask
    reply: Reply


def perform(engine: Engine, model: str, request: JsonObject, *, mark: str, twist: str | None) -> Done | Problem:
    """Return the answer to a request, live or from a batch, or why it is refused."""
    if engine.settings.models and model not in engine.settings.models:
        return problem_of(404, f"models/{model} is not found, or is not supported for generateContent.")
    body = _camel(request)
    problem = _problem(model, body)
    if problem is not None:
        return problem
    ask = _ask(model, body)
    reply = engine.judge.reply(ask, twist)
    if reply.stop == "failed":
        return problem_of(500, "An internal error has occurred.")
    return Done(response=_response(model, body, reply, mark), ask=ask, reply=reply)


def _camel(value: JsonValue, *, deep: bool = True) -> JsonValue:
    """Return the value with the names of its fields in camelCase; a schema's and labels' are left alone."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict) or not deep:
        return value
    named = {re.sub(r"_([a-z])", lambda match: match[1].upper(), name): inner for name, inner in value.items()}
    opaque = ("responseJsonSchema", "responseSchema", "labels")
    return {name: _camel(inner, deep=name not in opaque) for name, inner in named.items()}


def _problem(model: str, body: JsonObject) -> Problem | None:
    unknown = next((name for name in body if name not in _KNOWN), None)
    if unknown is not None:
        return invalid(f'Invalid JSON payload received. Unknown name "{unknown}": Cannot find field.')
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        return invalid("* GenerateContentRequest.contents: contents is not specified")
    for at, content in enumerate(contents):
        if not isinstance(content, dict) or content.get("role", "user") not in ("user", "model"):
            return invalid(f"* GenerateContentRequest.contents[{at}]: Please use a valid role: user, model.")
        if not isinstance(content.get("parts"), list) or not content["parts"]:
            return invalid(f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty.")
    config = body.get("generationConfig", {})
    if not isinstance(config, dict):
        return invalid("* GenerateContentRequest.generation_config: must be an object")
    return _labels_problem(body.get("labels", {})) or _config_problem(config) or _thinking_problem(model, config)


def _labels_problem(labels: object) -> Problem | None:
    if not isinstance(labels, dict):
        return invalid("labels: must be an object")
    for name, value in labels.items():
        if not _LABEL.fullmatch(name) or not isinstance(value, str) or not _LABEL.fullmatch(value):
            return invalid(f"labels: {name!r} must be lower case letters, digits, '_' and '-', at most 63 of them.")
    return None


def _config_problem(config: JsonObject) -> Problem | None:
    unknown = next((name for name in config if name not in _CONFIG), None)
    if unknown is not None:
        return invalid(f"Unknown name \"{unknown}\" at 'generation_config': Cannot find field.")
    limit = config.get("maxOutputTokens")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        return invalid("* GenerateContentRequest.generation_config.max_output_tokens: must be positive.")
    if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
        return invalid("Structured output needs response_mime_type to be application/json.")
    return None


def _thinking_problem(model: str, config: JsonObject) -> Problem | None:
    asked = config.get("thinkingConfig", {})
    if not isinstance(asked, dict) or set(asked) - _THINKING:
        return invalid("Unknown name at 'generation_config.thinking_config': Cannot find field.")
    if "thinkingLevel" in asked and "thinkingBudget" in asked:
        return invalid("You can only set only one of thinking budget and thinking level.")
    level, budget = asked.get("thinkingLevel"), asked.get("thinkingBudget")
    known = next(((levels, default) for names, levels, default in _LEVELS if re.fullmatch(names, model)), None)
    if level is not None and known and level not in known[0]:
        return invalid(f"Thinking level {level} is not supported by {model}.")
    if level is not None and model.startswith("gemini-2.5"):
        return invalid("Thinking level is not supported for this model.")
    if budget == 0 and "2.5-pro" in model:
        return invalid("Budget 0 is invalid. This model only works in thinking mode.")
    return None


def _effort(model: str, config: JsonObject) -> str:
    asked = config.get("thinkingConfig", {})
    if "thinkingLevel" in asked:
        return str(asked["thinkingLevel"]).lower()
    budget = asked.get("thinkingBudget", -1 if model.startswith("gemini-2.5") else None)
    if budget is not None:
        return "none" if budget == 0 else "medium" if budget < 0 else "low" if budget <= 2_000 else "high"
    return next((default.lower() for names, _, default in _LEVELS if re.fullmatch(names, model)), "none")


def _ask(model: str, body: JsonObject) -> Ask:
    config = body.get("generationConfig", {})
    parts = [body.get("systemInstruction") or {}, *body["contents"]]
    texts = ["".join(part.get("text") or "" for part in content.get("parts", ())) for content in parts]
    return Ask(
        model=model,
        prompt="\n".join(text for text in texts if text),
        schema=config.get("responseJsonSchema") or config.get("responseSchema"),
        effort=_effort(model, config),
        max_output_tokens=config.get("maxOutputTokens"),
    )


def _response(model: str, body: JsonObject, reply: Reply, mark: str) -> JsonObject:
    candidate: JsonObject = {"index": 0, "finishReason": _FINISH[reply.stop]}
    parts = _parts(body, reply)
    if parts:
        candidate["content"] = {"role": "model", "parts": parts}
    return {
        "candidates": [candidate],
        "modelVersion": model,
        "responseId": mark,
        "usageMetadata": _usage(reply),
    }


def _parts(body: JsonObject, reply: Reply) -> list[JsonObject]:
    if reply.stop in ("filter", "refusal"):
        return []
    asked = body.get("generationConfig", {}).get("thinkingConfig", {})
    thoughts = [{"text": reply.thoughts, "thought": True}] if reply.thoughts and asked.get("includeThoughts") else []
    return [*thoughts, {"text": reply.text}]


def _usage(reply: Reply) -> JsonObject:
    """Return the counts: thoughts apart, and zeros left out."""
    said = reply.output_tokens - reply.reasoning_tokens
    counts = {
        "promptTokenCount": reply.input_tokens,
        "cachedContentTokenCount": reply.cached_tokens,
        "candidatesTokenCount": said,
        "thoughtsTokenCount": reply.reasoning_tokens,
        "totalTokenCount": reply.input_tokens + reply.output_tokens,
    }
    details = [{"modality": "TEXT", "tokenCount": reply.input_tokens}]
    return {**{name: count for name, count in counts.items() if count}, "promptTokensDetails": details}
