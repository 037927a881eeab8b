"""Circles: A beats B, B beats C, C beats A. They show how far a judge is from judging by one scale."""

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pipeline.ranking.columns import Comparisons
from pipeline.ranking.findings import Cycles

Graph = sparse.csr_array | npt.NDArray[np.float32]

_THIN = 0.1
_MOST_DENSE = 6_000


def cycles(data: Comparisons, *, judge: str) -> Cycles:
    """Return how many decided triples of contestants form a circle, by majorities over all comparisons of two."""
    size = len(data.contestants)
    low, high = np.minimum(data.first, data.second), np.maximum(data.first, data.second)
    toward_first = data.halves - np.float32(1)
    toward_low = np.where(data.first == low, toward_first, -toward_first)
    votes = sparse.coo_array((toward_low, (low, high)), shape=(size, size), dtype=np.float32).tocsr()
    up, down = (votes > 0).astype(np.float32), (votes < 0).astype(np.float32)
    if votes.nnz > _THIN * size * size and size <= _MOST_DENSE:
        return _counted(up.toarray(), down.toarray(), judge)
    return _counted(up, down, judge)


def _counted(up: Graph, down: Graph, judge: str) -> Cycles:
    """Return the triples of contestants who all met, and the circles among them."""
    met = up + down
    return Cycles(judge=judge, triads=_closed(met, met), cycles=_closed(up, down) + _closed(down, up))


def _closed(steps: Graph, last: Graph) -> int:
    """Return how many i < j < k have steps from i to j and from j to k and a `last` one from i to k."""
    both = (steps @ steps) * last
    return round(float(both.sum(dtype=np.float64)))
