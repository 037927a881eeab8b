"""From a table of comparisons to a ranking, or to the sentence why there is none."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.ranking import connectivity, elo, win_rate
from pipeline.ranking.bradley_terry import Scored, bradley_terry
from pipeline.ranking.cells import Whole, sum_up
from pipeline.ranking.columns import Comparisons, read
from pipeline.ranking.leverage import Rows
from pipeline.ranking.places import Places, places, reliability
from pipeline.ranking.uncertainty import FULL_LIMIT, Covariance
from pipeline.ranking.values import Ranking, RankingOptions, Standing, Unrankable, left, refuse_idle
from pipeline.wording import counted

ClusterKind = Literal["pair", "group", "row"]

_MANY_GROUPS = 8
_PAIRS_FOR_A_SCORE = 2


def rank(
    table: pa.Table,
    options: RankingOptions | None = None,
    *,
    lengths: Mapping[str, float] | None = None,
    everyone: Iterable[str] = (),
) -> Ranking | Unrankable:
    """Return the ranking of the table's comparisons.

    `lengths` by sample id adds a preference for length to the model; `everyone` names all who should be ranked, so that
    whoever no comparison names is missed.
    """
    data = read(table, by=(options or RankingOptions()).by)
    absent = sorted(set(everyone) - set(data.contestants) - set(data.unranked))
    data = msgspec.structs.replace(data, unranked=(*data.unranked, *absent))
    return rank_comparisons(data, options, lengths=lengths)


def rank_comparisons(
    data: Comparisons, options: RankingOptions | None = None, *, lengths: Mapping[str, float] | None = None
) -> Ranking | Unrankable:
    """Return the ranking of comparisons that were read before."""
    options = options or RankingOptions()
    refuse_idle(options.method, ["--length"] if lengths is not None else [])
    reason = _hopeless(data)
    if reason:
        return Unrankable(reason=reason, excluded=data.excluded)
    kind = cluster_kind(data, options)
    rows = Rows(first=data.first, second=data.second, halves=data.halves, cluster=clusters(data, kind))
    cells = sum_up(data.first, data.second, data.halves, contestants=len(data.contestants))
    links = connectivity.examine(cells)
    if not links.connected:
        reason = connectivity.disconnected_reason(links, data.contestants, is_nested=_is_nested(data))
        return Unrankable(reason=reason, excluded=data.excluded)
    match options.method:
        case "bradley-terry":
            scored = bradley_terry(data, rows, links, options, lengths=lengths)
        case "elo":
            scored = _elo(data, rows, options)
        case "win-rate":
            scored = _win_rate(data, rows, options)
    if isinstance(scored, str):
        return Unrankable(reason=scored, excluded=data.excluded)
    return _ranking(data, rows, scored, options, kind)


def _hopeless(data: Comparisons) -> str | None:
    """Return why nothing can be ranked, before any counting."""
    rows = len(data) + sum(data.excluded.values())
    if rows == 0:
        return "there are no comparisons to rank"
    if set(data.excluded) == {"contestant against itself"} and not len(data):
        return f"there is only one contestant, {data.unranked[0]}: a ranking needs at least two"
    if not len(data):
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(data.excluded.items()))
        return f"none of the {rows} comparisons could be read ({counts}): nothing can be ranked"
    if bool((data.halves == 1).all()):
        told = f"all {len(data):,} comparisons are ties" if len(data) > 1 else "the only comparison is a tie"
        return f"{told}: nothing tells the {len(data.contestants):,} contestants apart"
    return None


def _is_nested(data: Comparisons) -> bool:
    """Say whether there are several groups and no contestant stands in two of them."""
    groups = data.group.count
    places = np.unique(
        np.concatenate([data.first, data.second]).astype(np.int64) * groups + np.tile(data.group.codes, 2)
    )
    return len(np.unique(data.group.codes)) > 1 and len(places) == len(data.contestants)


def cluster_kind(data: Comparisons, options: RankingOptions) -> ClusterKind:
    """Return which comparisons are taken to depend on one another.

    Scores that follow the pairs too closely leave no differences between pairs to learn from: with fewer than two
    pairs for each free score every comparison stands for itself.
    """
    if options.cluster in ("group", "row"):
        return options.cluster
    if options.cluster == "auto" and len(np.unique(data.group.codes)) >= _MANY_GROUPS:
        return "group"
    few = len(np.unique(data.pair.codes)) < _PAIRS_FOR_A_SCORE * (len(data.contestants) - 1)
    return "row" if few else "pair"


def clusters(data: Comparisons, kind: ClusterKind) -> Whole:
    """Return each row's cluster, numbered from 0 without gaps."""
    if kind == "row":
        return np.arange(len(data), dtype=np.int64)
    codes = data.group.codes if kind == "group" else data.pair.codes
    used = np.bincount(codes) > 0
    return (np.cumsum(used) - 1)[codes]


