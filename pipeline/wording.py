"""Numbers and names in the sentences people read."""

from collections.abc import Iterable
from difflib import SequenceMatcher

_LIKE = 0.5


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return the number before its noun: "1 batch", "2,000 batches"; `many` where the plural is not built plainly."""
    plural = many or (f"{one}es" if one.endswith(("s", "x", "ch", "sh")) else f"{one}s")
    return f"{number:,} {one if number == 1 else plural}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was most probably meant, or None; letters in the wrong order are a small mistake."""
    likeness = {each: _likeness(name, each) for each in known}
    best = max(likeness, key=lambda each: likeness[each], default=None)
    return best if best is not None and likeness[best] >= _LIKE else None


def _likeness(one: str, other: str) -> float:
    """Return how alike two names are: by their letters in order, and somewhat by the letters alone."""
    in_order = SequenceMatcher(None, other, one).ratio()
    alone = SequenceMatcher(None, "".join(sorted(other)), "".join(sorted(one))).ratio()
    return in_order if in_order < _LIKE else (in_order + alone) / 2
