"""What single samples were found to be: rates, means and choices with intervals, and whether judges agree on them.

A sample that was judged several times counts once: intervals are about samples, not about answers. Rows that are not ok
count nowhere. An interval that cannot be estimated is left out, with the reason.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.domain import Measure
from pipeline.ranking.agreement import alphas, coincidences, kappas
from pipeline.ranking.columns import Floats, judge_labels
from pipeline.ranking.draws import Poisson, bits
from pipeline.ranking.uncertainty import student
from pipeline.ranking.win_rate import wilson

_CONFIDENCE = 0.95
_ROUNDS = 500
_FEWEST = 3
_ALL_SIGNS, _SIGNS = 12, 4_000  # up to how many differences every sign is tried; else so many draws

Bounds = tuple[float, float]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One value with its interval: of these names, over so many samples; `choice` is what was chosen, where one was.

    Where there is no interval, `why` says why.
    """

    names: tuple[str, ...]
    samples: int
    value: float
    low: float | None
    high: float | None
    why: str = ""
    choice: str | None = None


class Concord(msgspec.Struct, frozen=True, kw_only=True):
    """How far two judges, or all of them, agree on the samples they share: as a share, and beyond chance."""

    judges: tuple[str, ...]
    samples: int
    same: float
    beyond_chance: float | None
    low: float | None = None
    high: float | None = None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows say of one measure: by the first name it goes by, then by all of them; and whether judges agree.

    `bounds` are the ends of the scale, where there is one. `rivals` are those the first one is not clearly above.
    """

    measure: Measure
    by: tuple[str, ...]
    cells: tuple[Cell, ...]
    concord: tuple[Concord, ...]
    bounds: Bounds | None = None
    rivals: tuple[str, ...] = ()


def measured(rows: pa.Table, measure: Measure, *, bounds: Bounds | None = None) -> Measured:
    """Return what the rows say of one measure; `bounds` are the ends of the scale on which its numbers lie."""
    good = rows.filter(pc.equal(pc.cast(rows["status"], pa.string()), "ok"))
    by = tuple(name for name in measure.by if name in rows.column_names)
    given = _given(good, measure)
    ends = bounds or (0.0 if measure.kind == "length" else -math.inf, math.inf)
    first = by[:1]
    cells = _cells(good, given, first, measure.kind, ends)
    rivals = _rivals(good, given, first[0], cells) if first and measure.kind in {"share", "mean"} else ()
    if len(by) > 1 and len(set(_text(good, by[1]))) > 1:
        cells += _cells(good, given, by, measure.kind, ends)
    judged = measure.kind != "length" and "sample_id" in rows.column_names
    return Measured(
        measure=measure,
        by=by,
        cells=tuple(cells),
        concord=_concord(good, given, measure) if judged else (),
        bounds=bounds,
        rivals=rivals,
    )


def _given(rows: pa.Table, measure: Measure) -> list[float | str]:
    values = rows[measure.column].to_pylist()
    if measure.kind == "length":
        return [float(len(value or "")) for value in values]
    return [str(value) if measure.kind == "choices" else float(value) for value in values]


def _text(rows: pa.Table, name: str) -> list[str]:
    return [str(value) for value in pc.fill_null(pc.cast(rows[name], pa.string()), "–").to_pylist()]


def _cells(rows: pa.Table, given: Sequence[float | str], by: Sequence[str], kind: str, bounds: Bounds) -> list[Cell]:
    """Return the values by these names, the largest first."""
    keys = list(zip(*(_text(rows, name) for name in by), strict=True)) if by else [()] * len(rows)
    samples = _text(rows, "sample_id")
    found: dict[tuple[tuple[str, ...], str | None], dict[str, list[float]]] = {}
    choices = sorted({str(value) for value in given}) if kind == "choices" else [None]
    for key, sample, value in zip(keys, samples, given, strict=True):
        for choice in choices:
            worth = float(value == choice) if choice is not None else float(value)
            found.setdefault((key, choice), {}).setdefault(sample, []).append(worth)
    is_share = kind in {"share", "choices"}
    cells = [
        _cell(key, choice, np.array([np.mean(each) for each in per.values()]), is_share=is_share, bounds=bounds)
        for (key, choice), per in found.items()
    ]
    return sorted(cells, key=lambda cell: (cell.names[1:], -cell.value, cell.names))


def _cell(names: tuple[str, ...], choice: str | None, worth: Floats, *, is_share: bool, bounds: Bounds) -> Cell:
    count, value = len(worth), float(worth.mean())
    if is_share:
        lows, highs = wilson(np.array([value]), np.array([float(count)]), confidence=_CONFIDENCE)
        return Cell(names=names, samples=count, value=value, low=float(lows[0]), high=float(highs[0]), choice=choice)
    why = _unknowable(worth)
    if why:
        return Cell(names=names, samples=count, value=value, low=None, high=None, why=why, choice=choice)
    reach = student((1 - _CONFIDENCE) / 2, count - 1) * float(worth.std(ddof=1)) / np.sqrt(count)
    low, high = max(value - reach, bounds[0]), min(value + reach, bounds[1])
    return Cell(names=names, samples=count, value=value, low=low, high=high, choice=choice)


def _unknowable(worth: Floats) -> str:
    """Return why the spread of these numbers cannot be estimated, if so."""
    if len(worth) < _FEWEST:
        return f"needs {_FEWEST} samples"
    return "all samples are equal" if float(np.ptp(worth)) == 0 else ""


def _rivals(rows: pa.Table, given: Sequence[float | str], by: str, cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return those the first one is not clearly above: all are compared with it at once, after Bonferroni.

    Two that were judged in the same groups of samples are compared group by group, if there are enough of them for
    such a test to find anything; others by their intervals.
    """
    if len(cells) < 2:
        return ()
    units = "group" if "group" in rows.column_names and rows["group"].null_count == 0 else "sample_id"
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, unit, sample, value in zip(
        _text(rows, by), _text(rows, units), _text(rows, "sample_id"), given, strict=True
    ):
        values.setdefault(name, {}).setdefault(unit, {}).setdefault(sample, []).append(float(value))
    worth = {
        name: {unit: float(np.mean([np.mean(each) for each in per.values()])) for unit, per in found.items()}
        for name, found in values.items()
    }
    level = (1 - _CONFIDENCE) / (len(cells) - 1)
    first, *others = cells
    return tuple(other.names[0] for other in others if not _is_above(first, other, worth, level))


