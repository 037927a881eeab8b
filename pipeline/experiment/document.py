"""YAML text as a tree of plain values that remember where they stood.

Only what an experiment file needs: one document, text keys, no tags, no dates. What the fields mean is in `spec`.
"""

import re
from collections.abc import Iterator
from typing import NoReturn

import msgspec
import yaml

from pipeline.errors import ConfigError

MOST_BYTES = 2**20
_MOST_NODES = 20_000  # counted with every alias written out
_DEEPEST = 32

_NULL = re.compile(r"|~|null|Null|NULL")
_TRUE = re.compile(r"true|True|TRUE|yes|Yes|YES|on|On|ON")
_FALSE = re.compile(r"false|False|FALSE|no|No|NO|off|Off|OFF")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,30})")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_UNCLEAR = (
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"), "not a finite number"),
    (re.compile(r"[-+]?0[0-9_]+|[-+]?0[box][0-9a-fA-F_]+"), "a number in another notation than the decimal one"),
    (re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"), "a number of base 60 to YAML"),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?"), "a date to YAML"),
    (re.compile(r"[-+]?[1-9][0-9_]{31,}"), "a number with too many digits"),
)

Scalar = str | int | float | bool | None
_TagEvent = yaml.ScalarEvent | yaml.SequenceStartEvent | yaml.MappingStartEvent
Plain = Scalar | list["Plain"] | dict[str, "Plain"]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A value of the document, the line it began on and, for a scalar, how it was written."""

    value: "Scalar | tuple[Node, ...] | dict[str, Node]"
    line: int
    written: str = ""
    size: int = 1

    def plain(self) -> Plain:
        """Return the value without lines."""
        match self.value:
            case dict():
                return {key: child.plain() for key, child in self.value.items()}
            case tuple():
                return [child.plain() for child in self.value]
            case scalar:
                return scalar


def read_document(text: bytes, *, source: str) -> Node:
    """Return the root of the only document in the text, or refuse it in one sentence."""
    if len(text) > MOST_BYTES:
        raise ConfigError(f"{source} has {len(text)} bytes; an experiment file has at most {MOST_BYTES}")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{source}, line {line}: not UTF-8; save the file as UTF-8") from error
    try:
        return _Reader(decoded, source).document()
    except yaml.YAMLError as error:
        raise ConfigError(_syntax(error, decoded, source)) from error


_REMEDIES = {
    "mapping values are not allowed": "begin keys of one level alike, and put a text with a colon in quotes",
    "expected ',' or": "close what is open, and put a text with a mark like ? in quotes",
}


def _syntax(error: yaml.YAMLError, text: str, source: str) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return f"{source}, line {line}: the character U+{ord(text[error.position]):04X} is not allowed in YAML"
    mark = getattr(error, "problem_mark", None)
    where = f"{source}, line {mark.line + 1}" if mark else source
    if mark and "'\\t'" in str(getattr(error, "problem", "")):
        return f"{where}: a tab stands where YAML takes spaces only; use spaces"
    what = " ".join(str(getattr(error, "problem", None) or "it cannot be read").split())
    helps = next((f"; {remedy}" for words, remedy in _REMEDIES.items() if what.startswith(words)), "")
    return f"{where}: not valid YAML: {what}{helps}"


class _Reader:
    """Builds the tree from the parser's events; stops at the first thing that is not allowed."""

    def __init__(self, text: str, source: str) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.SafeLoader)
        self._source = source
        self._anchors: dict[str, Node] = {}

    def document(self) -> Node:
        """Return the root node."""
        next(self._events)
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            raise ConfigError(f"{self._source} is empty; it needs at least name, samples and judges")
        root = self._node(next(self._events), "", 0)
        next(self._events)
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            self._refuse(after, "", "a second document begins; keep one experiment in a file")
        return root

    def _node(self, event: yaml.Event, path: str, depth: int) -> Node:
        if depth > _DEEPEST:
            self._refuse(event, "", f"nested more than {_DEEPEST} levels deep")
        match event:
            case yaml.AliasEvent():
                return self._alias(event, path)
            case yaml.ScalarEvent():
                self._refuse_tag(event, path)
                node = self._scalar(event, path)
            case yaml.SequenceStartEvent():
                self._refuse_tag(event, path)
                node = self._sequence(event, path, depth)
            case yaml.MappingStartEvent():
                self._refuse_tag(event, path)
                node = self._mapping(event, path, depth)
            case _:
                self._refuse(event, path, "a value is missing")
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _refuse_tag(self, event: _TagEvent, path: str) -> None:
        if event.tag is not None:
            self._refuse(event, path, f"the tag {event.tag!r} is not allowed; write the value without it")

    def _alias(self, event: yaml.AliasEvent, path: str) -> Node:
        found = self._anchors.get(event.anchor or "")
        if found is None:
            self._refuse(event, path, f"the alias *{event.anchor} stands for nothing that was finished before it")
        return found

    def _scalar(self, event: yaml.ScalarEvent, path: str) -> Node:
        try:  # JSON writes a character of the higher planes as two halves
            written: str = event.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._refuse(event, path, "half of a surrogate pair is not a character")
        value: Scalar = self._resolve(event, path) if event.implicit[0] else written
        return Node(value=value, line=_line(event), written=written)

    def _resolve(self, event: yaml.ScalarEvent, path: str) -> Scalar:
        written: str = event.value
        if _NULL.fullmatch(written):
            return None
        if _TRUE.fullmatch(written) or _FALSE.fullmatch(written):
            return _TRUE.fullmatch(written) is not None
        if _INTEGER.fullmatch(written):
            return int(written.replace("_", ""))
        for pattern, what in _UNCLEAR:
            if pattern.fullmatch(written):
                self._refuse(event, path, f"{clipped(written)} is {what}; put it in quotes if text is meant")
        if _FLOAT.fullmatch(written):
            return self._float(event, path)
        return written

    def _float(self, event: yaml.ScalarEvent, path: str) -> float:
        number = float(event.value.replace("_", ""))
        if number in (float("inf"), float("-inf")):
            self._refuse(event, path, f"{clipped(event.value)} is too large a number")
        return number

    def _sequence(self, event: yaml.Event, path: str, depth: int) -> Node:
        children: list[Node] = []
        size = 1
        while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
            children.append(self._node(inner, f"{path}[{len(children)}]", depth + 1))
            size += children[-1].size
            self._check_size(inner, size)
        return Node(value=tuple(children), line=_line(event), size=size)

    def _mapping(self, event: yaml.Event, path: str, depth: int) -> Node:
        children: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        size = 1
        while not isinstance(inner := next(self._events), yaml.MappingEndEvent):
            key = self._key(inner, path)
            if key in children:
                self._refuse(inner, joined(path, key), "the key stands twice; keep one of them")
            child = self._node(next(self._events), joined(path, key), depth + 1)
            size += child.size
            self._check_size(inner, size)
            if key == "<<":
                merged |= self._merged(inner, path, child)
            else:
                children[key] = child
        return Node(value=merged | children, line=_line(event), size=size)

    def _merged(self, event: yaml.Event, path: str, child: Node) -> dict[str, Node]:
        if not isinstance(child.value, dict):
            self._refuse(event, path, "<< takes one alias of a mapping")
        return child.value

    def _key(self, event: yaml.Event, path: str) -> str:
        key: object = None
        if isinstance(event, yaml.ScalarEvent) and event.tag is None:
            key = self._scalar(event, path).value
        if not isinstance(key, str):
            written = clipped(getattr(event, "value", None) or "a list, mapping, alias or nothing")
            self._refuse(event, path, f"a key must be text: {written}; write a name, or put it in quotes")
        return key

    def _check_size(self, event: yaml.Event, size: int) -> None:
        if size > _MOST_NODES:
            self._refuse(event, "", f"more than {_MOST_NODES} values when every alias is written out")

    def _refuse(self, event: yaml.Event, path: str, what: str) -> NoReturn:
        place = f"{path}: " if path else ""
        raise ConfigError(f"{self._source}, line {_line(event)}: {place}{what}")


def joined(path: str, key: str) -> str:
    """Return the path of a key inside a path."""
    shown = key if key.isprintable() else repr(key)
    return f"{path}.{shown}" if path else shown


def clipped(text: str) -> str:
    """Return the text, printable and short enough for a message."""
    shown = text if text.isprintable() else repr(text)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0
