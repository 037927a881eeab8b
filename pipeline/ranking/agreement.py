"""Do the judges say the same? Raw agreement, Cohen's kappa for two, Krippendorff's alpha for all.

A judge has one verdict on a pair: the majority of its answers in either order and in every repeat, or a tie. Which of
the two samples counts as the lower one is arbitrary (ids may follow quality), so chance agreement is taken from tables
that are even over both ways of naming them.
"""

from itertools import combinations

import numpy as np
import numpy.typing as npt

from pipeline.ranking.columns import Comparisons, Floats
from pipeline.ranking.draws import Poisson
from pipeline.ranking.findings import Agreement, Alpha

_ROUNDS = 1000
_ABSENT = 9

Verdicts = npt.NDArray[np.int8]


def verdicts(data: Comparisons) -> Verdicts:
    """Return a row for each pair and a column for each judge: 1, 0, -1, or 9 where the judge did not judge the pair."""
    shape = (data.pair.count, data.judge.count)
    place = data.pair.codes.astype(np.int64) * shape[1] + data.judge.codes
    votes = np.bincount(place, data.leaning, minlength=shape[0] * shape[1])
    seen = np.bincount(place, minlength=shape[0] * shape[1]) > 0
    return np.where(seen, np.sign(votes), _ABSENT).astype(np.int8).reshape(shape)


def agreements(given: Verdicts, judges: tuple[str, ...], *, seed: int) -> tuple[Agreement, ...]:
    """Return the agreement of every two judges that share pairs."""
    found = []
    for one, other in combinations(range(len(judges)), 2):
        both = (given[:, one] != _ABSENT) & (given[:, other] != _ABSENT)
        if both.any():
            square = np.bincount((given[both, one] + 1) * 3 + given[both, other] + 1, minlength=9)
            found.append(_agreement(judges[one], judges[other], square.astype(np.float64), seed))
    return tuple(found)


def alpha(given: Verdicts, *, seed: int) -> Alpha | None:
    """Return Krippendorff's alpha with its interval; None unless two judges share a pair."""
    counts = np.stack([(given == value).sum(axis=1) for value in (-1, 0, 1)], axis=1)
    counts = counts[counts.sum(axis=1) >= 2]
    if not len(counts):
        return None
    kinds, often = np.unique(counts, axis=0, return_counts=True)
    weights = often.astype(np.float64)
    low, high = _interval(alphas(even(coincidences(kinds, _redrawn(weights, seed)))))
    found = even(coincidences(kinds, weights[None, :]))
    return Alpha(
        judges=int((given != _ABSENT).any(axis=0).sum()),
        pairs=len(counts),
        raw=float(np.trace(found[0]) / found.sum()),
        alpha=_known(alphas(found)[0]),
        low=low,
        high=high,
    )


def kappas(squares: Floats) -> Floats:
    """Return Cohen's kappa of each square table of counts; NaN where chance alone would make all agree."""
    total = np.maximum(squares.sum(axis=(1, 2)), 1)
    raw = np.trace(squares, axis1=1, axis2=2) / total
    chance = np.einsum("ra,ra->r", squares.sum(axis=1), squares.sum(axis=2)) / total**2
    rest = 1 - chance
    return np.asarray(np.divide(raw - chance, rest, out=np.full(len(squares), np.nan), where=rest > 1e-12))


def alphas(found: Floats) -> Floats:
    """Return alpha of each table of coincidences; NaN where only one verdict was ever given."""
    margin = found.sum(axis=1)
    total = margin.sum(axis=1)
    expected = total**2 - (margin**2).sum(axis=1)
    observed = total - np.trace(found, axis1=1, axis2=2)
    share = np.divide((total - 1) * observed, expected, out=np.full(len(found), np.nan), where=expected > 1e-9)
    return np.asarray(1 - share)


def _agreement(one: str, other: str, square: Floats, seed: int) -> Agreement:
    table = even(square.reshape(1, 3, 3))
    low, high = _interval(kappas(even(_redrawn(square, seed).reshape(-1, 3, 3))))
    return Agreement(
        one=one,
        other=other,
        pairs=int(square.sum()),
        raw=float(np.trace(table[0]) / square.sum()),
        kappa=_known(kappas(table)[0]),
        low=low,
        high=high,
    )


def _redrawn(weights: Floats, seed: int) -> Floats:
    """Return resampled counts, a row for each round."""
    return Poisson(np.tile(weights, _ROUNDS)).draw(seed, 0).reshape(_ROUNDS, -1)


def even(squares: Floats) -> Floats:
    """Return the tables averaged with what they would be if every pair's two samples had changed names."""
    return np.asarray((squares + squares[:, ::-1, ::-1]) / 2)


def coincidences(kinds: npt.NDArray[np.int64], weights: Floats) -> Floats:
    """Return a table for each row of weights: how often two judges of a pair gave two values, all weighing alike.

    A kind is a pair with so many of each verdict; its weight tells how often it occurs.
    """
    share = weights / (kinds.sum(axis=1) - 1)
    both = np.einsum("ua,ub,ru->rab", kinds, kinds, share, optimize=True)
    places = np.arange(kinds.shape[1])
    both[:, places, places] -= share @ kinds
    return np.asarray(both)


def _interval(drawn: Floats) -> tuple[float | None, float | None]:
    known = drawn[np.isfinite(drawn)]
    if len(known) < len(drawn) / 2:
        return None, None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
