"""Fills in a JSON schema: the answers of a judge that was asked for structured output.

Only what schemas of this kind use is understood: objects, arrays, enums, strings, numbers, booleans, `anyOf`.
"""

from collections.abc import Iterator, Sequence

from pipeline.simulator.documents import JsonObject, JsonValue

_WORDS = {
    "first": ("first", "SAMPLE_1", "sample_1", "A", "1"),
    "second": ("second", "SAMPLE_2", "sample_2", "B", "2"),
    "tie": ("tie", "TIE", "Tie", "C", "0"),
    "n/a": ("n/a", "N/A"),
}


def allows(schema: JsonObject, outcome: str) -> bool:
    """Return whether some field of the schema may say this, such as that neither is better."""
    return any(word in options for options in _enums(schema) for word in _WORDS[outcome])


def _enums(schema: JsonObject) -> Iterator[list[JsonValue]]:
    if "enum" in schema:
        yield schema["enum"]
    for part in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        yield from _enums(part)


def fill(schema: JsonObject, outcome: str | None, draw: int, prose: str, impression: float | None = None) -> JsonValue:
    """Return a document that fits the schema and says `outcome`; what is left open follows from `draw`.

    Where one text is judged, `impression` says from 0 to 1 how good it seems: booleans, numbers and choices follow it.
    """
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return _pick(schema["enum"], outcome, draw) if impression is None else step_of(schema["enum"], impression)
    if "anyOf" in schema:
        return fill(schema["anyOf"][0], outcome, draw, prose, impression)
    match str(_kind(schema)).lower():
        case "object":
            fields = schema.get("properties", {}).items()
            return {
                name: fill(field, outcome, draw >> at, prose, impression) for at, (name, field) in enumerate(fields)
            }
        case "array":
            return [fill(schema["items"], outcome, draw, prose, impression)] if "items" in schema else []
        case "number" if impression is not None:
            return certainty(impression)
        case "integer" | "number":
            low, high = int(schema.get("minimum", 0)), int(schema.get("maximum", 10))
            steps = range(low, max(high, low) + 1)
            return steps[draw % len(steps)] if impression is None else step_of(steps, impression)
        case "boolean":
            return draw % 2 == 0 if impression is None else impression >= 0.5
        case "null":
            return None
        case _:
            return prose


def step_of(options: Sequence[JsonValue], impression: float) -> JsonValue:
    """Return the option that stands as far from the first as the impression is from 0."""
    return options[min(int(impression * len(options)), len(options) - 1)]


def certainty(impression: float) -> float:
    """Return how far from undecided an impression is, from 0 to 1."""
    return round(abs(2 * impression - 1), 2)


def _kind(schema: JsonObject) -> JsonValue:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return kind[0] if isinstance(kind, list) and kind else kind


def _pick(options: list[JsonValue], outcome: str | None, draw: int) -> JsonValue:
    for word in _WORDS.get(outcome or "", ()):
        if word in options:
            return word
    return options[draw % len(options)]