def _is_above(one: Cell, other: Cell, worth: dict[str, dict[str, float]], level: float) -> bool:
    ours, theirs = worth[one.names[0]], worth[other.names[0]]
    if ours.keys() == theirs.keys() and 2.0 ** (1 - len(ours)) < level:
        return _sign_flips(np.array([ours[unit] - theirs[unit] for unit in sorted(ours)])) < level
    return one.low is not None and other.high is not None and one.low > other.high


def _sign_flips(differences: Floats) -> float:
    """Return how probable so large a sum is, either way, if each difference could as well be the other way round."""
    count, total = len(differences), abs(float(differences.sum())) - 1e-9
    if count <= _ALL_SIGNS:
        signs = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
        return float(np.mean(np.abs(signs @ differences) >= total))
    far = sum(
        abs(float(np.where(bits(0, stream, count) >> np.uint64(63), differences, -differences).sum())) >= total
        for stream in range(_SIGNS)
    )
    return (far + 1) / (_SIGNS + 1)


def _concord(rows: pa.Table, given: Sequence[float | str], measure: Measure) -> tuple[Concord, ...]:
    """Return the agreement of every two judges, and of all if there are more."""
    judges = [str(label) for label in judge_labels(rows).to_pylist()]
    said = _said(zip(_text(rows, "sample_id"), judges, given, strict=True), is_number=measure.kind == "mean")
    names = sorted({judge for _, judge in said})
    sets = [*combinations(names, 2), *([tuple(names)] if len(names) > 2 else [])]
    found = (_agreeing(said, some, is_number=measure.kind == "mean") for some in sets)
    return tuple(each for each in found if each is not None)


def _said(answers: Iterable[tuple[str, str, float | str]], *, is_number: bool) -> dict[tuple[str, str], float | str]:
    """Return one answer for each sample and judge: the mean of numbers, the most frequent of anything else."""
    every: dict[tuple[str, str], list[float | str]] = {}
    for sample, judge, value in answers:
        every.setdefault((sample, judge), []).append(value)
    if is_number:
        return {key: float(np.mean(np.array(values, np.float64))) for key, values in every.items()}
    return {key: _most_frequent(values) for key, values in every.items()}


def _most_frequent(values: Iterable[float | str]) -> float | str:
    """Return the value that comes most often; of several, the one whose text sorts first."""
    times = Counter(values)
    return min(times, key=lambda value: (-times[value], str(value)))


def _agreeing(said: dict[tuple[str, str], float | str], judges: tuple[str, ...], *, is_number: bool) -> Concord | None:
    shared = [
        sample for sample in sorted({sample for sample, _ in said}) if all((sample, judge) in said for judge in judges)
    ]
    if not shared:
        return None
    table = [[said[sample, judge] for judge in judges] for sample in shared]
    same = float(np.mean([len(set(row)) == 1 for row in table]))
    weights = np.vstack([np.ones(len(table)), Poisson(np.ones(_ROUNDS * len(table))).draw(0, 0).reshape(_ROUNDS, -1)])
    values = _interval_alphas(np.array(table, np.float64), weights) if is_number else _nominal(table, weights)
    drawn = values[1:][np.isfinite(values[1:])]
    low, high = (
        (float(each) for each in np.quantile(drawn, [0.025, 0.975])) if len(drawn) > _ROUNDS / 2 else (None, None)
    )
    beyond = float(values[0]) if np.isfinite(values[0]) else None
    return Concord(judges=judges, samples=len(shared), same=same, beyond_chance=beyond, low=low, high=high)


def _nominal(table: list[list[float | str]], weights: Floats) -> Floats:
    """Return Cohen's kappa of two judges, Krippendorff's alpha of more, for each row of weights."""
    labels = {value: code for code, value in enumerate(sorted({value for row in table for value in row}, key=str))}
    codes = np.array([[labels[value] for value in row] for row in table])
    size = len(labels)
    if codes.shape[1] == 2:
        place = codes[:, 0] * size + codes[:, 1]
        squares = np.stack([np.bincount(place, row, size * size) for row in weights]).reshape(-1, size, size)
        return kappas(squares.astype(np.float64))
    kinds = np.stack([(codes == code).sum(axis=1) for code in range(size)], axis=1)
    return alphas(coincidences(kinds, weights))


def _interval_alphas(table: Floats, weights: Floats) -> Floats:
    """Return Krippendorff's alpha for numbers, where a near miss is a small disagreement, for each row of weights."""
    judges = table.shape[1]
    sums, squares = table.sum(axis=1), (table**2).sum(axis=1)
    within = weights @ (2 * judges * squares - 2 * sums**2) / (judges - 1)
    count = weights.sum(axis=1) * judges
    between = (2 * count * (weights @ squares) - 2 * (weights @ sums) ** 2) / np.maximum(count - 1, 1)
    return np.asarray(1 - np.divide(within, between, out=np.full(len(weights), np.nan), where=between > 1e-12))
