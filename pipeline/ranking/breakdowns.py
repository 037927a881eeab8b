"""The same ranking for each judge, template, group and criterion alone, and how far each agrees with the whole."""

from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import scipy  # loads `stats` when it is asked for: that takes longer than all the rest

from pipeline.ranking.columns import Comparisons, Factor, read
from pipeline.ranking.rankings import rank_comparisons
from pipeline.ranking.values import Ranking, RankingOptions, Unrankable

Dimension = Literal["judge", "template", "group", "criterion"]
DIMENSIONS: tuple[Dimension, ...] = ("judge", "template", "group", "criterion")
MOST_PARTS = 200


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a dimension: its own ranking or why it has none, and Kendall's tau with the whole ranking."""

    dimension: Dimension
    value: str
    comparisons: int
    result: Ranking | Unrankable
    tau: float | None


def breakdowns(table: pa.Table, options: RankingOptions | None = None) -> tuple[Part, ...]:
    """Return the parts of every dimension with more than one value, the most compared values first."""
    options = options or RankingOptions()
    data = read(table, by=options.by)
    used = {dimension: _used(getattr(data, dimension)) for dimension in DIMENSIONS}
    several = {dimension: codes for dimension, codes in used.items() if len(codes) > 1}
    if not several:
        return ()
    # Parts are compared with the scores of the whole alone: to resample its intervals takes longer than all the rest.
    whole = rank_comparisons(data, msgspec.structs.replace(options, intervals="sandwich"))
    return tuple(
        part for dimension, codes in several.items() for part in _parts(data, dimension, codes, whole, options)
    )


def kendall(one: Ranking, other: Ranking) -> float | None:
    """Return Kendall's tau-b over the contestants that both rank; None for fewer than two."""
    scores = {standing.contestant: standing.score for standing in other.standings}
    both = [
        (standing.score, scores[standing.contestant]) for standing in one.standings if standing.contestant in scores
    ]
    if len(both) < 2:
        return None
    found = float(scipy.stats.kendalltau(*zip(*both, strict=True)).statistic)
    return found if np.isfinite(found) else None


def _used(values: Factor) -> list[int]:
    """Return the codes of the values that occur, the most frequent first."""
    counts = np.bincount(values.codes, minlength=values.count)
    return [code for code in np.argsort(-counts, kind="stable").tolist() if counts[code]]


def _parts(
    data: Comparisons, dimension: Dimension, used: list[int], whole: Ranking | Unrankable, options: RankingOptions
) -> list[Part]:
    values: Factor = getattr(data, dimension)
    found = []
    for code in used[:MOST_PARTS]:
        some = data.take(values.codes == code)
        result = rank_comparisons(some, options)
        tau = kendall(result, whole) if isinstance(result, Ranking) and isinstance(whole, Ranking) else None
        value = values.labels[code]
        found.append(Part(dimension=dimension, value=value, comparisons=len(some), result=result, tau=tau))
    return found
