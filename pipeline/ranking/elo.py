"""Elo ratings, averaged over random orders of the comparisons.

Two things move a rating: the order, which means nothing, and chance. The mean over orders takes out the first and its
spread shows it; orders of resampled clusters show both, and give the intervals.
"""

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.ranking.columns import Floats, Halves
from pipeline.ranking.draws import Poisson, permutation
from pipeline.ranking.leverage import Rows

INITIAL, SCALE, K = 1000.0, 400.0, 4.0
MOST_UPDATES = 20_000_000
_LEAST_ORDERS = 10
_BLOCK = 1 << 15  # comparisons prepared at once: their arrays stay in the cache
_RESAMPLED = 1 << 32  # streams from here on draw clusters

Turns = npt.NDArray[np.intp]


class Elo(msgspec.Struct, frozen=True, kw_only=True):
    """Mean rating, standard deviation over orders alone, and the ratings of resampled studies (a row each)."""

    mean: Floats
    spread: Floats
    resampled: Floats


def elo(rows: Rows, *, contestants: int, orders: int, seed: int) -> Elo:
    """Return the ratings over random orders, fewer of them where the comparisons are many."""
    count = len(rows.halves)
    orders = orders_of(count, orders)
    turns = np.stack([permutation(seed, turn, count) for turn in range(orders)], axis=1)
    ratings = play(rows, turns, contestants=contestants)
    again = play(*_resampled(rows, orders=orders, seed=seed, contestants=contestants), contestants=contestants + 2)
    return Elo(mean=ratings.mean(axis=0), spread=ratings.std(axis=0, ddof=1), resampled=again[:, :contestants])


def orders_of(comparisons: int, asked: int) -> int:
    """Return over how many orders ratings are averaged: as many as asked for, unless that takes too long."""
    return min(asked, max(_LEAST_ORDERS, MOST_UPDATES // max(comparisons, 1)))


def play(rows: Rows, turns: Turns, *, contestants: int) -> Floats:
    """Return the final ratings, a row for each column of `turns` (an order of the comparisons).

    All orders advance together, one comparison each; ratings are kept in units in which odds are a power of e.
    """
    unit = np.log(10.0) / SCALE
    orders = turns.shape[1]
    ratings = np.full(orders * contestants, INITIAL * unit)
    offsets = np.arange(orders, dtype=np.intp) * contestants
    step = max(1, _BLOCK // orders)
    for begin in range(0, len(turns), step):
        block = turns[begin : begin + step]
        points = rows.halves[block] * (K * unit / 2)
        sides = np.hstack([rows.first[block] + offsets, rows.second[block] + offsets])
        _play_block(ratings, sides, points, gain=K * unit)
    return np.asarray(ratings.reshape(orders, contestants) / unit)


def _play_block(ratings: Floats, sides: Turns, points: Floats, *, gain: float) -> None:
    """Update the ratings in place, one comparison of every order at a time."""
    both, change = np.empty(sides.shape[1]), np.empty(points.shape[1])
    first, second = both[: len(change)], both[len(change) :]
    for two, point in zip(sides, points, strict=True):
        ratings.take(two, out=both, mode="clip")
        np.subtract(second, first, out=change)
        np.exp(change, out=change)
        change += 1.0
        np.divide(-gain, change, out=change)
        change += point
        first += change
        second -= change
        ratings[two] = both


def _resampled(rows: Rows, *, orders: int, seed: int, contestants: int) -> tuple[Rows, Turns]:
    """Return the rows with one more, and orders of resampled clusters filled up with that one.

    The filler is a tie between two strangers of the same rating: it changes nothing.
    """
    filler = len(rows.halves)
    chances = Poisson(np.ones(int(rows.cluster.max()) + 1))
    drawn = []
    for turn in range(orders):
        often = chances.draw(seed, _RESAMPLED + 2 * turn).astype(np.intp)
        chosen = np.repeat(np.arange(filler), often[rows.cluster])
        drawn.append(chosen[permutation(seed, _RESAMPLED + 2 * turn + 1, len(chosen))])
    turns = np.full((max(len(chosen) for chosen in drawn), orders), filler, dtype=np.intp)
    for turn, chosen in enumerate(drawn):
        turns[: len(chosen), turn] = chosen
    tie = np.ones(1, dtype=rows.halves.dtype)
    halves: Halves = np.append(rows.halves, tie)
    first, second = (
        np.append(side, np.array([stranger], dtype=np.int32))
        for side, stranger in ((rows.first, contestants), (rows.second, contestants + 1))
    )
    return Rows(first=first, second=second, halves=halves, cluster=rows.cluster), turns
