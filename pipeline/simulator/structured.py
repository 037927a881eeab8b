"""Fills in a JSON schema: the answers of a judge that was asked for structured output.

Only what schemas of this kind use is understood: objects, arrays, enums, strings, numbers, booleans, `anyOf`.
"""

from collections.abc import Iterator

from pipeline.simulator.documents import JsonObject, JsonValue

_WORDS = {
    "first": ("first", "SAMPLE_1", "sample_1", "A", "1"),
    "second": ("second", "SAMPLE_2", "sample_2", "B", "2"),
    "tie": ("tie", "TIE", "Tie", "C", "0"),
}


def allows_tie(schema: JsonObject) -> bool:
    """Return whether some field of the schema may say that neither is better."""
    return any(word in options for options in _enums(schema) for word in _WORDS["tie"])


def _enums(schema: JsonObject) -> Iterator[list[JsonValue]]:
    if "enum" in schema:
        yield schema["enum"]
    for part in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        yield from _enums(part)


def fill(schema: JsonObject, outcome: str | None, draw: int, prose: str) -> JsonValue:
    """Return a document that fits the schema and says `outcome`; what is left open follows from `draw`."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return _pick(schema["enum"], outcome, draw)
    if "anyOf" in schema:
        return fill(schema["anyOf"][0], outcome, draw, prose)
    match str(_kind(schema)).lower():
        case "object":
            fields = schema.get("properties", {}).items()
            return {name: fill(field, outcome, draw >> at, prose) for at, (name, field) in enumerate(fields)}
        case "array":
            return [fill(schema["items"], outcome, draw, prose)] if "items" in schema else []
        case "integer" | "number":
            low, high = int(schema.get("minimum", 0)), int(schema.get("maximum", 10))
            return low + draw % (max(high, low) - low + 1)
        case "boolean":
            return draw % 2 == 0
        case "null":
            return None
        case _:
            return prose


def _kind(schema: JsonObject) -> JsonValue:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return kind[0] if isinstance(kind, list) and kind else kind


def _pick(options: list[JsonValue], outcome: str | None, draw: int) -> JsonValue:
    for word in _WORDS.get(outcome or "", ()):
        if word in options:
            return word
    return options[draw % len(options)]
