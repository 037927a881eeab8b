"""What to say about a name that nobody knows."""

import difflib
from collections.abc import Iterable


def remedy(name: str, known: Iterable[str]) -> str:
    """Return the end of a refusal: the known name that `name` resembles, or all of them."""
    spelled = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold()[:100], spelled, n=1, cutoff=0.5)
    return f"did you mean {spelled[near[0]]}?" if near else f"known are {', '.join(spelled.values())}"
