"""Equal comparisons summed up: a million rows become as many cells as there are distinct pairs.

A cell is oriented from its lower-numbered contestant; cells are sorted, so that they are the rows of a sparse matrix.
"""

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.ranking.columns import Floats, Halves, Ints

Whole = npt.NDArray[np.signedinteger]
Counted = npt.NDArray[np.int64]

_OUTCOMES = 3
_DENSE_CELLS = 1 << 18


class Cells(msgspec.Struct, frozen=True, kw_only=True):
    """Counts for each distinct (lower, higher contestant, stratum, order).

    `score` is the lower contestant's wins plus half the ties; `extra` holds, a row for each cell, the covariates as the
    lower contestant sees them; `stratum` is twice the stratum's number, plus one if the higher contestant came first.
    """

    contestants: int
    low: Ints
    high: Ints
    starts: Ints
    score: Floats
    ties: Floats
    total: Floats
    extra: Floats
    stratum: Whole

    def reweighted(self, *, score: Floats, ties: Floats, total: Floats) -> "Cells":
        """Return the same cells with other counts."""
        return msgspec.structs.replace(self, score=score, ties=ties, total=total)


class Strata(msgspec.Struct, frozen=True, kw_only=True):
    """What else besides the two contestants sets comparisons apart: `values[codes]` are the covariates of the rows.

    Covariates are seen from the first sample's side and change sign when the pair is turned round.
    """

    names: tuple[str, ...]
    codes: Whole
    values: Floats

    def only(self, kept: list[int]) -> "Strata | None":
        """Return the strata with some of the covariates; None if none is left."""
        if not kept:
            return None
        names = tuple(self.names[place] for place in kept)
        return Strata(names=names, codes=self.codes, values=np.ascontiguousarray(self.values[:, kept]))

    def without(self, kept: list[int]) -> list[str]:
        """Return the names of the covariates that are not among those kept."""
        return [name for place, name in enumerate(self.names) if place not in kept]


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Comparisons with the number of each one's stratum, and how often each occurs (None: once)."""

    first: Whole
    second: Whole
    halves: Whole
    stratum: Whole | None
    counts: Counted | None = None


def sum_up(first: Ints, second: Ints, halves: Halves, *, contestants: int, strata: Strata | None = None) -> Cells:
    """Return the counts of all distinct cells; `halves` are the first one's points: 2 a win, 1 a tie, 0 a loss."""
    kinds = 1 if strata is None else len(strata.values)
    rows = _Rows(first=first, second=second, halves=halves, stratum=None if strata is None else strata.codes)
    if contestants * contestants * kinds * _OUTCOMES <= _DENSE_CELLS:
        rows = _counted(rows, contestants=contestants, kinds=kinds)
    rows = _oriented(rows)
    key = _key(rows, contestants=contestants, kinds=2 * kinds)
    return _gather(*_distinct(key, rows.counts), contestants=contestants, strata=strata)


def _counted(rows: _Rows, *, contestants: int, kinds: int) -> _Rows:
    """Return the distinct rows with their counts, by one pass over few enough possible rows."""
    every = np.bincount(_key(rows, contestants=contestants, kinds=kinds))
    used = np.flatnonzero(every)
    rest, halves = _apart(used, _OUTCOMES)
    rest, stratum = _apart(rest, kinds) if rows.stratum is not None else (rest, None)
    first, second = _apart(rest, contestants)
    return _Rows(first=first, second=second, halves=halves, stratum=stratum, counts=every[used])


def _oriented(rows: _Rows) -> _Rows:
    """Return the rows as their lower contestants see them; the stratum remembers which were turned."""
    turned = rows.first > rows.second
    return _Rows(
        first=np.where(turned, rows.second, rows.first),
        second=np.where(turned, rows.first, rows.second),
        halves=np.where(turned, 2 - rows.halves, rows.halves),
        stratum=None if rows.stratum is None else rows.stratum * 2 + turned,
        counts=rows.counts,
    )


def _key(rows: _Rows, *, contestants: int, kinds: int) -> Whole:
    """Return one whole number a row that says everything about it."""
    space = contestants * contestants * (1 if rows.stratum is None else kinds) * _OUTCOMES
    width = np.dtype(np.int32 if space < 2**31 else np.int64)
    key: Whole = rows.first.astype(width)
    for part, size in ((rows.second, contestants), (rows.stratum, kinds), (rows.halves, _OUTCOMES)):
        if part is not None:
            key *= size
            key += part.astype(width, copy=False)
    return key


def _distinct(key: Whole, counts: Counted | None) -> tuple[Whole, Counted]:
    """Return the distinct keys in order and how often each occurs."""
    if counts is not None:
        order = np.argsort(key)
        key, counts = key[order], counts[order]
    else:
        key.sort()
    begins = np.flatnonzero(_fresh(key))
    if counts is None:
        return key[begins], np.diff(begins, append=len(key))
    return key[begins], np.add.reduceat(counts, begins) if len(begins) else counts


def _fresh(key: Whole) -> npt.NDArray[np.bool_]:
    """Return where a sorted array takes a new value."""
    fresh = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=fresh[1:])
    return fresh


def _apart(key: Whole, size: int) -> tuple[Whole, Whole]:
    """Return quotient and rest; a floor division and a product are quicker than numpy's divmod."""
    quotient = key // size
    return quotient, key - quotient * size


def _gather(key: Whole, counts: Counted, *, contestants: int, strata: Strata | None) -> Cells:
    """Return the cells behind sorted distinct keys, the three outcomes of a cell brought together."""
    cell, halves = _apart(key, _OUTCOMES)
    begins = np.flatnonzero(_fresh(cell))
    cell = cell[begins]
    sums = [counts * halves, counts * (halves == 1), counts]
    points, ties, total = (np.add.reduceat(values, begins) if len(begins) else values for values in sums)
    extra, stratum = np.empty((len(cell), 0)), np.zeros(len(cell), dtype=np.int64)
    if strata is not None:
        cell, stratum = _apart(cell, 2 * len(strata.values))
        extra = strata.values[stratum // 2] * np.where(stratum % 2, -1.0, 1.0)[:, None]
    low, high = _apart(cell, contestants)
    return Cells(
        contestants=contestants, low=low.astype(np.int32), high=high.astype(np.int32),
        starts=np.searchsorted(low, np.arange(contestants + 1)).astype(np.int32),
        score=points / 2, ties=ties.astype(np.float64), total=total.astype(np.float64), extra=extra, stratum=stratum,
    )  # fmt: skip
