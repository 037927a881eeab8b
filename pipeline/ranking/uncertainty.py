"""How far the scores could be off: sandwich covariances that let the comparisons of a cluster depend on one another."""

import msgspec
import numpy as np
import numpy.typing as npt
import scipy.special
from scipy import sparse

from pipeline.ranking.columns import Floats
from pipeline.ranking.leverage import Rows, left_out, pulls_at
from pipeline.ranking.newton import Curve, Fit, Model

FULL_LIMIT = 2_000
EXACT_LIMIT = 6_000
_BLOCK = 1_024
_FEW_CLUSTERS = 3
_STILL = 1e-9


class Covariance(msgspec.Struct, frozen=True, kw_only=True):
    """Variances of scores and effects; `full` is the scores' covariance where they are few enough to hold it.

    `cancelled` counts the scores whose comparisons cancel one another inside every cluster.
    """

    scores: Floats
    effects: Floats
    full: Floats | None
    clusters: int
    exact: bool
    cancelled: int = 0

    def between(self, place: int) -> Floats:
        """Return the variance of each score's difference from the one at `place`."""
        if self.full is None:
            return np.asarray(self.scores + self.scores[place])
        return np.asarray(np.maximum(self.scores + self.scores[place] - 2 * self.full[place], 0.0))


def sandwich(rows: Rows, view: Curve, found: Fit, model: Model) -> Covariance:
    """Return the cluster-robust covariance at the fitted point whose curvature is `view`.

    Above EXACT_LIMIT contestants the inverse curvature is replaced by that of its diagonal. With a ridge, and for
    contestants that few clusters name, no variance is below the inverse curvature: someone who only won has hardly any
    residuals, and yet the data say little about how good they are. Nor is it where residuals cancel in every cluster,
    as those of a judge do that always names the first: clusters then do not differ, and tell of no error at all.
    """
    pulls = pulls_at(rows, found, model)
    scores = len(found.scores)
    if scores > EXACT_LIMIT:
        floor = 1 / np.concatenate([view.graph.diagonal(), np.diag(view.inner)])
        freed = left_out(pulls, lambda places: _diagonal_blocks(floor, places))
        made = _of_diagonal(_by_diagonal(freed, floor), scores, freed.shape[0], exact=False)
        return _at_least(made, floor[:scores], thin=_thin(freed, scores, model))
    bread = _bread(view)
    freed = left_out(pulls, lambda places: bread[places[:, :, None], places[:, None, :]])
    freed *= np.sqrt(1 - 1 / max(freed.shape[0], 2))
    if scores > FULL_LIMIT:
        made = _of_diagonal(_diagonal_of_product(bread, freed), scores, freed.shape[0], exact=True)
    else:
        whole = bread @ (freed.T @ freed).toarray() @ bread
        made = _of_diagonal(np.diag(whole), scores, freed.shape[0], exact=True)
        made = msgspec.structs.replace(made, full=whole[:scores, :scores])
    return _at_least(made, _without_mean(bread, view), thin=_thin(freed, scores, model))


def _thin(pulls: sparse.csr_array, scores: int, model: Model) -> npt.NDArray[np.bool_]:
    """Return whose variances need a floor: all with a ridge, else those that too few clusters name."""
    named = np.bincount(pulls.indices, minlength=scores)[:scores]
    return np.asarray((named < _FEW_CLUSTERS) | (model.ridge > 0))


def _without_mean(bread: Floats, view: Curve) -> Floats:
    """Return the scores' variances by curvature alone, without what was added to make the matrix regular."""
    scores = view.graph.cells.contestants
    on_mean = view.graph.ridge + float(view.graph.diagonal().mean())
    return np.asarray(np.diag(bread)[:scores] - 1 / (scores * on_mean))


def _at_least(made: Covariance, floor: Floats, *, thin: npt.NDArray[np.bool_]) -> Covariance:
    """Return the covariance with no variance below the floor that is thinly known or nothing."""
    still = made.scores <= _STILL * floor
    missing = np.where(thin | still, np.maximum(floor - made.scores, 0.0), 0.0)
    full = None if made.full is None else made.full + np.diag(missing)
    cancelled = int(np.count_nonzero(still & ~thin))
    return msgspec.structs.replace(made, scores=made.scores + missing, full=full, cancelled=cancelled)


def _of_diagonal(variances: Floats, scores: int, clusters: int, *, exact: bool) -> Covariance:
    return Covariance(
        scores=variances[:scores].copy(), effects=variances[scores:].copy(), full=None, clusters=clusters, exact=exact
    )


def critical(confidence: float, clusters: int, *, tests: int = 1) -> float:
    """Return how many standard errors an interval spans to each side, for so many statements at once."""
    tail = (1 - confidence) / 2 / tests
    return student(tail, max(clusters - 1, 1))


def student(tail: float, freedom: int) -> float:
    """Return what Student's t exceeds with this probability.

    Not by `scipy.stats`, which takes longer to load than most rankings to make.
    """
    return -float(scipy.special.stdtrit(freedom, tail))


def _bread(view: Curve) -> Floats:
    """Return the inverse curvature of scores and effects together."""
    plain = view.graph.inverse()
    if not view.mixed.shape[1]:
        return plain
    bent = plain @ view.mixed
    schur = np.linalg.inv(view.inner - view.mixed.T @ bent)
    side = -bent @ schur
    return np.block([[plain - side @ bent.T, side], [side.T, schur]])


def _diagonal_of_product(bread: Floats, pulls: sparse.csr_array) -> Floats:
    """Return the diagonal of bread × pullsᵀ × pulls × bread, a block of columns at a time.

    The product of the pulls is symmetric: what stands above a block's own square is made once and counted twice.
    """
    size = len(bread)
    found = np.zeros(size)
    turned = pulls.T.tocsr()
    by_column = pulls.tocsc()
    for begin in range(0, size, _BLOCK):
        end = min(begin + _BLOCK, size)
        meat = (turned[:end] @ by_column[:, begin:end]).toarray()
        meat[:begin] *= 2
        found += np.einsum("ij,ij->i", bread[:, :end] @ meat, bread[:, begin:end])
    return found


def _by_diagonal(pulls: sparse.csr_array, inverses: Floats) -> Floats:
    """Return the variances as if no two scores had anything to do with one another."""
    squares = np.asarray(pulls.power(2).sum(axis=0)).ravel()
    return np.asarray(squares * inverses**2)


def _diagonal_blocks(values: Floats, places: npt.NDArray[np.intp]) -> Floats:
    """Return diagonal matrices of the values at the places, one for each row of places."""
    return np.asarray(values[places][:, :, None] * np.eye(places.shape[1]))
