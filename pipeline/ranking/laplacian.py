"""Linear systems whose matrix is the weighted graph of who was compared with whom.

Small ones are solved densely, large ones by conjugate gradients, long thin ones by sparse elimination. All right-hand
sides and solutions sum to zero: the scores have no origin.
"""

import msgspec
import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse import linalg as sparse_linalg

from pipeline.ranking.cells import Cells
from pipeline.ranking.columns import Floats

_DENSE = 400
_MOST_STEPS = 300
_MIRRORED_AT_ONCE = 512


class Laplacian(msgspec.Struct, frozen=True, kw_only=True):
    """The graph of the cells with a weight on each, plus `ridge` on the diagonal."""

    cells: Cells
    weights: Floats
    ridge: float

    def diagonal(self) -> Floats:
        """Return the sum of the weights at each contestant, and the ridge."""
        return outflow(self.cells, self.weights, sign=1.0) + self.ridge

    def dense(self) -> Floats:
        """Return the matrix, made regular by a constant that acts on the mean only."""
        upper, diagonal = self.upper(), self.diagonal()
        matrix = (upper + upper.T).toarray()
        np.subtract(diagonal.mean() / len(matrix), matrix, out=matrix)
        matrix[np.diag_indices(len(matrix))] += diagonal
        return np.asarray(matrix)

    def inverse(self) -> Floats:
        """Return the inverse of the dense matrix."""
        try:
            return inverse(self.dense())
        except np.linalg.LinAlgError:  # weights too far apart for numbers of this size: not positive but for rounding
            return np.asarray(np.linalg.inv(self.dense()))

    def upper(self) -> sparse.csr_array:
        """Return the weights as the upper half of a sparse matrix, without copying them."""
        shape = (self.cells.contestants, self.cells.contestants)
        return sparse.csr_array((self.weights, self.cells.high, self.cells.starts), shape=shape)

    def solve(self, right: Floats, *, tolerance: float) -> Floats:
        """Return the centred solutions for the columns of `right`, to a relative tolerance where it iterates."""
        if self.cells.contestants <= _DENSE:
            factor = scipy.linalg.cho_factor(self.dense(), check_finite=False, overwrite_a=True)
            return centred(scipy.linalg.cho_solve(factor, right, check_finite=False))
        columns = [self._conjugate_gradients(right[:, place], tolerance) for place in range(right.shape[1])]
        if any(found is None for found in columns):
            return self._eliminate(right)
        return np.stack([found for found in columns if found is not None], axis=1)

    def _conjugate_gradients(self, right: Floats, tolerance: float) -> Floats | None:
        """Return the solution, or None where a long thin graph makes it too slow."""
        upper, diagonal = self.upper(), self.diagonal()
        lower = upper.T
        residual = centred(right)
        rounding = 1e-15 * float(np.linalg.norm(diagonal))
        goal = max(tolerance * float(np.linalg.norm(residual)), rounding)
        solution = np.zeros_like(right)
        direction = ready = residual / diagonal
        energy = float(residual @ ready)
        for _ in range(_MOST_STEPS):
            if float(np.linalg.norm(residual)) <= goal:
                return centred(solution)
            moved = diagonal * direction - upper @ direction - lower @ direction
            length = energy / float(direction @ moved)
            solution += length * direction
            residual -= length * moved
            ready = residual / diagonal
            before, energy = energy, float(residual @ ready)
            direction = ready + (energy / before) * direction
        return None

    def _eliminate(self, right: Floats) -> Floats:
        """Return the solution by sparse elimination with the last contestant as origin."""
        upper = self.upper()
        matrix = sparse.csc_array(sparse.diags_array(self.diagonal()) - upper - upper.T)
        if self.ridge > 0:
            return centred(sparse_linalg.splu(matrix).solve(right))
        inner = sparse_linalg.splu(matrix[:-1, :-1]).solve(right[:-1])
        return centred(np.vstack([inner, np.zeros((1, right.shape[1]))]))


def outflow(cells: Cells, values: Floats, *, sign: float = -1.0) -> Floats:
    """Return for each contestant the values of its cells, those where it is the higher one times `sign`."""
    size = cells.contestants
    shape = (size, size)
    matrix = sparse.csr_array((values, cells.high, cells.starts), shape=shape)
    ones = np.ones(size)
    return np.asarray(matrix @ ones + sign * (matrix.T @ ones))


def gaps(cells: Cells, scores: Floats) -> Floats:
    """Return the lower contestant's score minus the higher one's, cell by cell."""
    return np.repeat(scores, np.diff(cells.starts)) - scores[cells.high]


def centred(values: Floats) -> Floats:
    """Return the values with each column's mean taken off."""
    return np.asarray(values - values.mean(axis=0))


def inverse(matrix: Floats) -> Floats:
    """Return the inverse of a symmetric positive matrix, in its place; raises LinAlgError if it is not positive.

    By Cholesky's factor, which is half the work of a general inverse.
    """
    factor, failed = lapack.dpotrf(matrix.T, lower=True, clean=False, overwrite_a=True)
    if failed:
        raise np.linalg.LinAlgError("the matrix is not positive")
    halved, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
    return _mirrored(halved.T)


def _mirrored(upper: Floats) -> Floats:
    """Return the symmetric matrix whose upper half this is, in its place."""
    for begin in range(0, len(upper), _MIRRORED_AT_ONCE):
        end = begin + _MIRRORED_AT_ONCE
        upper[begin:end, :begin] = upper[:begin, begin:end].T
        square = upper[begin:end, begin:end]
        square[:] = np.triu(square) + np.triu(square, 1).T
    return upper
