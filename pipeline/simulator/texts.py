"""Texts that the simulated models write: prose whose last sentence hides how good it is, and forms filled in.

The quality travels in the words themselves, so that a judge finds it in another experiment, process or year.
"""

import re
from collections.abc import Iterable

from pipeline.simulator.structured import certainty, step_of

_WORDS = ("harbour", "lantern", "meadow", "orchard", "pebble", "quarry", "ribbon", "thicket")
_LETTERS = 4
_STEPS = 1 << 3 * _LETTERS  # three bits a word
_WORST, _BEST = -8.0, 8.0
_HIDDEN = re.compile(r"Four words close it: (\w+), (\w+), (\w+), (\w+)\.")
_BOUNDS = re.compile(r"whole number from (-?\d+)\b.*? to (-?\d+)\b")
_CHOICES = re.compile(r"one of (.+), word for word")


def prose(draw: int) -> str:
    """Return a sentence of eight words."""
    words = " ".join(_WORDS[(draw >> (3 * at)) % len(_WORDS)] for at in range(8))
    return f"{words.capitalize()}."


def written(text: str, quality: float) -> str:
    """Return the text with its quality hidden in it."""
    step = round((min(max(quality, _WORST), _BEST) - _WORST) / (_BEST - _WORST) * (_STEPS - 1))
    words = (_WORDS[step >> 3 * place & 7] for place in range(_LETTERS))
    return f"{text} Four words close it: {', '.join(words)}."


def hidden_quality(text: str) -> float | None:
    """Return the quality that is hidden in a text, the mean where it holds several; None if it holds none."""
    known = [words for words in _HIDDEN.findall(text) if set(words) <= set(_WORDS)]
    if not known:
        return None
    steps = sum(_WORDS.index(word) << 3 * place for words in known for place, word in enumerate(words))
    return _WORST + steps / len(known) / (_STEPS - 1) * (_BEST - _WORST)


def filled_in(form: Iterable[tuple[str, str]], impression: float, said: str) -> str:
    """Return the form's lines, each with what an impression from 0 to 1 makes of it."""
    return "\n".join(f"<{tag}>{_entry(what, impression, said)}</{tag}>" for tag, what in form) or said


def _entry(what: str, impression: float, said: str) -> str:
    if bounds := _BOUNDS.search(what):
        return str(step_of(range(int(bounds[1]), int(bounds[2]) + 1), impression))
    if choices := _CHOICES.search(what):
        return str(step_of(choices[1].split(", "), impression))
    if "number from 0" in what:
        return str(certainty(impression))
    return ("YES" if impression >= 0.5 else "NO") if "YES or NO" in what else said
