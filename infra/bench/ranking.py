"""Ranking beside its peers: CPU-time ratios, medians over shuffled rounds, one process a case.

`python infra/bench/ranking.py [--rounds N] [--quick]` prints one line a bar and ends with 1 if a floor is missed.
`bars(rounds, quick=…)` yields the same as values.
"""

import argparse
import json
import math
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import evalica
import msgspec
import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))

from pipeline.ranking.bootstrap import bootstrap
from pipeline.ranking.cells import Cells, sum_up
from pipeline.ranking.draws import permutation
from pipeline.ranking.elo import INITIAL, SCALE, K, play
from pipeline.ranking.leverage import Rows
from pipeline.ranking.newton import Fit, Model, curve, fit
from pipeline.ranking.uncertainty import sandwich

Result = dict[str, float]


def comparisons(count: int, contestants: int, seed: int = 0) -> Rows:
    """Random pairs, 2 % ties, the first place worth 0.15; comparisons of the same two are a cluster."""
    draw = np.random.default_rng(seed)
    quality = draw.standard_normal(contestants)
    first = draw.integers(0, contestants, count, dtype=np.int32)
    second = ((first + draw.integers(1, contestants, count, dtype=np.int32)) % contestants).astype(np.int32)
    chance = 1 / (1 + np.exp(-(quality[first] - quality[second] + 0.15)))
    halves = np.where(draw.random(count) < chance, 2, 0).astype(np.int8)
    halves[draw.random(count) < 0.02] = 1
    pair = np.minimum(first, second).astype(np.int64) * contestants + np.maximum(first, second)
    return Rows(first=first, second=second, halves=halves, cluster=np.unique(pair, return_inverse=True)[1])


def fitted(rows: Rows, contestants: int) -> tuple[Cells, Fit]:
    cells = sum_up(rows.first, rows.second, rows.halves, contestants=contestants)
    return cells, fit(cells, Model())


def timed(work: Callable[[], object]) -> Result:
    begin = time.process_time()
    work()
    return {"cpu": time.process_time() - begin}


def ours(count: int, contestants: int) -> Result:
    rows = comparisons(count, contestants)
    return timed(lambda: fitted(rows, contestants))


def by_evalica(rows: Rows, contestants: int, **more: float) -> Callable[[], np.ndarray]:
    winners = np.array([evalica.Winner.Y, evalica.Winner.Draw, evalica.Winner.X], dtype=object)[rows.halves].tolist()
    xs, ys, index = rows.first.tolist(), rows.second.tolist(), pd.Index(range(contestants))

    def work() -> np.ndarray:
        found = evalica.bradley_terry(xs, ys, winners, index=index, **more)
        scores = np.log(found.scores.loc[range(contestants)].to_numpy())
        return scores - scores.mean()

    return work


def evalicas(count: int, contestants: int) -> Result:
    return timed(by_evalica(comparisons(count, contestants), contestants))


def difference(count: int, contestants: int) -> Result:
    rows = comparisons(count, contestants)
    tight = by_evalica(rows, contestants, tolerance=1e-13, limit=1_000)()
    return {"cpu": float(np.abs(fitted(rows, contestants)[1].scores - tight).max())}


def clustered(count: int, contestants: int) -> Result:
    rows = comparisons(count, contestants)
    cells, found = fitted(rows, contestants)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = Model()
    made = timed(lambda: sandwich(rows, curve(cells, model, found.scores, found.effects), found, model))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**made, "rss": max(before, after) / 2**20}


def resampled(count: int, contestants: int) -> Result:
    rows = comparisons(count, contestants)
    model = Model()

    def work() -> None:
        cells, found = fitted(rows, contestants)
        sandwich(rows, curve(cells, model, found.scores, found.effects), found, model)
        bootstrap(rows, cells, found, model, rounds=1_000, seed=0)

    return timed(work)


def our_elo(count: int, orders: int) -> Result:
    rows = comparisons(count, 100)
    turns = np.stack([permutation(0, turn, count) for turn in range(orders)], axis=1)
    return timed(lambda: play(rows, turns, contestants=100))


def elo_loop(count: int, orders: int) -> Result:
    """The plain Python loop on a twentieth of the orders, scaled up."""
    rows = comparisons(count, 100)
    some = orders // 20
    lists = [rows.first.tolist(), rows.second.tolist(), (rows.halves / 2).tolist()]
    turns = [permutation(0, turn, count).tolist() for turn in range(some)]

    def work() -> None:
        first, second, points = lists
        unit = math.log(10) / SCALE
        for order in turns:
            ratings = [INITIAL] * 100
            for at in order:
                one, other = first[at], second[at]
                change = K * (points[at] - 1 / (1 + math.exp((ratings[other] - ratings[one]) * unit)))
                ratings[one] += change
                ratings[other] -= change

    return {"cpu": timed(work)["cpu"] * orders / some}


