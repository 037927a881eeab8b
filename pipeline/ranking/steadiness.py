"""One judge at a time: whether it keeps its verdict when the order is reversed, and which position it prefers."""

from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy  # loads `stats` when it is asked for: that takes longer than all the rest

from pipeline.ranking.columns import Comparisons, Factor, column, judges
from pipeline.ranking.findings import JudgeFindings, PositionBias, Share
from pipeline.ranking.win_rate import wilson

_CONFIDENCE = 0.95


class BothOrders(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs judged in both orders, by cell: how many kept their winner, changed it, or had no majority."""

    consistent: npt.NDArray[np.int64]
    to_first: npt.NDArray[np.int64]
    to_second: npt.NDArray[np.int64]
    undecided: npt.NDArray[np.int64]


def judge_findings(
    table: pa.Table, data: Comparisons, lengths: Mapping[str, float] | None
) -> tuple[JudgeFindings, ...]:
    """Return the findings for each judge with each template, in the order of their names."""
    judge, template = judges(table), column(table, "template")
    rows = _status_counts(judge, template, column(table, "status"))
    cell, names = _cells(data, judge.labels, template.labels)
    orders = both_orders(cell, data, cells=len(names))
    length = _longer_wins(cell, data, lengths, cells=len(names))
    outcomes = [np.bincount(cell[data.halves == points], minlength=len(names)) for points in (2, 0, 1)]
    return tuple(
        JudgeFindings(
            judge=names[at][0],
            template=names[at][1],
            rows=sum(rows[names[at]].values()),
            statuses=rows[names[at]],
            first_wins=int(outcomes[0][at]),
            second_wins=int(outcomes[1][at]),
            ties=int(outcomes[2][at]),
            consistency=_consistency(orders, at),
            undecided=int(orders.undecided[at]),
            position=position_bias(int(orders.to_first[at]), int(orders.to_second[at]))
            if orders.consistent[at] + orders.to_first[at] + orders.to_second[at]
            else None,
            longer_wins=length[at],
        )
        for at in range(len(names))
        if names[at] in rows
    )


def both_orders(cell: npt.NDArray[np.int64], data: Comparisons, *, cells: int) -> BothOrders:
    """Return, for each cell, how the majorities in the two orders of a pair compare."""
    key, place = np.unique(cell * max(data.pair.count, 1) + data.pair.codes, return_inverse=True)
    turned = data.turned
    sides = []
    for order in (~turned, turned):
        votes = np.bincount(place[order], data.leaning[order], len(key))
        seen = np.bincount(place[order], minlength=len(key)) > 0
        sides.append((np.sign(votes), seen))
    (straight, one), (back, other) = sides
    both = one & other
    decided = both & (straight != 0) & (back != 0)
    where = key // max(data.pair.count, 1)
    kinds = {
        "consistent": decided & (straight == back),
        "to_first": decided & (straight > back),
        "to_second": decided & (straight < back),
        "undecided": both & ~decided,
    }
    return BothOrders(**{name: np.bincount(where[kind], minlength=cells) for name, kind in kinds.items()})


def position_bias(to_first: int, to_second: int) -> PositionBias:
    """Return the exact sign test and the bias that the pairs with a changed winner imply."""
    changed = to_first + to_second
    if not changed:
        return PositionBias(to_first=0, to_second=0, p_value=1.0, bias=0.0, low=None, high=None)
    test = scipy.stats.binomtest(to_first, changed)
    interval = test.proportion_ci(_CONFIDENCE, method="exact")
    return PositionBias(
        to_first=to_first,
        to_second=to_second,
        p_value=float(test.pvalue),
        bias=_half_log_odds(to_first / changed),
        low=_half_log_odds(float(interval.low)),
        high=_half_log_odds(float(interval.high)),
    )


def share(count: int, whole: int) -> Share:
    """Return a share with Wilson's interval."""
    low, high = wilson(np.array([count / whole]), np.array([float(whole)]), confidence=_CONFIDENCE)
    return Share(share=count / whole, low=float(low[0]), high=float(high[0]), count=whole)


def _half_log_odds(chance: float) -> float | None:
    return float(np.log(chance / (1 - chance)) / 2) if 0 < chance < 1 else None


def _consistency(orders: BothOrders, at: int) -> Share | None:
    kept = int(orders.consistent[at])
    whole = kept + int(orders.to_first[at]) + int(orders.to_second[at])
    return share(kept, whole) if whole else None


def _cells(
    data: Comparisons, judges: tuple[str, ...], templates: tuple[str, ...]
) -> tuple[npt.NDArray[np.int64], list[tuple[str, str]]]:
    """Return the number of each row's judge and template, and their names."""
    judge, template = _renumbered(data.judge, judges), _renumbered(data.template, templates)
    return judge * len(templates) + template, [(j, t) for j in judges for t in templates]


def _renumbered(some: Factor, labels: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Return the factor's codes as places in a longer list of labels."""
    places = {label: place for place, label in enumerate(labels)}
    return np.array([places[label] for label in some.labels], dtype=np.int64)[some.codes]


def _status_counts(judge: Factor, template: Factor, status: Factor) -> dict[tuple[str, str], dict[str, int]]:
    """Return how many rows of each judge and template ended in each status."""
    shape = (len(judge.labels), len(template.labels), len(status.labels))
    if not len(judge.codes):
        return {}
    counts = np.bincount(
        np.ravel_multi_index((judge.codes, template.codes, status.codes), shape), minlength=int(np.prod(shape))
    )
    grid = counts.reshape(shape)
    return {
        (judge.labels[one], template.labels[two]): {
            name: int(grid[one, two, three]) for three, name in enumerate(status.labels) if grid[one, two, three]
        }
        for one, two in np.argwhere(grid.sum(axis=2) > 0).tolist()
    }


def _longer_wins(
    cell: npt.NDArray[np.int64], data: Comparisons, lengths: Mapping[str, float] | None, *, cells: int
) -> list[Share | None]:
    """Return how often the longer sample won, among decided comparisons of samples of different known lengths."""
    if lengths is None:
        return [None] * cells
    known = np.array([lengths.get(name, np.nan) for name in data.first_sample.labels], dtype=np.float64)
    longer = np.sign(known[data.first_sample.codes] - known[data.second_sample.codes])
    toward = data.halves - 1.0
    told = (np.abs(longer) == 1) & (toward != 0)
    whole = np.bincount(cell[told], minlength=cells)
    won = np.bincount(cell[told & (longer == toward)], minlength=cells)
    return [share(int(won[at]), int(whole[at])) if whole[at] else None for at in range(cells)]
