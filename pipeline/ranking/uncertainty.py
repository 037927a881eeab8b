"""How far the scores could be off: sandwich covariances that let the comparisons of a cluster depend on one another."""

import msgspec
import numpy as np
import scipy.stats
from scipy import sparse

from pipeline.ranking.cells import Strata, Whole
from pipeline.ranking.columns import Floats, Halves, Ints
from pipeline.ranking.laplacian import inverse
from pipeline.ranking.newton import Curve, Fit, Model, moments, split

FULL_LIMIT = 2_000
EXACT_LIMIT = 6_000
_BLOCK = 1_024


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Single comparisons, with the cluster each belongs to (numbered from 0)."""

    first: Ints
    second: Ints
    halves: Halves
    cluster: Whole
    strata: Strata | None = None


class Covariance(msgspec.Struct, frozen=True, kw_only=True):
    """Variances of scores and effects; `full` is the scores' covariance where they are few enough to hold it."""

    scores: Floats
    effects: Floats
    full: Floats | None
    clusters: int
    exact: bool

    def between(self, place: int) -> Floats:
        """Return the variance of each score's difference from the one at `place`."""
        if self.full is None:
            return np.asarray(self.scores + self.scores[place])
        return np.asarray(np.maximum(self.scores + self.scores[place] - 2 * self.full[place], 0.0))


def sandwich(rows: Rows, view: Curve, found: Fit, model: Model) -> Covariance:
    """Return the cluster-robust covariance at the fitted point whose curvature is `view`.

    Above EXACT_LIMIT contestants the inverse curvature is replaced by that of its diagonal. With a ridge no variance is
    below the inverse curvature: someone who only won has hardly any residuals, and yet the data say little about how
    good they are.
    """
    pulls = _pulls(rows, found, model)
    sizes = _corrections(pulls, found)
    scores = len(found.scores)
    if scores > EXACT_LIMIT:
        floor = 1 / np.concatenate([view.graph.diagonal(), np.diag(view.inner)])
        made = _of_diagonal(_by_diagonal(pulls, view) * sizes**2, scores, pulls.shape[0], exact=False)
        return _at_least(made, floor[:scores]) if model.ridge else made
    bread = _bread(view)
    if scores > FULL_LIMIT:
        variances = _diagonal_of_product(bread, pulls) * sizes**2
        made = _of_diagonal(variances, scores, pulls.shape[0], exact=True)
    else:
        whole = bread @ (pulls.T @ pulls).toarray() @ bread * np.outer(sizes, sizes)
        made = _of_diagonal(np.diag(whole), scores, pulls.shape[0], exact=True)
        made = msgspec.structs.replace(made, full=whole[:scores, :scores])
    return _at_least(made, _without_mean(bread, view)) if model.ridge else made


def _without_mean(bread: Floats, view: Curve) -> Floats:
    """Return the scores' variances by curvature alone, without what was added to make the matrix regular."""
    scores = view.graph.cells.contestants
    on_mean = view.graph.ridge + float(view.graph.diagonal().mean())
    return np.asarray(np.diag(bread)[:scores] - 1 / (scores * on_mean))


def _at_least(made: Covariance, floor: Floats) -> Covariance:
    """Return the covariance with no score's variance below the floor."""
    missing = np.maximum(floor - made.scores, 0.0)
    full = None if made.full is None else made.full + np.diag(missing)
    return msgspec.structs.replace(made, scores=made.scores + missing, full=full)


def _corrections(pulls: sparse.csr_array, found: Fit) -> Floats:
    """Return by what each standard error is widened because fitting made the residuals too small.

    A cluster that names m contestants says m - 1 things about the scores; the fit used up one for each free score.
    """
    clusters, scores = pulls.shape[0], len(found.scores)
    said = int(np.count_nonzero(pulls.indices < scores)) - clusters
    used = clusters / max(clusters - 1, 1)
    on_scores = used * said / max(said - scores + 1, said / 4, 1)
    on_effects = used * clusters / max(clusters - len(found.effects), clusters / 4, 1)
    widened = np.concatenate([np.full(scores, on_scores), np.full(len(found.effects), on_effects)])
    return np.asarray(np.sqrt(widened))


def _of_diagonal(variances: Floats, scores: int, clusters: int, *, exact: bool) -> Covariance:
    return Covariance(
        scores=variances[:scores].copy(), effects=variances[scores:].copy(), full=None, clusters=clusters, exact=exact
    )


def critical(confidence: float, clusters: int, *, tests: int = 1) -> float:
    """Return how many standard errors an interval spans to each side, for so many statements at once."""
    tail = (1 - confidence) / 2 / tests
    return float(scipy.stats.t.isf(tail, max(clusters - 1, 1)))


def _pulls(rows: Rows, found: Fit, model: Model) -> sparse.csr_array:
    """Return, a row for each cluster, how strongly its comparisons pull at each score and effect."""
    slopes, log_nu = split(model, found.effects)
    odds = found.scores[rows.first] - found.scores[rows.second]
    if rows.strata is not None:
        odds += (rows.strata.values @ slopes)[rows.strata.codes]
    seen = moments(odds, log_nu)
    rest = rows.halves / 2 - seen.score
    columns, values = [rows.first, rows.second], [rest, -rest]
    if rows.strata is not None:
        for place, covariate in enumerate(rows.strata.values.T):
            columns.append(np.full(len(rest), len(found.scores) + place, dtype=np.int32))
            values.append(rest * covariate[rows.strata.codes])
    if log_nu is not None:
        columns.append(np.full(len(rest), len(found.scores) + len(found.effects) - 1, dtype=np.int32))
        values.append((rows.halves == 1) - seen.tie)
    shape = (int(rows.cluster.max()) + 1, len(found.scores) + len(found.effects))
    where = (np.tile(rows.cluster.astype(np.int32), len(columns)), np.concatenate(columns))
    return sparse.coo_array((np.concatenate(values), where), shape=shape).tocsr()


def _bread(view: Curve) -> Floats:
    """Return the inverse curvature of scores and effects together."""
    plain = inverse(view.graph.dense())
    if not view.mixed.shape[1]:
        return plain
    bent = plain @ view.mixed
    schur = np.linalg.inv(view.inner - view.mixed.T @ bent)
    side = -bent @ schur
    return np.block([[plain - side @ bent.T, side], [side.T, schur]])


def _diagonal_of_product(bread: Floats, pulls: sparse.csr_array) -> Floats:
    """Return the diagonal of bread × pullsᵀ × pulls × bread, a block of columns at a time."""
    size = len(bread)
    found = np.zeros(size)
    turned = pulls.T.tocsr()
    by_column = pulls.tocsc()
    for begin in range(0, size, _BLOCK):
        block = slice(begin, min(begin + _BLOCK, size))
        meat = (turned @ by_column[:, block]).toarray()
        found += np.einsum("ij,ij->i", bread @ meat, bread[:, block])
    return found


def _by_diagonal(pulls: sparse.csr_array, view: Curve) -> Floats:
    """Return the variances as if no two scores had anything to do with one another."""
    squares = np.asarray(pulls.power(2).sum(axis=0)).ravel()
    curvature = np.concatenate([view.graph.diagonal(), np.diag(view.inner)])
    return np.asarray(squares / curvature**2)
