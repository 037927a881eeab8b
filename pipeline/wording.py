"""Numbers and names in the sentences people read."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

_LONGEST = 100  # nobody's name; comparing takes the square of it
_LIKE = 0.6
_BEGINNING = 3


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return the number before its noun: "1 batch", "2,000 batches"; `many` where the plural is not built plainly."""
    plural = many or (f"{one}es" if one.endswith(("s", "x", "ch", "sh")) else f"{one}s")
    return f"{number:,} {one if number == 1 else plural}"


def and_more(names: Sequence[str], *, most: int = 1) -> str:
    """Return the names as one reads them aloud, of many only the first: "a", "a and b", "a, b and 2 more"."""
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def nearest(name: str, known: Iterable[str], *, like: float = _LIKE) -> str | None:
    """Return the known name that was most probably meant, whatever its case; None if `name` is `like` none.

    Letters in the wrong order are a small mistake.
    """
    wanted = name.strip().casefold()[:_LONGEST]
    likeness = {one: _likeness(wanted, one.strip().casefold()) for one in known}
    best = max(likeness, key=lambda one: likeness[one], default=None)
    return best if best is not None and likeness[best] >= like else None


def remedy(name: str, known: Iterable[str]) -> str:
    """Return the end of a refusal: the known name that `name` resembles, or all of them."""
    names = list(known)
    near = nearest(name, names)
    return f"did you mean {near}?" if near else f"choose one of {', '.join(names)}"


def _likeness(one: str, other: str) -> float:
    """Return how alike two names are: by their letters in order, and somewhat by the letters alone.

    Where one begins with the other, it may be an abbreviation.
    """
    in_order = SequenceMatcher(None, other, one).ratio()
    alone = SequenceMatcher(None, "".join(sorted(other)), "".join(sorted(one))).ratio()
    likeness = in_order if in_order < _LIKE else (in_order + alone) / 2
    is_beginning = min(len(one), len(other)) >= _BEGINNING and (one.startswith(other) or other.startswith(one))
    return max(likeness, _LIKE) if is_beginning else likeness
