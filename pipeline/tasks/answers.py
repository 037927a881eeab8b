"""Reads the judge's decision out of what it wrote.

Total functions: whatever the text, they return an outcome or the reason why there is none, in time proportional to its
length. Nothing is guessed: a text with two different answers has none.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Literal

import msgspec

from pipeline.domain import Outcome, Tags

Reason = Literal[
    "empty", "no_answer", "two_answers", "unknown_answer", "tie_not_allowed", "not_json", "out_of_range",
    "not_applicable",
]  # fmt: skip
_Choice = Outcome | Literal["n/a"]

_WORDS: dict[str, _Choice] = {"sample_1": "first", "sample_2": "second", "tie": "tie", "n/a": "n/a"}
_VALUES: dict[str, _Choice] = {"first": "first", "second": "second", "tie": "tie", "n/a": "n/a"}
_WORD = re.compile(r"[\s*_`]*(sample_1|sample_2|tie|n/a)[\s*_`]*")
_FENCE = "```"
_SHORT_END, _ENDS_IN_MIND = 100, 256


class Unparsed(msgspec.Struct, frozen=True, kw_only=True):
    """An output without an answer, and why: none could be read, or the judge says that the question does not apply."""

    reason: Reason

    @property
    def status(self) -> Literal["unparsed", "inapplicable"]:
        """How the request ended."""
        return "inapplicable" if self.reason == "not_applicable" else "unparsed"


_EMPTY = Unparsed(reason="empty")


class Number(str):
    """A number as it was written; JSON knows no other than the decimal notation."""

    __slots__ = ()


class _Object(msgspec.Struct, frozen=True):
    """A JSON object with every key that was written, also those that occur twice."""

    items: list[tuple[str, object]]


@cache
def tag_reader(tags: Tags, *, ties: bool, abstain: bool = False) -> Callable[[str | None], Outcome | Unparsed]:
    """Return what tells which sample the tags name; letter case, white space and bold type are forgiven.

    Most texts have nothing but one of a few answers from the first tag on: what such an end says is found out once.
    """
    prefix, suffix = tags.prefix.casefold(), tags.suffix.casefold()
    mark = prefix[:1] if prefix[:1].isascii() and not prefix[:1].isalpha() else ""

    def said(end: str) -> Outcome | Unparsed:
        inside = between(end.casefold(), prefix, suffix)
        return _only([_WORDS.get(text) or _decorated(text) for text in inside], ties=ties, abstain=abstain)

    said_before = lru_cache(_ENDS_IN_MIND)(said)

    def read(content: str | None) -> Outcome | Unparsed:
        if not content:
            return _EMPTY
        start = content.find(mark)  # folding makes no ASCII mark: what is before the first, or has none, has no tag
        if start <= 0 and content.isspace():
            return _EMPTY
        end = content[start:] if start >= 0 else ""
        return said_before(end) if len(end) <= _SHORT_END else said(end)

    return read


def read_json(content: str, *, ties: bool, abstain: bool = False) -> Outcome | Unparsed:
    """Return what the object says is `better`; one code fence around it is forgiven, other keys are ignored."""
    items = object_items(content)
    if isinstance(items, Unparsed):
        return items
    values = (value for key, value in items if key == "better")
    known = (_VALUES.get(value) if isinstance(value, str) else None for value in values)
    return _only(known, ties=ties, abstain=abstain)


def object_items(content: str) -> list[tuple[str, object]] | Unparsed:
    """Return the keys and values of the JSON object in the text, doubled ones too; numbers are left as written."""
    text = content.strip()
    if not text:
        return Unparsed(reason="empty")
    try:
        found: object = json.loads(
            _unfenced(text), object_pairs_hook=_Object, parse_constant=_refused, parse_int=Number, parse_float=Number
        )
    except (ValueError, RecursionError):
        return Unparsed(reason="not_json")
    return found.items if isinstance(found, _Object) else []


def _decorated(text: str) -> _Choice | None:
    word = _WORD.fullmatch(text)
    return _WORDS[word[1]] if word else None


def _only(answers: Iterable[_Choice | None], *, ties: bool, abstain: bool) -> Outcome | Unparsed:
    """Return the one answer that was given; None among them is one that nobody knows."""
    given = set(answers)
    if not given:
        return Unparsed(reason="no_answer")
    if len(given) > 1:
        known = len(given) - (None in given)
        return Unparsed(reason="two_answers" if known > 1 else "unknown_answer")
    answer = given.pop()
    if answer is None or (answer == "n/a" and not abstain):
        return Unparsed(reason="unknown_answer")
    if answer == "n/a":
        return Unparsed(reason="not_applicable")
    if answer == "tie" and not ties:
        return Unparsed(reason="tie_not_allowed")
    return answer


def between(text: str, prefix: str, suffix: str) -> list[str]:
    """Return what stands between a prefix and the next suffix; a prefix that is only mentioned opens nothing."""
    found: list[str] = []
    start = text.find(prefix) if prefix and suffix else -1
    while start != -1:
        start += len(prefix)
        end = text.find(suffix, start)
        if end == -1:
            break
        found.append(text[start:end].rpartition(prefix)[2])
        start = text.find(prefix, end + len(suffix))
    return found


def _unfenced(text: str) -> str:
    if len(text) < 2 * len(_FENCE) or not (text.startswith(_FENCE) and text.endswith(_FENCE)):
        return text
    inside = text[len(_FENCE) : -len(_FENCE)]
    return inside[4:] if inside[:4].casefold() == "json" else inside


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
