"""Ranking beside its peers: CPU-time ratios, medians over shuffled rounds, one process a case.

`python infra/bench/ranking.py [--rounds N] [--quick]` prints one line a bar and ends with 1 if a bar is missed.
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
from collections.abc import Callable
from pathlib import Path

import evalica
import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))

from pipeline.ranking.bootstrap import bootstrap
from pipeline.ranking.cells import Cells, sum_up
from pipeline.ranking.draws import permutation
from pipeline.ranking.elo import INITIAL, SCALE, K, play
from pipeline.ranking.newton import Fit, Model, curve, fit
from pipeline.ranking.uncertainty import Rows, sandwich

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


def bar(name: str, values: list[float], limit: float, *, least: bool, unit: str = "x") -> bool:
    middle = statistics.median(values)
    good = middle >= limit if least else middle <= limit
    sign = ">=" if least else "<="
    spread = f"({min(values):.3g}-{max(values):.3g})"
    print(f"{'ok  ' if good else 'MISS'} {name}: {middle:.3g}{unit} {spread}, bar {sign} {limit:g}{unit}", flush=True)
    return good


def compare(name: str, one: tuple[str, int, int], other: tuple[str, int, int], limit: float, rounds: int) -> bool:
    fast, slow = side_by_side([one, other], rounds)
    return bar(name, [b["cpu"] / a["cpu"] for a, b in zip(fast, slow, strict=True)], limit, least=True)


def every_bar(rounds: int, *, quick: bool) -> list[bool]:
    million = 1_000_000
    gap = [run("difference", million, 5_000)["cpu"]]
    met = [
        compare("fit 1M x 5k, over evalica", ("ours", million, 5_000), ("evalica", million, 5_000), 5, rounds),
        compare("fit 1M x 100, over evalica", ("ours", million, 100), ("evalica", million, 100), 20, rounds),
        bar("largest difference from evalica, 1M x 5k", gap, 1e-8, least=False, unit=""),
    ]
    cold, errors = side_by_side([("ours", million, 5_000), ("clustered", million, 5_000)], rounds)
    prices = [b["cpu"] / a["cpu"] for a, b in zip(cold, errors, strict=True)]
    met.append(bar("clustered sandwich 5k, in cold refits", prices, 60, least=False, unit=""))
    met.append(bar("its memory", [result["rss"] for result in errors], 1.5, least=False, unit=" GiB"))
    both = [run("resampled", million, 100)["cpu"] for _ in range(rounds)]
    met.append(bar("fit, sandwich and 1,000 bootstrap rounds, 1M x 100", both, 10, least=False, unit=" s"))
    met.append(
        compare(
            "Elo 5k x 1,000 orders, over a Python loop", ("elo", 5_000, 1_000), ("elo-loop", 5_000, 1_000), 8, rounds
        )
    )
    if not quick:
        ten = 10 * million
        met.append(
            compare("fit 10M x 5k, over evalica", ("ours", ten, 5_000), ("evalica", ten, 5_000), 1, min(rounds, 2))
        )
    return met


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
    return 0 if all(every_bar(options.rounds, quick=options.quick)) else 1


if __name__ == "__main__":
    sys.exit(main())
