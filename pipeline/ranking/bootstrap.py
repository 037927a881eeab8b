"""Scores fitted again and again to clusters drawn anew: intervals that trust no formula.

Clusters that say the same (same cells, same counts) are one kind, and a round draws how often each kind occurs: the
work grows with the kinds, not with the comparisons. Counts are drawn as independent Poisson numbers, which is
resampling with replacement up to the total.
"""

import msgspec
import numpy as np
import numpy.typing as npt
import scipy.special
from scipy import sparse

from pipeline.ranking.cells import Cells
from pipeline.ranking.columns import Floats
from pipeline.ranking.draws import Poisson
from pipeline.ranking.leverage import Rows
from pipeline.ranking.newton import Fit, Model, fit

_LEAST_RIDGE = 1e-2  # a drawn study may let someone only win


class Kinds(msgspec.Struct, frozen=True, kw_only=True):
    """Distinct clusters: `counts` of each, and what one of each adds to the cells' scores, ties and totals."""

    counts: Floats
    score: sparse.csr_array
    ties: sparse.csr_array
    total: sparse.csr_array


def bootstrap(rows: Rows, cells: Cells, found: Fit, model: Model, *, rounds: int, seed: int) -> Floats:
    """Return the scores and effects of each round, a row each, starting every fit from the one found."""
    kinds = _kinds(rows, cells)
    poisson = Poisson(kinds.counts)
    gentle = Model(ties=model.ties, ridge=max(model.ridge, _LEAST_RIDGE))
    drawn = np.empty((rounds, len(found.scores) + len(found.effects)))
    for turn in range(rounds):
        often = poisson.draw(seed, turn)
        again = cells.reweighted(score=kinds.score @ often, ties=kinds.ties @ often, total=kinds.total @ often)
        refit = fit(again, gentle, start=found)
        drawn[turn] = np.concatenate([refit.scores, refit.effects])
    return drawn


def bias_corrected(drawn: Floats, values: Floats, *, confidence: float) -> tuple[Floats, Floats]:
    """Return the ends of Efron's bias-corrected percentile intervals, one for each column.

    Best fits lie a little too far from zero, and those of resampled studies once more: plain percentiles would count
    that twice.
    """
    below = np.clip((drawn < values).mean(axis=0), 0.5 / len(drawn), 1 - 0.5 / len(drawn))
    shift = 2 * scipy.special.ndtri(below)
    reach = scipy.special.ndtri((1 + confidence) / 2)
    ordered = np.sort(drawn, axis=0)
    ends = []
    for side in (-reach, reach):
        place = scipy.special.ndtr(shift + side) * (len(drawn) - 1)
        ends.append(np.take_along_axis(ordered, np.rint(place).astype(np.intp)[None, :], axis=0)[0])
    return ends[0], ends[1]


def _kinds(rows: Rows, cells: Cells) -> Kinds:
    """Return the distinct clusters of the rows."""
    where = _cell_of(rows, cells)
    turned = rows.first > rows.second
    points = np.where(turned, 2 - rows.halves, rows.halves)
    parts, sizes = np.unique(
        rows.cluster.astype(np.int64) * (3 * len(cells.low)) + where * 3 + points, return_counts=True
    )
    cluster, part = np.divmod(parts, 3 * len(cells.low))
    names = _fingerprints(cluster, part, sizes)
    _, chosen, counts = np.unique(names, return_index=True, return_counts=True)
    kind_of = np.full(len(names), -1)
    kind_of[chosen] = np.arange(len(chosen))
    kept = kind_of[cluster] >= 0
    cell, half = np.divmod(part[kept], 3)
    times, place = sizes[kept], (cell, kind_of[cluster[kept]])
    shape = (len(cells.low), len(chosen))
    return Kinds(
        counts=counts.astype(np.float64),
        score=sparse.csr_array((times * half / 2, place), shape=shape),
        ties=sparse.csr_array((times * (half == 1.0), place), shape=shape, dtype=np.float64),
        total=sparse.csr_array((times.astype(np.float64), place), shape=shape),
    )


def _fingerprints(
    cluster: npt.NDArray[np.int64], part: npt.NDArray[np.int64], sizes: npt.NDArray[np.intp]
) -> npt.NDArray[np.uint64]:
    """Return a number for each cluster that equal clusters share: the sum of its parts' scrambled numbers."""
    value = part.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + sizes.astype(np.uint64)
    value = (value ^ (value >> np.uint64(31))) * np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(32)
    begins = np.flatnonzero(np.append(True, cluster[1:] != cluster[:-1]))
    return np.add.reduceat(value, begins)


def _cell_of(rows: Rows, cells: Cells) -> npt.NDArray[np.int64]:
    """Return the number of each row's cell."""
    turned = rows.first > rows.second
    low, high = np.minimum(rows.first, rows.second), np.maximum(rows.first, rows.second)
    pair = low.astype(np.int64) * cells.contestants + high
    pairs = cells.low.astype(np.int64) * cells.contestants + cells.high
    if rows.strata is None:
        return np.searchsorted(pairs, pair)
    kinds = 2 * len(rows.strata.values)
    return np.searchsorted(pairs * kinds + cells.stratum, pair * kinds + rows.strata.codes * 2 + turned)
