"""E and F. The rankings beside their peers: Bradley–Terry, its standard errors, and Elo."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from measuring import Bar, Case, Result, at_least, at_most, ratios, run, side_by_side, timed, values

from pipeline.ranking.bootstrap import bootstrap
from pipeline.ranking.cells import Cells, sum_up
from pipeline.ranking.draws import permutation
from pipeline.ranking.elo import INITIAL, SCALE, K, play
from pipeline.ranking.leverage import Rows
from pipeline.ranking.newton import Fit, Model, curve, fit
from pipeline.ranking.uncertainty import sandwich

STAGE = "E, F rank"
MANY, FEW = 5_000, 100
ORDERS = 1_000  # of the same comparisons, for Elo
TRIED = ORDERS // 20  # orders that the plain loop goes through; its time is scaled up


def comparisons(count: int, contestants: int) -> Rows:
    """Random pairs, 2 % ties, the first place worth 0.15; comparisons of the same two are a cluster."""
    draw = np.random.default_rng(0)
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


def ours(folder: Path, size: int, contestants: int = MANY) -> Result:
    rows = comparisons(size, contestants)
    return timed(lambda: fitted(rows, contestants))


def _by_evalica(rows: Rows, contestants: int, tolerance: float = 1e-6, limit: int = 100) -> Callable[[], np.ndarray]:
    import evalica
    import pandas as pd

    winners = np.array([evalica.Winner.Y, evalica.Winner.Draw, evalica.Winner.X], dtype=object)[rows.halves].tolist()
    xs, ys, index = rows.first.tolist(), rows.second.tolist(), pd.Index(range(contestants))

    def work() -> np.ndarray:
        found = evalica.bradley_terry(xs, ys, winners, index=index, tolerance=tolerance, limit=limit)
        scores = np.log(found.scores.loc[range(contestants)].to_numpy())
        return np.asarray(scores - scores.mean())

    return work


def evalica(folder: Path, size: int, contestants: int = MANY) -> Result:
    return timed(_by_evalica(comparisons(size, contestants), contestants))


def logistic(folder: Path, size: int) -> Result:
    """scikit-learn's logistic regression on a sparse matrix, a tie as one row for each side.

    With this tolerance it ends within 1e-4 of the exact scores; with its own it is off by 1.8.
    """
    from scipy.sparse import csr_array
    from sklearn.linear_model import LogisticRegression

    rows = comparisons(size, MANY)

    def work() -> np.ndarray:
        weights = np.concatenate([rows.halves, 2 - rows.halves]) / 2
        used = np.flatnonzero(weights)
        asked = np.concatenate([np.arange(size), np.arange(size)])[used]
        columns = np.stack([rows.first[asked], rows.second[asked]], axis=1).ravel()
        signs = np.tile([1.0, -1.0], len(used))
        matrix = csr_array((signs, columns, np.arange(0, 2 * len(used) + 1, 2)), shape=(len(used), MANY))
        model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-9, max_iter=1_000)
        return np.asarray(model.fit(matrix, used < size, sample_weight=weights[used]).coef_[0])

    return timed(work)


def difference(folder: Path, size: int) -> Result:
    """The largest distance of a score from evalica's, when that is told to be exact."""
    rows = comparisons(size, MANY)
    exact = _by_evalica(rows, MANY, tolerance=1e-13, limit=1_000)()
    return {"apart": float(np.abs(fitted(rows, MANY)[1].scores - exact).max())}


def clustered(folder: Path, size: int) -> Result:
    rows, model = comparisons(size, MANY), Model()
    cells, found = fitted(rows, MANY)
    return timed(lambda: sandwich(rows, curve(cells, model, found.scores, found.effects), found, model))


def resampled(folder: Path, size: int) -> Result:
    """Fit, clustered sandwich and a thousand bootstrap rounds."""
    rows, model = comparisons(size, FEW), Model()

    def work() -> None:
        cells, found = fitted(rows, FEW)
        sandwich(rows, curve(cells, model, found.scores, found.effects), found, model)
        bootstrap(rows, cells, found, model, rounds=1_000, seed=0)

    return timed(work)


def elo(folder: Path, size: int) -> Result:
    rows = comparisons(size, FEW)
    turns = np.stack([permutation(0, turn, size) for turn in range(ORDERS)], axis=1)
    return timed(lambda: play(rows, turns, contestants=FEW))


def elo_loop(folder: Path, size: int) -> Result:
    """The plain Python loop over some of the orders."""
    rows = comparisons(size, FEW)
    first, second, points = rows.first.tolist(), rows.second.tolist(), (rows.halves / 2).tolist()
    turns = [permutation(0, turn, size).tolist() for turn in range(TRIED)]

    def work() -> None:
        unit = math.log(10) / SCALE
        for order in turns:
            ratings = [INITIAL] * FEW
            for at in order:
                one, other = first[at], second[at]
                change = K * (points[at] - 1 / (1 + math.exp((ratings[other] - ratings[one]) * unit)))
                ratings[one] += change
                ratings[other] -= change

    return {"cpu": timed(work)["cpu"] * ORDERS / TRIED}


ours_of_few, evalica_of_few = partial(ours, contestants=FEW), partial(evalica, contestants=FEW)


def bars(folder: Path, sizes: dict[str, int], rounds: int) -> list[Bar]:
    size = sizes["rank"]
    names = ("ours", "evalica", "logistic", "clustered", "ours_of_few", "evalica_of_few", "resampled")
    seen = side_by_side((Case(f"ranked.{name}", folder, size) for name in names), rounds=rounds)
    elos = side_by_side((Case(f"ranked.{name}", folder, 5_000) for name in ("elo", "elo_loop")), rounds=rounds)
    tenfold = side_by_side((Case(f"ranked.{name}", folder, 10 * size) for name in names[:2]), rounds=min(rounds, 2))
    price = ratios(seen, "ranked.clustered", "ranked.ours")
    memory = [each / 2**10 for each in values(seen, "ranked.clustered", "rss")]
    few = ratios(seen, "ranked.evalica_of_few", "ranked.ours_of_few")
    apart = [run(Case("ranked.difference", folder, size))["apart"]]
    rank_all = values(seen, "ranked.resampled", "cpu")
    return [
        at_least(STAGE, f"fit {size:,} × 5,000, over evalica", ratios(seen, "ranked.evalica", "ranked.ours"), 5),
        at_least(STAGE, "the same, over scikit-learn, sparse", ratios(seen, "ranked.logistic", "ranked.ours"), 2),
        at_least(STAGE, "ten times as many, over evalica", ratios(tenfold, "ranked.evalica", "ranked.ours"), 1),
        at_least(STAGE, f"fit {size:,} × 100, over evalica", few, 20),
        at_most(STAGE, "largest difference from evalica", apart, 1e-8, ""),
        at_most(STAGE, "clustered sandwich × 5,000, in cold refits", price, 60, ""),
        at_most(STAGE, "its memory", memory, 1.5, " GiB"),
        at_most(STAGE, "fit, sandwich, 1,000 bootstrap rounds × 100", rank_all, 10, " s"),
        at_least(STAGE, "Elo in 1,000 orders, over a loop", ratios(elos, "ranked.elo_loop", "ranked.elo"), 8),
    ]
