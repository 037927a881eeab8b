"""From scores with errors to places: which places the data leave open, and who cannot be told apart."""

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.ranking.columns import Floats
from pipeline.ranking.uncertainty import Covariance, critical

_SAME = 1e-9


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """For each contestant its place, the first and last place the data leave open, and its tier.

    `rivals` are those who are not first and not proven weaker than the first either.
    """

    rank: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    tier: npt.NDArray[np.int64]
    rivals: npt.NDArray[np.bool_]


def places(scores: Floats, covariance: Covariance, *, confidence: float) -> Places:
    """Return the places by tests of all differences from a contestant at once.

    A contestant's open places leave out only those proven better or worse, with Bonferroni's correction for the
    number of others: the interval holds the true place with at least the given confidence (Mogstad and others, 2024).
    A tier ends where everyone further down is proven worse than the tier's best; of several who share its best score,
    the surest. Equal scores are never parted.
    """
    size = len(scores)
    width = critical(confidence, covariance.clusters, tests=max(size - 1, 1))
    rank = 1 + np.searchsorted(np.sort(-scores), -scores - _SAME)
    order = np.lexsort((covariance.scores, rank))
    low, high = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    tier, rivals = np.empty(size, dtype=np.int64), rank > 1
    number = end = 0
    for at, place in enumerate(order):
        proof = width * np.sqrt(covariance.between(int(place))) + _SAME
        low[place] = 1 + np.count_nonzero(scores - scores[place] > proof)
        worse = scores[place] - scores > proof
        high[place] = size - np.count_nonzero(worse)
        if at == 0:
            rivals &= ~worse
        if at == end:  # it is the best of a new tier, which ends behind the last that is not proven worse
            last = rank[order[np.flatnonzero(~worse[order])[-1]]]
            number, end = number + 1, int(np.count_nonzero(rank <= last))
        tier[place] = number
    return Places(rank=rank, low=np.minimum(low, rank), high=np.maximum(high, rank), tier=tier, rivals=rivals)


class Reliability(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the spread of the scores is real."""

    reliability: float
    separation: float


def reliability(scores: Floats, variances: Floats) -> Reliability | None:
    """Return the share of the scores' variance that is not error, and true spread over error; None for two or fewer."""
    error = float(np.mean(variances))
    if len(scores) < 3 or error <= 0:
        return None
    spread = float(np.var(scores, ddof=1))
    true = max(spread - error, 0.0)
    return Reliability(reliability=true / spread if spread > 0 else 0.0, separation=float(np.sqrt(true / error)))
