"""E and F. The rankings: `ranking.py` measures them beside their peers; here its bars join the others."""

from pathlib import Path
from typing import Any

from measuring import Bar


def bars(folder: Path, sizes: dict[str, int], rounds: int) -> list[Bar]:
    import ranking  # only now: it brings the peers' libraries with it

    return [joined(each) for each in ranking.bars(rounds, quick=bool(sizes["quick"]))]


def joined(found: Any) -> Bar:
    """Return one of `ranking`'s bars as one of ours."""
    return Bar(
        stage="E, F rank",
        name=found.name,
        values=list(found.values),
        limit=found.floor,
        least=found.least,
        unit=found.unit,
    )
