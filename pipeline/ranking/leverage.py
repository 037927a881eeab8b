"""What each cluster of comparisons would pull if the scores had been fitted without it.

Fitted scores lean toward every cluster they were fitted to, so its residuals are too small, most where few other
clusters name the same contestants. Taking the cluster's own weight off the curvature puts back what it hides: the
sandwich then is the cluster jackknife in one Newton step (CV3 in MacKinnon, Nielsen and Webb, 2023), which keeps its
promise with few clusters too.
"""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import sparse

from pipeline.ranking.cells import Strata, Whole
from pipeline.ranking.columns import Floats, Halves, Ints
from pipeline.ranking.newton import Fit, Model, Moments, moments, split

Block = Callable[[npt.NDArray[np.intp]], Floats]

_AT_ONCE = 1 << 21
_WIDEST = 600  # above, leaving out a cluster of many contestants costs more than it corrects
_HELD = 0.999  # a cluster that alone decides a score would leave nothing to divide by


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Single comparisons, with the cluster each belongs to (numbered from 0)."""

    first: Ints
    second: Ints
    halves: Halves
    cluster: Whole
    strata: Strata | None = None


class Pulls(msgspec.Struct, frozen=True, kw_only=True):
    """Comparisons at the fitted point: how each differs from what is expected, and by what its odds are made.

    `design` has a column for each effect of a covariate; a last effect is Davidson's where ties are modelled.
    """

    rows: Rows
    scores: int
    effects: int
    seen: Moments
    rest: Floats
    tied: Floats | None
    design: Floats

    @property
    def touched(self) -> int:
        """How many scores and effects one comparison touches."""
        return 2 + self.effects

    def slope(self, part: int) -> Floats:
        """Return how strongly the comparisons pull at the part: first, second, then the effects."""
        if self.tied is not None and part == self.touched - 1:
            return self.tied
        return self.rest * self._value(part)

    def weight(self, part: int, other: int) -> Floats:
        """Return what the comparisons add to the curvature of two parts."""
        one, two = min(part, other), max(part, other)
        if self.tied is None or two < self.touched - 1:
            return self.seen.variance * self._value(one) * self._value(two)
        return self.seen.tie * (1 - self.seen.tie) if one == two else self.seen.shared * self._value(one)

    def _value(self, part: int) -> Floats | float:
        return (1.0, -1.0)[part] if part < 2 else self.design[:, part - 2]


def pulls_at(rows: Rows, found: Fit, model: Model) -> Pulls:
    """Return the comparisons as the fitted scores and effects see them."""
    slopes, log_nu = split(model, found.effects)
    odds = found.scores[rows.first] - found.scores[rows.second]
    design = np.empty((len(odds), 0))
    if rows.strata is not None:
        odds += (rows.strata.values @ slopes)[rows.strata.codes]
        design = rows.strata.values[rows.strata.codes]
    seen = moments(odds, log_nu)
    return Pulls(
        rows=rows,
        scores=len(found.scores),
        effects=len(found.effects),
        seen=seen,
        rest=rows.halves / 2 - seen.score,
        tied=None if log_nu is None else (rows.halves == 1) - seen.tie,
        design=design,
    )


def left_out(pulls: Pulls, inverse: Block) -> sparse.csr_array:
    """Return, a row for each cluster, its pull at each score and effect once the fit forgets the cluster.

    `inverse` gives the blocks of the inverse curvature at rows of places, a block for each row.
    """
    rows = pulls.rows
    sides = np.concatenate([rows.first, rows.second]).astype(np.int64)
    named, place = np.unique(np.tile(rows.cluster, 2) * np.int64(pulls.scores) + sides, return_inverse=True)
    widths = np.bincount(named // pulls.scores)
    starts = np.append(0, np.cumsum(widths))
    local = place.reshape(2, -1) - starts[rows.cluster]
    entries = [
        _entries(pulls, inverse, clusters, named[starts[clusters][:, None] + np.arange(width)] % pulls.scores, local)
        for width in np.unique(widths).tolist()
        for clusters in _blocks(np.flatnonzero(widths == width), width + pulls.effects)
    ]
    where, who, values = (np.concatenate(column) for column in zip(*entries, strict=True))
    shape = (len(widths), pulls.scores + pulls.effects)
    return sparse.coo_array((values, (where.astype(np.int32), who.astype(np.int32))), shape=shape).tocsr()


def _blocks(clusters: npt.NDArray[np.intp], width: int) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the clusters, so many at a time as there is room for their squares."""
    step = max(1, _AT_ONCE // width**2)
    for begin in range(0, len(clusters), step):
        yield clusters[begin : begin + step]


def _entries(
    pulls: Pulls, inverse: Block, clusters: npt.NDArray[np.intp], who: Whole, local: Whole
) -> tuple[Whole, Whole, Floats]:
    """Return cluster, place and pull of clusters that name equally many contestants (`who`, a row for each)."""
    count, width = who.shape
    size = width + pulls.effects
    effects = np.arange(pulls.effects)
    places = np.hstack([who, np.broadcast_to(pulls.scores + effects, (count, pulls.effects))])
    number = np.full(int(pulls.rows.cluster.max()) + 1, -1)
    number[clusters] = np.arange(count)
    chosen = np.flatnonzero(number[pulls.rows.cluster] >= 0)
    begin = number[pulls.rows.cluster[chosen]] * size
    parts = [begin + local[0, chosen], begin + local[1, chosen], *(begin + width + effect for effect in effects)]
    pull = np.zeros(count * size)
    for at, part in enumerate(parts):
        pull += np.bincount(part, pulls.slope(at)[chosen], count * size)
    pull = pull.reshape(count, size, 1)
    if width > _WIDEST:
        freed: Floats = pull * (1 + 1 / max(len(number) - 1, 1))
    else:
        own = np.zeros(count * size * size)
        for one, part in enumerate(parts):
            for two, other in enumerate(parts):
                own += np.bincount(part * size + other % size, pulls.weight(one, two)[chosen], len(own))
        kept = np.eye(size) - _HELD * own.reshape(count, size, size) @ inverse(places)
        freed = np.linalg.solve(kept, pull).astype(np.float64, copy=False)
    return np.repeat(clusters, size), places.ravel(), freed.ravel()
