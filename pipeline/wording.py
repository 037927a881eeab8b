"""Numbers and names in the sentences people read."""

import difflib
from collections.abc import Iterable

_LONGEST = 100  # nobody's name; comparing takes the square of it


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return the number before its noun: "1 batch", "2,000 batches"; `many` where the plural is not built plainly."""
    plural = many or (f"{one}es" if one.endswith(("s", "x", "ch", "sh")) else f"{one}s")
    return f"{number:,} {one if number == 1 else plural}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` resembles, whatever their case; None if it resembles none."""
    spelled = {one.strip().casefold(): one for one in known}
    near = difflib.get_close_matches(name.strip().casefold()[:_LONGEST], spelled, n=1, cutoff=0.5)
    return spelled[near[0]] if near else None


def remedy(name: str, known: Iterable[str]) -> str:
    """Return the end of a refusal: the known name that `name` resembles, or all of them."""
    names = list(known)
    near = nearest(name, names)
    return f"did you mean {near}?" if near else f"known are {', '.join(names)}"
