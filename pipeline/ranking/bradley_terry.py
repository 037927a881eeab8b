"""Bradley-Terry from rows to scores with intervals: what the data cannot determine is said or left out."""

from collections.abc import Mapping

import msgspec
import numpy as np

from pipeline.ranking import connectivity
from pipeline.ranking.bootstrap import bias_corrected, bootstrap
from pipeline.ranking.cells import Cells, Strata, sum_up
from pipeline.ranking.columns import Comparisons, Floats
from pipeline.ranking.covariates import covariates, determined
from pipeline.ranking.leverage import Rows
from pipeline.ranking.newton import Fit, Model, curve, fit
from pipeline.ranking.uncertainty import EXACT_LIMIT, Covariance, critical, sandwich
from pipeline.ranking.values import Effect, RankingOptions

MILD = 0.1  # a standard deviation of about three log-odds: felt only where the data say nothing
_RUNAWAY = "together with a preference for a position or for length, some scores predict every winner and have no limit"


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """Scores with intervals, whatever method gave them."""

    scores: Floats
    low: Floats
    high: Floats
    covariance: Covariance
    effects: tuple[Effect, ...] = ()
    ridge: float = 0.0
    unbounded: frozenset[int] = frozenset()
    warnings: tuple[str, ...] = ()


def bradley_terry(
    data: Comparisons,
    rows: Rows,
    links: connectivity.Connectivity,
    options: RankingOptions,
    *,
    lengths: Mapping[str, float] | None = None,
) -> Scored | str:
    """Return fitted scores with intervals, or the sentence why they cannot be fitted."""
    cells = _summed(rows, contestants=len(data.contestants))
    warnings = connectivity.separation_warnings(links, data.contestants)
    ridge = _ridge(options, is_needed=not links.determined)
    if not links.determined:
        if ridge == 0:
            return "; ".join(warnings) + ": allow a regularisation above 0 or add comparisons"
        warnings.append(
            f"a regularisation of {ridge:g} keeps such scores finite: how far out they lie is its doing, not the data's"
        )
    model = Model(ties=options.ties if bool((data.halves == 1).any()) else "half", ridge=ridge)
    strata = covariates(data, position=options.position, lengths=lengths)
    if isinstance(strata, str):
        return strata
    if strata is not None:
        strata, dropped = _told_apart(rows, strata, model, contestants=cells.contestants)
        warnings += [f"{name} cannot be told from the scores and was left out" for name in dropped]
        rows = msgspec.structs.replace(rows, strata=strata)
        cells = _summed(rows, contestants=cells.contestants)
    found = fit(cells, model)
    if not found.settled:
        if options.regularisation is not None:
            return f"{_RUNAWAY}: allow a regularisation above 0 or add comparisons"
        model = msgspec.structs.replace(model, ridge=MILD)
        found = fit(cells, model)
        warnings.append(f"{_RUNAWAY}: a regularisation of {MILD:g} keeps them finite")
    scored = _with_intervals(rows, cells, model, found, options)
    if not scored.covariance.exact:
        warnings.append(f"above {EXACT_LIMIT} contestants standard errors leave out the covariances of scores")
    free = np.flatnonzero(links.unbounded).tolist() if not links.determined else []
    return msgspec.structs.replace(scored, ridge=model.ridge, unbounded=frozenset(free), warnings=tuple(warnings))


def _ridge(options: RankingOptions, *, is_needed: bool) -> float:
    """Return the regularisation that was asked for; where none was, a mild one if it is needed."""
    if options.regularisation is not None:
        return options.regularisation
    return MILD if is_needed else 0.0


def _summed(rows: Rows, *, contestants: int) -> Cells:
    return sum_up(rows.first, rows.second, rows.halves, contestants=contestants, strata=rows.strata)


def _told_apart(rows: Rows, strata: Strata, model: Model, *, contestants: int) -> tuple[Strata | None, list[str]]:
    """Return the covariates that the data can tell from the scores, and the names of the others."""
    kept = determined(_summed(msgspec.structs.replace(rows, strata=strata), contestants=contestants), model)
    return strata.only(kept), strata.without(kept)


def _with_intervals(rows: Rows, cells: Cells, model: Model, found: Fit, options: RankingOptions) -> Scored:
    """Return the fitted scores and effects with the intervals asked for."""
    covariance = sandwich(rows, curve(cells, model, found.scores, found.effects), found, model)
    values = np.concatenate([found.scores, found.effects])
    errors = np.sqrt(np.concatenate([covariance.scores, covariance.effects]))
    reach = critical(options.confidence, covariance.clusters) * errors
    low, high = values - reach, values + reach
    if options.intervals == "bootstrap":
        drawn = bootstrap(rows, cells, found, model, rounds=options.rounds, seed=options.seed)
        ends = bias_corrected(drawn, values, confidence=options.confidence)
        is_floored = model.ridge > 0 or covariance.cancelled > 0
        low, high = (np.minimum(low, ends[0]), np.maximum(high, ends[1])) if is_floored else ends
    size = len(found.scores)
    return Scored(
        scores=found.scores,
        low=low[:size],
        high=high[:size],
        covariance=covariance,
        effects=_effects(rows, model, found, low[size:], high[size:]),
    )


def _effects(rows: Rows, model: Model, found: Fit, low: Floats, high: Floats) -> tuple[Effect, ...]:
    names = (rows.strata.names if rows.strata else ()) + (("ties",) if model.ties == "davidson" else ())
    return tuple(
        Effect(name=name, value=float(found.effects[at]), low=float(low[at]), high=float(high[at]))
        for at, name in enumerate(names)
    )
