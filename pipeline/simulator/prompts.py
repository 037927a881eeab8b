"""Finds the two texts a question is about, and how the answer is to be spelled.

Everything here reads the prompt as a person would; nothing is known about how it was built.
"""

import functools
import re
from collections.abc import Iterator

import msgspec

from pipeline.simulator.known import KnownTexts

_RUN = {number: re.compile(rf"(\S*)SAMPLE_{number}(\S*)") for number in (1, 2)}
_TIE = re.compile(r"(?<![A-Za-z])TIE(?![A-Za-z])")
_FORM = re.compile(r"^<([A-Z_]+)>(.*)</\1>$", re.MULTILINE)
_OPEN, _CLOSE = "<SAMPLE>\n", "\n</SAMPLE>"
_OPEN_1, _CLOSE_1 = "<SAMPLE_1>\n", "\n</SAMPLE_1>"
_OPEN_2, _CLOSE_2 = "<SAMPLE_2>\n", "\n</SAMPLE_2>"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The two texts of a pairwise prompt and everything that stands around them."""

    first: str
    second: str
    around: str


class Spelling(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer is written, and whether a tie, or that the question does not apply, may be answered."""

    prefix: str
    suffix: str
    ties: bool
    abstains: bool = False


def read_question(prompt: str, known: KnownTexts) -> Question | None:
    """Return the pairwise question of the prompt, or None if it asks something else."""
    return _fenced(prompt, known) or _unfenced(prompt, known)


def _fenced(prompt: str, known: KnownTexts) -> Question | None:
    """Return what stands between the fences.

    A sample may itself contain fences: of all ways to read the prompt the one with two known texts counts, else the one
    in which the first text is longest.
    """
    start = prompt.find(_OPEN_1)
    end = prompt.rfind(_CLOSE_2)
    if start == -1 or end == -1:
        return None
    readings = _readings(prompt, start + len(_OPEN_1), end)
    longest = next(readings, None)
    if longest is None or not known or _both_known(longest, known):
        return longest
    return next((reading for reading in readings if _both_known(reading, known)), longest)


def _readings(prompt: str, begin: int, end: int) -> Iterator[Question]:
    head, tail = prompt[: begin - len(_OPEN_1)], prompt[end + len(_CLOSE_2) :]
    close = prompt.rfind(_CLOSE_1, begin, end)
    while close != -1:
        opened = prompt.find(_OPEN_2, close + len(_CLOSE_1))
        if opened != -1 and opened + len(_OPEN_2) <= end:
            between = prompt[close + len(_CLOSE_1) : opened]
            second = prompt[opened + len(_OPEN_2) : end]
            yield Question(first=prompt[begin:close], second=second, around=f"{head}\n{between}\n{tail}")
        close = prompt.rfind(_CLOSE_1, begin, close + len(_CLOSE_1) - 1)


def _both_known(question: Question, known: KnownTexts) -> bool:
    return question.first in known and question.second in known


def _unfenced(prompt: str, known: KnownTexts) -> Question | None:
    found = known.find(prompt) if known else []
    if len(found) < 2:
        return None
    (start, first), (later, second) = found
    around = (prompt[:start], prompt[start + len(first) : later], prompt[later + len(second) :])
    return Question(first=first, second=second, around="\n".join(around))


@functools.lru_cache(maxsize=512)
def read_spelling(around: str) -> Spelling:
    """Return how the prompt wants its answer: what stands around both SAMPLE_1 and SAMPLE_2, fences apart."""
    best = ("<BETTER_SAMPLE>", "</BETTER_SAMPLE>")
    most = 0
    for one in _RUN[1].findall(around):
        for two in _RUN[2].findall(around):
            prefix, suffix = _common_end(one[0], two[0]), _common_start(one[1], two[1])
            score = len(prefix) + len(suffix) + (1000 if prefix and suffix else 0)
            if score > most and not (prefix.endswith(("<", "</")) and suffix.startswith(">")):
                best, most = (prefix, suffix), score
    return Spelling(prefix=best[0], suffix=best[1], ties=_TIE.search(around) is not None, abstains="N/A" in around)


class Rated(msgspec.Struct, frozen=True, kw_only=True):
    """The one text that a prompt asks about, and everything that stands around it."""

    text: str
    around: str


def read_rated(prompt: str) -> Rated | None:
    """Return the text between the fences for one sample, or None if the prompt has none."""
    start, end = prompt.find(_OPEN), prompt.rfind(_CLOSE)
    if start == -1 or end < start + len(_OPEN):
        return None
    around = f"{prompt[:start]}\n{prompt[end + len(_CLOSE) :]}"
    return Rated(text=prompt[start + len(_OPEN) : end], around=around)


@functools.lru_cache(maxsize=512)
def read_form(around: str) -> tuple[tuple[str, str], ...]:
    """Return the lines to be filled in between tags: each tag, and what the prompt says belongs there."""
    return tuple(_FORM.findall(around))


def _common_start(one: str, two: str) -> str:
    length = 0
    while length < min(len(one), len(two)) and one[length] == two[length]:
        length += 1
    return one[:length]


def _common_end(one: str, two: str) -> str:
    return _common_start(one[::-1], two[::-1])[::-1]