CASES: dict[str, Callable[[int, int], Result]] = {
    "ours": ours, "evalica": evalicas, "difference": difference, "clustered": clustered, "resampled": resampled,
    "elo": our_elo, "elo-loop": elo_loop,
}  # fmt: skip


def run(case: str, count: int, size: int) -> Result:
    command = [sys.executable, __file__, "--case", case, str(count), str(size)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def side_by_side(cases: list[tuple[str, int, int]], rounds: int) -> list[list[Result]]:
    """Results of every case, round by round, the cases shuffled in each round."""
    seen: list[list[Result]] = [[] for _ in cases]
    shuffled = random.Random(0)
    for _ in range(rounds):
        for at in shuffled.sample(range(len(cases)), len(cases)):
            seen[at].append(run(*cases[at]))
    return seen


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One measure over the rounds, what it must reach (`floor`) and what it should (`goal`).

    A ratio must be at least its floor; where `least` is false the measure is a price and must be at most its floor.
    """

    name: str
    values: list[float]
    floor: float
    goal: float | None = None
    unit: str = "x"
    least: bool = True

    @property
    def middle(self) -> float:
        return statistics.median(self.values)

    @property
    def met(self) -> bool:
        return self.middle >= self.floor if self.least else self.middle <= self.floor

    def __str__(self) -> str:
        sign = ">=" if self.least else "<="
        goal = "" if self.goal is None else f", goal {self.goal:g}{self.unit}"
        return (
            f"{'ok  ' if self.met else 'MISS'} {self.name}: {self.middle:.3g}{self.unit} "
            f"({min(self.values):.3g}-{max(self.values):.3g}), floor {sign} {self.floor:g}{self.unit}{goal}"
        )


def faster(
    name: str, one: tuple[str, int, int], other: tuple[str, int, int], *, floor: float, goal: float | None, rounds: int
) -> Bar:
    """How many times less CPU the one case takes than the other."""
    fast, slow = side_by_side([one, other], rounds)
    ratios = [b["cpu"] / a["cpu"] for a, b in zip(fast, slow, strict=True)]
    return Bar(name=name, values=ratios, floor=floor, goal=goal)


def bars(rounds: int, *, quick: bool = False) -> Iterator[Bar]:
    """Every measure as soon as it is made; `quick` leaves out ten million comparisons."""
    million, large = 1_000_000, 5_000
    ours_, peer = ("ours", million, large), ("evalica", million, large)
    yield faster("fit 1M x 5k, over evalica", ours_, peer, floor=5, goal=10, rounds=rounds)
    small = (("ours", million, 100), ("evalica", million, 100))
    yield faster("fit 1M x 100, over evalica", *small, floor=20, goal=45, rounds=rounds)
    gap = [run("difference", million, large)["cpu"]]
    yield Bar(name="largest difference from evalica, 1M x 5k", values=gap, floor=1e-8, unit="", least=False)
    cold, errors = side_by_side([ours_, ("clustered", million, large)], rounds)
    prices = [b["cpu"] / a["cpu"] for a, b in zip(cold, errors, strict=True)]
    yield Bar(name="clustered sandwich 5k, in cold refits", values=prices, floor=60, goal=30, unit="", least=False)
    memory = [result["rss"] for result in errors]
    yield Bar(name="its memory", values=memory, floor=1.5, unit=" GiB", least=False)
    both = [run("resampled", million, 100)["cpu"] for _ in range(rounds)]
    name = "fit, sandwich and 1,000 bootstrap rounds, 1M x 100"
    yield Bar(name=name, values=both, floor=10, unit=" s", least=False)
    loop = (("elo", 5_000, 1_000), ("elo-loop", 5_000, 1_000))
    yield faster("Elo 5k x 1,000 orders, over a Python loop", *loop, floor=8, goal=15, rounds=rounds)
    if not quick:
        ten = (("ours", 10 * million, large), ("evalica", 10 * million, large))
        yield faster("fit 10M x 5k, over evalica", *ten, floor=1, goal=1.5, rounds=min(rounds, 2))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="leave out ten million comparisons")
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        name, count, size = options.case
        print(json.dumps(CASES[name](int(count), int(size))))
        return 0
    missed = 0
    for bar in bars(options.rounds, quick=options.quick):
        print(bar, flush=True)
        missed += not bar.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
