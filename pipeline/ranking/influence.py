"""What holds the leader up, and where the scores fail to explain the results."""

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt
import scipy  # loads `stats` when it is asked for: that takes longer than all the rest

from pipeline.ranking.bradley_terry import MILD
from pipeline.ranking.cells import Cells, sum_up
from pipeline.ranking.columns import Comparisons, Floats
from pipeline.ranking.connectivity import examine
from pipeline.ranking.findings import Calibration, Influence, Influential, Residual
from pipeline.ranking.laplacian import gaps
from pipeline.ranking.newton import Fit, Model, curve, fit, moments

_CHALLENGERS = 3
_LARGEST_SHARE = 0.1
_SHOWN = 20
_BINS = 10


class Levers(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that keep the leader above a challenger, strongest first, and how many seem to be needed."""

    rows: npt.NDArray[np.intp]
    guess: int


def influence(data: Comparisons, cells: Cells, found: Fit, model: Model) -> Influence:
    """Return the fewest comparisons found, by first-order influence and checked by fitting without them."""
    order = np.argsort(-found.scores, kind="stable")
    leader = int(order[0])
    best: tuple[int, int, npt.NDArray[np.intp]] | None = None
    for challenger in order[1 : 1 + _CHALLENGERS].tolist():
        levers = _levers(data, cells, found, model, (leader, challenger))
        limit = int(len(data) * _LARGEST_SHARE) if best is None else best[0] - 1

        def falls(count: int, rows: npt.NDArray[np.intp] = levers.rows) -> bool:
            return _falls(data, rows[:count], found, model)

        needed = _fewest(falls, guess=levers.guess, limit=min(limit, len(levers.rows)))
        if needed is not None:
            best = (needed, challenger, levers.rows[:needed])
    return Influence(
        leader=data.contestants[leader],
        challenger=data.contestants[best[1]] if best else None,
        needed=best[0] if best else None,
        comparisons=len(data),
        rows=tuple(_named(data, int(row)) for row in best[2][:_SHOWN]) if best else (),
    )


def residuals(names: tuple[str, ...], cells: Cells, found: Fit) -> tuple[Residual, ...]:
    """Return the pairs of contestants that the scores explain worst, worst first."""
    expected = moments(gaps(cells, found.scores), None).score
    chance = chance_of(cells.score, cells.total, expected)
    distance = np.abs(cells.score - cells.total * expected)
    worst = np.lexsort((-distance, chance))[:_SHOWN]
    return tuple(
        Residual(
            one=names[cells.low[at]],
            other=names[cells.high[at]],
            comparisons=int(cells.total[at]),
            observed=float(cells.score[at] / cells.total[at]),
            expected=float(expected[at]),
            chance=float(chance[at]),
            usual=float(chance[at] * len(chance)),
        )
        for at in worst.tolist()
    )


def chance_of(score: Floats, total: Floats, expected: Floats) -> Floats:
    """Return how probable a score at least as far from the expected share is, on either side.

    Twice the exact binomial tail, of the score itself only half (mid-p): few comparisons of unequal contestants are far
    from normal. A tie lies between a win and a loss.
    """
    above = score > total * expected
    points, share = np.where(above, score, total - score), np.where(above, expected, 1 - expected)
    beyond = scipy.stats.binom.sf(np.floor(points), total, share)
    reached = scipy.stats.binom.sf(np.ceil(points) - 1, total, share)
    return np.asarray(np.minimum(beyond + reached, 1.0))


def calibration(cells: Cells, found: Fit) -> tuple[Calibration, ...]:
    """Return expected and seen shares of the stronger side, by tenths of the range from a half to one."""
    chance = moments(gaps(cells, found.scores), None).score
    strong = np.maximum(chance, 1 - chance)
    points = np.where(chance >= 0.5, cells.score, cells.total - cells.score)
    place = np.minimum(((strong - 0.5) * 2 * _BINS).astype(np.int64), _BINS - 1)
    total = np.bincount(place, cells.total, _BINS)
    expected, observed = (np.bincount(place, values, _BINS) for values in (strong * cells.total, points))
    return tuple(
        Calibration(
            expected=float(expected[at] / total[at]),
            observed=float(observed[at] / total[at]),
            comparisons=int(total[at]),
        )
        for at in range(_BINS)
        if total[at]
    )


def _levers(data: Comparisons, cells: Cells, found: Fit, model: Model, two: tuple[int, int]) -> Levers:
    """Return which rows hold the first of the two above the second, to first order."""
    leader, challenger = two
    contrast = np.zeros((len(found.scores), 1))
    contrast[leader], contrast[challenger] = 1.0, -1.0
    view = curve(cells, model, found.scores, found.effects)
    lever = view.graph.solve(contrast, tolerance=1e-8)[:, 0]
    chance = moments(found.scores[data.first] - found.scores[data.second], None).score
    pull: Floats = (data.halves / 2 - chance) * (lever[data.first] - lever[data.second])
    order = np.argsort(-pull, kind="stable")[: int(np.count_nonzero(pull > 0))]
    gap = float(found.scores[leader] - found.scores[challenger])
    return Levers(rows=order, guess=1 + int(np.searchsorted(np.cumsum(pull[order]), gap)))


def _fewest(falls: Callable[[int], bool], *, guess: int, limit: int) -> int | None:
    """Return the smallest number for which the leader falls, searched from the guess; None within the limit."""
    low, high = 0, min(guess, limit)
    while high > low and not falls(high):
        low, high = high, min(2 * high, limit)
    if high <= low:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if falls(middle) else (middle, high)
    return high


def _falls(data: Comparisons, dropped: npt.NDArray[np.intp], found: Fit, model: Model) -> bool:
    """Return whether someone else leads once these rows are gone."""
    kept = np.ones(len(data), dtype=bool)
    kept[dropped] = False
    size = len(data.contestants)
    cells = sum_up(data.first[kept], data.second[kept], data.halves[kept], contestants=size)
    links = examine(cells)
    if not links.connected:
        return False
    gentle = model if links.determined else Model(ties=model.ties, ridge=max(model.ridge, MILD))
    scores = fit(cells, gentle, start=found).scores
    return bool(scores.max() > scores[found.scores.argmax()] + 1e-9)


def _named(data: Comparisons, row: int) -> Influential:
    first, second = data.contestants[data.first[row]], data.contestants[data.second[row]]
    points = int(data.halves[row])
    return Influential(
        judge=data.judge.labels[data.judge.codes[row]],
        first=first,
        second=second,
        first_sample=data.first_sample.labels[data.first_sample.codes[row]],
        second_sample=data.second_sample.labels[data.second_sample.codes[row]],
        winner=None if points == 1 else (first if points == 2 else second),
    )
