"""Finds texts whose quality is known inside prompts of any template, quickly: thousands of texts, many prompts."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

_WORDS = re.compile(r"\w+")
_KEY_LENGTH = 40


class _Filed(NamedTuple):
    offset: int
    text: str


class _Frame(NamedTuple):
    head: str
    between: str


class KnownTexts:
    """Looks for known texts in prompts without trying each of them.

    Each text is filed under the few characters from its second word on: where a word begins inside the text, one begins
    inside the prompt too. The first word may have grown together with what stands before it, so that texts without a
    second one are tried one by one where too few texts were found.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(text for text in texts if text)
        self._frame = _Frame("", "")
        self._starting: dict[int, dict[str, list[str]]] = {}
        self._filed: dict[int, dict[str, list[_Filed]]] = {}
        self._short: list[str] = []
        for text in sorted(self._texts, key=len, reverse=True):
            start = text[:_KEY_LENGTH]
            self._starting.setdefault(len(start), {}).setdefault(start, []).append(text)
            words = list(islice(_WORDS.finditer(text), 2))
            if len(words) < 2:
                self._short.append(text)
            if words:
                offset = words[-1].start()
                key = text[offset : offset + _KEY_LENGTH]
                self._filed.setdefault(len(key), {}).setdefault(key, []).append(_Filed(offset, text))

    def __contains__(self, text: str) -> bool:
        return text in self._texts

    def __bool__(self) -> bool:
        return bool(self._texts)

    def find(self, prompt: str) -> list[tuple[int, str]]:
        """Return the two longest occurrences that do not overlap, in order; fewer if there are fewer."""
        found = self._framed(prompt) or self._searched(prompt)
        if len(found) == 2:
            (first_at, first), (second_at, _) = found
            self._frame = _Frame(prompt[:first_at], prompt[first_at + len(first) : second_at])
        return found

    def _framed(self, prompt: str) -> list[tuple[int, str]]:
        """Return the texts where those of the last prompt stood: prompts of one template come together."""
        head, between = self._frame
        first_at = len(head)
        first = self._text_at(prompt, first_at) if prompt.startswith(head) else None
        if first is None or not prompt.startswith(between, first_at + len(first)):
            return []
        second_at = first_at + len(first) + len(between)
        second = self._text_at(prompt, second_at)
        return [] if second is None else [(first_at, first), (second_at, second)]

    def _text_at(self, prompt: str, at: int) -> str | None:
        for length, starting in self._starting.items():
            for text in starting.get(prompt[at : at + length], ()):
                if prompt.startswith(text, at):
                    return text
        return None

    def _searched(self, prompt: str) -> list[tuple[int, str]]:
        found = list(self._looked_up(prompt))
        if len(found) < 2:
            found = sorted({*found, *_occurrences(prompt, self._short)})
        return _two_longest(found)

    def _looked_up(self, prompt: str) -> Iterator[tuple[int, str]]:
        starts = [word.start() for word in _WORDS.finditer(prompt)]
        for length, filed in self._filed.items():
            for start in starts:
                for offset, text in filed.get(prompt[start : start + length], ()):
                    if start >= offset and prompt.startswith(text, start - offset):
                        yield start - offset, text


def _occurrences(prompt: str, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
    for text in texts:
        at = prompt.find(text)
        while at != -1:
            yield at, text
            at = prompt.find(text, at + len(text))


def _two_longest(found: list[tuple[int, str]]) -> list[tuple[int, str]]:
    taken: list[tuple[int, str]] = []
    for at, text in sorted(found, key=lambda one: (-len(one[1]), one[0])):
        if all(at + len(text) <= other or other + len(longer) <= at for other, longer in taken):
            taken.append((at, text))
        if len(taken) == 2:
            break
    return sorted(taken)
