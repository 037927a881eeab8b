"""What differs between two versions of a run, in words for the person who changed the file."""

import msgspec

from pipeline.domain import Criterion, RunConfig, Template

_NAMED_ONLY = {"samples": "samples", "pairs": "pairs"}  # a digest says nothing to a person


def changes(old: RunConfig, new: RunConfig) -> list[str]:
    """Return one phrase for each difference; none when both make the same requests."""
    found: list[str] = []
    for field in RunConfig.__struct_fields__:
        before, after = getattr(old, field), getattr(new, field)
        if before != after and field == "options":
            found.extend(_options(before, after))
        elif before != after:
            found.extend(_phrases(field, before, after))
    return found


def _phrases(field: str, before: object, after: object) -> list[str]:
    if field in _NAMED_ONLY:
        return [_NAMED_ONLY[field]]
    if isinstance(before, Template | Criterion) and isinstance(after, Template | Criterion):
        return [_worded(field, before, after)]
    if isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct):
        return _inside(field, before, after)
    return [f"{field.replace('_', ' ')}: {_shown(before)} -> {_shown(after)}"]


def _options(before: object, after: object) -> list[str]:
    """Return which keys of the task's own say something else; their values may be long."""
    old, new = (each if isinstance(each, dict) else {} for each in (before, after))
    return [key for key in dict.fromkeys((*old, *new)) if old.get(key) != new.get(key)]


def _worded(field: str, before: Template | Criterion, after: Template | Criterion) -> str:
    if before.name != after.name:
        return f"{field}: {before.name} -> {after.name}"
    return f"{field} {before.name}: its {'text' if isinstance(before, Template) else 'description'}"


def _inside(field: str, before: msgspec.Struct, after: msgspec.Struct) -> list[str]:
    """Return the differences inside a judge, by the names of the file, or inside the tags."""
    prefix = "" if field == "judge" else f"{field}."
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in before.__struct_fields__]
    return [f"{prefix}{name}: {_shown(old)} -> {_shown(new)}" for name, old, new in pairs if old != new]


def _shown(value: object) -> str:
    return "not set" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