def _elo(data: Comparisons, rows: Rows, options: RankingOptions) -> Scored:
    """Return mean ratings with intervals from resampled clusters."""
    found = elo.elo(rows, contestants=len(data.contestants), orders=options.rounds, seed=options.seed)
    tail = (1 - options.confidence) / 2
    low, high = np.quantile(found.resampled, [tail, 1 - tail], axis=0)
    covariance = Covariance(
        scores=found.resampled.var(axis=0, ddof=1),
        effects=np.zeros(0),
        full=np.cov(found.resampled, rowvar=False) if len(data.contestants) <= FULL_LIMIT else None,
        clusters=int(rows.cluster.max()) + 1,
        exact=True,
    )
    said = (
        f"Elo depends on the order of the comparisons: these are means over {len(found.resampled)} orders, "
        f"which alone move a rating by {float(np.median(found.spread)):.1f} points"
    )
    return Scored(scores=found.mean, low=low, high=high, covariance=covariance, warnings=(said,))


def _win_rate(data: Comparisons, rows: Rows, options: RankingOptions) -> Scored:
    found = win_rate.win_rates(rows, contestants=len(data.contestants), confidence=options.confidence)
    covariance = win_rate.as_covariance(found, int(rows.cluster.max()) + 1, confidence=options.confidence)
    return Scored(scores=found.rate, low=found.low, high=found.high, covariance=covariance)


def _ranking(data: Comparisons, rows: Rows, scored: Scored, options: RankingOptions, kind: ClusterKind) -> Ranking:
    """Return the ranking of scored contestants."""
    spread = reliability(scored.scores, scored.covariance.scores)
    found = places(scored.scores, scored.covariance, confidence=options.confidence)
    standings = _standings(data, rows, scored, found, options.confidence)
    rivals = {data.contestants[at] for at in np.flatnonzero(found.rivals)}
    return Ranking(
        options=options,
        standings=standings,
        rivals=tuple(one.contestant for one in standings if one.contestant in rivals),
        comparisons=len(data),
        clusters=scored.covariance.clusters,
        cluster_kind=kind,
        excluded=data.excluded,
        reliability=spread.reliability if spread else None,
        separation=spread.separation if spread else None,
        effects=scored.effects,
        unranked=data.unranked,
        warnings=(*scored.warnings, *_cancelled(scored, kind), *_warnings(data, options, kind)),
        regularisation=scored.ridge,
    )


def _standings(data: Comparisons, rows: Rows, scored: Scored, found: Places, confidence: float) -> tuple[Standing, ...]:
    """Return everyone's standing, best first; equal scores share a rank and are listed surest first.

    Scores that differ by rounding alone are given as one number: whoever sorts them again finds the same ties.
    """
    rates = win_rate.win_rates(rows, contestants=len(data.contestants), confidence=confidence)
    errors = np.sqrt(scored.covariance.scores)
    surest_first = -np.round(scored.low, 9)
    order = sorted(
        range(len(data.contestants)), key=lambda at: (found.rank[at], surest_first[at], data.contestants[at])
    )
    shared = {int(found.rank[at]): float(scored.scores[at]) for at in order}
    return tuple(
        Standing(
            contestant=data.contestants[at],
            rank=int(found.rank[at]),
            score=shared[int(found.rank[at])],
            low=float(scored.low[at]),
            high=float(scored.high[at]),
            standard_error=float(errors[at]),
            place_low=int(found.low[at]),
            place_high=int(found.high[at]),
            tier=int(found.tier[at]),
            wins=int(rates.wins[at]),
            losses=int(rates.losses[at]),
            ties=int(rates.ties[at]),
            win_rate=float(rates.rate[at]),
            win_rate_low=float(rates.low[at]),
            win_rate_high=float(rates.high[at]),
            bounded=at not in scored.unbounded,
        )
        for at in order
    )


def _cancelled(scored: Scored, kind: ClusterKind) -> Iterator[str]:
    """Yield for how many no two clusters differ, and what their intervals are instead."""
    if many := scored.covariance.cancelled:
        inside = "comparison" if kind == "row" else kind
        whose = "their intervals are" if many > 1 else "the interval is"
        yield (
            f"the answers about {counted(many, 'contestant')} cancel out inside every {inside}: {whose} as wide as "
            "independent comparisons would be"
        )


def _warnings(data: Comparisons, options: RankingOptions, kind: ClusterKind) -> Iterator[str]:
    """Yield what a reader must know whatever the method."""
    if kind == "row" and options.cluster != "row" and len(data) > len(np.unique(data.pair.codes)):
        yield "too few pairs to see how a pair's comparisons depend on one another: each counts as independent"
    if data.unranked:
        yield left(data.unranked)
