"""What to say about a name that nobody knows."""

from collections.abc import Iterable

from pipeline.wording import closest


def remedy(name: str, known: Iterable[str]) -> str:
    """Return the end of a refusal: the known name that `name` resembles, or all of them."""
    spelled = {one.casefold(): one for one in known}
    near = closest(name.casefold()[:100], spelled)
    return f"did you mean {spelled[near]}?" if near else f"known are {', '.join(spelled.values())}"
