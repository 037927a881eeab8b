"""D. A million different pairs of five thousand samples, in random order."""

import itertools
import random
from pathlib import Path

from measuring import Bar, Case, Result, at_least, at_most, ratios, side_by_side, timed

from pipeline.pairing import make_pairs


def samples(size: int) -> int:
    return min(5_000, max(50, size // 20))


def ours(folder: Path, size: int) -> Result:
    return timed(
        lambda: make_pairs(samples(size), groups=None, design="random", count=size, share=None, seed=1, order="random")
    )


def itertools_sample(folder: Path, size: int) -> Result:
    """Every pair in a list, and a sample of it."""
    return timed(lambda: random.Random(1).sample(list(itertools.combinations(range(samples(size)), 2)), size))


def bars(folder: Path, sizes: dict[str, int], rounds: int) -> list[Bar]:
    size = sizes["pairs"]
    names = ("pairing_up.ours", "pairing_up.itertools_sample")
    seen = side_by_side((Case(name, folder, size) for name in names), rounds=rounds)
    over, memory = ratios(seen, names[1], names[0]), ratios(seen, names[0], names[1], of="rss")
    return [
        at_least("D pairs", f"{size:,} pairs, over itertools and sample", over, 20),
        at_most("D pairs", "memory, of itertools and sample", memory, 0.2),
    ]
