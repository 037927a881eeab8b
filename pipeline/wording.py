"""Numbers in the sentences people read."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return the number before its noun: "1 batch", "2,000 batches"; `many` where the plural is not built plainly."""
    plural = many or (f"{one}es" if one.endswith(("s", "x", "ch", "sh")) else f"{one}s")
    return f"{number:,} {one if number == 1 else plural}"
