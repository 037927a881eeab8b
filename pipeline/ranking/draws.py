"""Repeatable random numbers: the n-th draw of a stream depends on seed, stream and n alone (SplitMix64)."""

import numpy as np
import numpy.typing as npt
import scipy.special

from pipeline.ranking.columns import Floats

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_LARGE = 30.0


def bits(seed: int, stream: int, count: int) -> npt.NDArray[np.uint64]:
    """Return 64 random bits for each of the first `count` draws of the stream."""
    start = _mixed(np.array([seed % 2**64], dtype=np.uint64)) ^ np.uint64(stream % 2**64)
    return _mixed(_mixed(start) + np.arange(1, count + 1, dtype=np.uint64) * _STEP)


def uniforms(seed: int, stream: int, count: int) -> Floats:
    """Return numbers strictly between 0 and 1."""
    return ((bits(seed, stream, count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def permutation(seed: int, stream: int, count: int) -> npt.NDArray[np.intp]:
    """Return 0 to count - 1 in random order."""
    return np.argsort(bits(seed, stream, count), kind="stable")


class Poisson:
    """Draws of Poisson numbers with given means: by the table for small means, by a skewed normal for large ones."""

    def __init__(self, means: Floats) -> None:
        self._means = means
        self._small = np.flatnonzero(means < _LARGE)
        self._large = np.flatnonzero(means >= _LARGE)

    def draw(self, seed: int, stream: int) -> Floats:
        """Return one number for each mean."""
        chance = uniforms(seed, stream, len(self._means))
        drawn = np.empty(len(self._means))
        drawn[self._small] = _by_counting(self._means[self._small], chance[self._small])
        mean = self._means[self._large]
        normal = scipy.special.ndtri(chance[self._large])
        skewed = mean + np.sqrt(mean) * normal + (normal**2 - 1) / 6
        drawn[self._large] = np.maximum(np.rint(skewed), 0.0)
        return drawn


def _by_counting(means: Floats, chance: Floats) -> Floats:
    """Return the smallest number whose cumulative probability reaches the chance."""
    drawn = np.zeros(len(means))
    open_ = np.arange(len(means))
    term = np.exp(-means)
    reached = term.copy()
    number = 0
    while len(open_):
        still = (chance[open_] > reached) & (term > 0)
        open_, term, reached = open_[still], term[still], reached[still]
        number += 1
        drawn[open_] = number
        term = term * means[open_] / number
        reached = reached + term
    return drawn


def _mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX[0]
    state = (state ^ (state >> np.uint64(27))) * _MIX[1]
    return state ^ (state >> np.uint64(31))
