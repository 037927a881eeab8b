"""Answers of several named fields: how they are asked for, as a JSON object or between tags, and how they are read.

Total functions, as in `answers`: a field that was given twice with different values was not given.
"""

import re
from collections.abc import Mapping, Sequence

from pipeline.domain import Answer
from pipeline.tasks.answers import Unparsed, between, object_items

_TRIMMED = " \t\r\n*_`"
_DECIMAL = re.compile(r"[-+]?[0-9]{1,9}(\.[0-9]{1,30})?")
_TRUTHS = {"yes": True, "true": True, "no": False, "false": False}

Fields = Mapping[str, object]


def object_schema(properties: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return the JSON Schema of an object with these properties, in the subset every provider's own output takes."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def instruction(fields: Mapping[str, str], *, answer: Answer) -> str:
    """Return how the judge is to write its answer; `fields` says of each field what belongs into it."""
    if answer == "json":
        lines = "\n".join(f'- "{name}": {what}' for name, what in fields.items())
        return f"Answer with one JSON object and nothing else. Its keys, in this order:\n{lines}"
    lines = "\n".join(f"<{name.upper()}>{what}</{name.upper()}>" for name, what in fields.items())
    return f"Answer with exactly these lines and nothing else, filled in between the tags:\n{lines}"


def read_fields(content: str | None, names: Sequence[str], *, answer: Answer) -> Fields | Unparsed:
    """Return what was given for each of these fields, as it was written; the first one must be there."""
    if content is None or not content.strip():
        return Unparsed(reason="empty")
    if answer == "json":
        items = object_items(content)
    else:
        items = [(name, text.strip(_TRIMMED)) for name in names for text in _tagged(content, name)]
    if isinstance(items, Unparsed):
        return items
    found: dict[str, object] = {}
    for name, value in items:
        if name in names and name in found and (found[name] != value or type(found[name]) is not type(value)):
            return Unparsed(reason="two_answers")
        if name in names:
            found[name] = value
    return found if names[0] in found else Unparsed(reason="no_answer")


def truth(value: object) -> bool | None:
    """Return what a yes or no says, None if it says neither."""
    if isinstance(value, bool):
        return value
    return _TRUTHS.get(value.strip(_TRIMMED).casefold()) if isinstance(value, str) else None


def decimal(value: object) -> float | None:
    """Return the number that was written, None if it is none."""
    written = value.strip(_TRIMMED) if isinstance(value, str) else ""
    return float(written) if _DECIMAL.fullmatch(written) else None


def words(value: object) -> str | None:
    """Return the text that was written, None if it is none or empty; half of a surrogate pair is no character."""
    return value.strip().encode(errors="replace").decode() or None if isinstance(value, str) else None


def columns_of(values: Sequence[object | None], names: Sequence[str]) -> dict[str, list[object]]:
    """Return the columns that hold these fields of what was read, empty where nothing was."""
    return {name: [None if value is None else getattr(value, name) for value in values] for name in names}


def _tagged(content: str, name: str) -> list[str]:
    """Return what stands between a field's tags, whatever the letter case of the tags."""
    prefix, suffix = f"<{name}>".casefold(), f"</{name}>".casefold()
    folded = content.casefold()
    if len(folded) != len(content):  # a few letters grow when folded: then places in one are not places in the other
        return list(between(folded, prefix, suffix))
    found, start = [], 0
    for inside in between(folded, prefix, suffix):
        start = folded.index(prefix + inside + suffix, start) + len(prefix)
        found.append(content[start : start + len(inside)])
    return found
