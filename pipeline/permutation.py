"""Chance from a seed: draws without replacement and coins that are the same on any machine and any numpy.

Nothing here keeps a state: each value depends on a key and a position alone, so any part of a draw can be made alone
and a longer draw begins with the shorter one. It decides experiments, not secrets.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Ranks = NDArray[np.int64]

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: the step of the splitmix64 generator
_FACTOR_1, _FACTOR_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ROUNDS = 4  # two are measurably not uniform
_ROUNDS_IF_SMALL, _SMALL = 16, 4096  # on a grid of a few cells four rounds are not uniform either


def mixed(words: Words) -> Words:
    """Return the words, each scrambled so that every bit of it moves half the bits of the result (splitmix64)."""
    out = words ^ (words >> np.uint64(30))
    out *= np.uint64(_FACTOR_1)
    out ^= out >> np.uint64(27)
    out *= np.uint64(_FACTOR_2)
    out ^= out >> np.uint64(31)
    return out


def key_of(seed: int, use: int) -> int:
    """Return the 64 bits that stand for this use of the seed."""
    return _mixed_word((_mixed_word(seed & _WORD) + (use + 1) * _GOLDEN) & _WORD)


def coins(positions: Ranks, key: int) -> NDArray[np.bool_]:
    """Return a fair coin for each position."""
    words = mixed(positions.astype(np.uint64) * np.uint64(_GOLDEN) + np.uint64(key))
    return (words >> np.uint64(63)).astype(np.bool_)


def permuted(positions: Ranks, size: int, key: int) -> Ranks:
    """Return where a permutation of `0 … size - 1` chosen by `key` sends the positions.

    A Feistel network on a grid that is barely larger than `size`; what lands outside walks on until it is inside.
    """
    rows = math.isqrt(size - 1) + 1
    columns = -(-size // rows)
    keys = [key_of(key, number) for number in range(_ROUNDS_IF_SMALL if size <= _SMALL else _ROUNDS)]
    out = _through_the_grid(positions.astype(np.uint64), rows, columns, keys)
    while (outside := np.flatnonzero(out >= size)).size:
        out[outside] = _through_the_grid(out[outside], rows, columns, keys)
    return out.astype(np.int64)


def _mixed_word(word: int) -> int:
    """Return what `mixed` does to one word, without the cost of an array."""
    word = ((word ^ (word >> 30)) * _FACTOR_1) & _WORD
    word = ((word ^ (word >> 27)) * _FACTOR_2) & _WORD
    return word ^ (word >> 31)


def _through_the_grid(places: Words, rows: int, columns: int, keys: Sequence[int]) -> Words:
    left = places // np.uint64(columns)
    right = places - left * np.uint64(columns)
    for number, key in enumerate(keys):
        if number % 2 == 0:
            left = _moved(left, right, rows, key)
        else:
            right = _moved(right, left, columns, key)
    return left * np.uint64(columns) + right


def _moved(side: Words, other: Words, length: int, key: int) -> Words:
    """Return one side of the grid, shifted round by an amount that only the other side and the key decide."""
    shift = mixed(other + np.uint64(key))
    shift >>= np.uint64(32)
    shift *= np.uint64(length)
    shift >>= np.uint64(32)
    shift += side
    shift -= (shift >= length) * np.uint64(length)
    return shift
