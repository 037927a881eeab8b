"""Win rates (Borda scores): the ranking that assumes nothing, with intervals that know about clusters."""

import msgspec
import numpy as np
import numpy.typing as npt
import scipy.special

from pipeline.ranking.columns import Floats, Ints
from pipeline.ranking.leverage import Rows
from pipeline.ranking.uncertainty import Covariance


class WinRates(msgspec.Struct, frozen=True, kw_only=True):
    """For each contestant its points (ties count half), its comparisons, and the share with an interval."""

    wins: Floats
    losses: Floats
    ties: Floats
    rate: Floats
    low: Floats
    high: Floats


def win_rates(rows: Rows, *, contestants: int, confidence: float) -> WinRates:
    """Return win rates with Wilson intervals for the number of independent comparisons the clusters are worth."""
    sides = np.concatenate([rows.first, rows.second])
    halves = np.concatenate([rows.halves, 2 - rows.halves])
    wins, ties, losses = (
        np.bincount(sides[halves == points], minlength=contestants).astype(np.float64) for points in (2, 1, 0)
    )
    total = wins + ties + losses
    rate = (wins + ties / 2) / np.maximum(total, 1)
    cluster = np.concatenate([rows.cluster, rows.cluster]).astype(np.int64)
    variance = _clustered(sides, cluster, halves / 2 - rate[sides], contestants) / np.maximum(total, 1) ** 2
    worth = _effective(rate, variance, total)
    low, high = wilson(rate, worth, confidence=confidence)
    return WinRates(wins=wins, losses=losses, ties=ties, rate=rate, low=low, high=high)


def wilson(rate: Floats, count: Floats, *, confidence: float) -> tuple[Floats, Floats]:
    """Return Wilson's interval for shares out of counts that need not be whole."""
    width = -scipy.special.ndtri((1 - confidence) / 2)
    weight = width**2 / np.maximum(count, 1e-9)
    middle = (rate + weight / 2) / (1 + weight)
    reach = np.sqrt(rate * (1 - rate) * weight + weight**2 / 4) / (1 + weight)
    return np.clip(middle - reach, 0.0, 1.0), np.clip(middle + reach, 0.0, 1.0)


def as_covariance(found: WinRates, clusters: int, *, confidence: float) -> Covariance:
    """Return variances as wide as the intervals: a rate of 1 in two comparisons is not known without error."""
    errors = (found.high - found.low) / 2 / scipy.stats.norm.isf((1 - confidence) / 2)
    return Covariance(scores=errors**2, effects=np.zeros(0), full=None, clusters=clusters, exact=True)


def _clustered(sides: Ints, cluster: npt.NDArray[np.int64], rest: Floats, contestants: int) -> Floats:
    """Return for each contestant the sum over clusters of the squared sum of its deviations."""
    key = cluster * contestants + sides
    order = np.argsort(key, kind="stable")
    key = key[order]
    begins = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    sums = np.add.reduceat(rest[order], begins)
    return np.bincount(key[begins] % contestants, sums**2, contestants).astype(np.float64, copy=False)


def _effective(rate: Floats, variance: Floats, total: Floats) -> Floats:
    """Return how many independent comparisons have the same variance; never more than were made."""
    plain = rate * (1 - rate)
    known = (variance > 0) & (plain > 0)
    worth = np.divide(plain, variance, out=total.copy(), where=known)
    return np.minimum(worth, total)
