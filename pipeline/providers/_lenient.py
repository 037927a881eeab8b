"""Answers read in spite of members that nobody needs: as they should be first, and where that fails, without those.

What is paid for must not be lost because a count came as a text. The members that make an answer are never dropped:
without them it is not readable, and that is said.
"""

import contextlib
import types
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

_BESIDE_THE_ANSWER = frozenset(
    {
        "usage", "usageMetadata", "created", "created_at", "createTime", "processed_time", "model", "modelVersion",
        "finish_reason", "finishReason", "stop_reason", "stopReason", "stop_details", "incomplete_details",
        "promptFeedback", "metadata", "status_code", "reasoning", "reasoning_content", "reasoningContent", "summary",
        "thinking",
    }
)  # fmt: skip
_NOTHING_IF_EMPTY = frozenset({"error", "refusal", "status"})


class LineDecoder(Generic[T]):
    """Reads lines of answers: one by one in spite of odd members beside the answer, or many at once, strictly."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._strict = msgspec.json.Decoder(kind)
        self.decode_lines = self._strict.decode_lines

    def decode(self, line: bytes | msgspec.Raw) -> T:
        """Return what the line holds, or raise msgspec.DecodeError or ValueError."""
        try:
            return self._strict.decode(line)
        except msgspec.ValidationError:
            return _read(msgspec.json.decode(line), self._kind, _is_beside_the_answer)


def lenient(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Return what an answer holds, every member that has a default and cannot be read left at that."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        return _read(msgspec.json.decode(body), kind, _any)


def lenient_value(value: object, kind: type[T]) -> T:
    """Do as `lenient` for an answer that somebody else decoded."""
    return _read(value, kind, _any)


_May = Callable[[str, object], bool]


def _is_beside_the_answer(name: str, value: object) -> bool:
    return name in _BESIDE_THE_ANSWER or (name in _NOTHING_IF_EMPTY and not value)


def _any(name: str, value: object) -> bool:  # noqa: ARG001 - one of two
    return True


def _read(value: object, kind: type[T], may_drop: _May) -> T:
    return msgspec.convert(_kept(value, kind, may_drop), kind)


def _kept(value: object, kind: Any, may_drop: _May) -> object:  # Any: a type as it stands in an annotation
    """Return the value without the members that are odd and may be dropped; raises ValidationError for others."""
    with contextlib.suppress(msgspec.ValidationError):
        msgspec.convert(value, kind)
        return value
    if isinstance(value, str | float):
        return msgspec.convert(value, kind, strict=False)
    for choice in _choices(kind):
        if choice is msgspec.Raw:
            return msgspec.Raw(msgspec.json.encode(value))
        origin, inner = typing.get_origin(choice), typing.get_args(choice)
        if isinstance(value, list) and origin is list:
            return [_kept(each, inner[0], may_drop) for each in value]
        if isinstance(value, dict) and origin is dict:
            return {name: _kept(each, inner[1], may_drop) for name, each in value.items()}
        if isinstance(value, dict) and isinstance(choice, type) and issubclass(choice, msgspec.Struct):
            return _members(value, choice, may_drop)
    return msgspec.convert(value, kind)


def _members(value: dict[str, object], kind: type[msgspec.Struct], may_drop: _May) -> dict[str, object]:
    kept: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        if name not in value:
            continue
        may = not field.required and may_drop(name, value[name])
        try:
            kept[name] = _kept(value[name], field.type, _any if may else may_drop)
        except msgspec.ValidationError:
            if not may:
                raise
    return kept


def _choices(kind: Any) -> tuple[Any, ...]:  # Any: as above
    return typing.get_args(kind) if typing.get_origin(kind) in {typing.Union, types.UnionType} else (kind,)
