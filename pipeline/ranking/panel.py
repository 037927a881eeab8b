"""Several judges as one panel: by majority, one vote a judge and pair; or by a model of how sharply each judge sees."""

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.ranking.agreement import verdicts
from pipeline.ranking.bradley_terry import MILD
from pipeline.ranking.cells import Cells, Strata, Whole, sum_up
from pipeline.ranking.columns import Comparisons, Factor, Floats, read
from pipeline.ranking.connectivity import examine
from pipeline.ranking.laplacian import Laplacian, centred, gaps, outflow
from pipeline.ranking.newton import moments
from pipeline.ranking.rankings import rank_comparisons
from pipeline.ranking.values import Ranking, RankingOptions, Unrankable

_TURNS = 500
_CLOSE = 1e-9


class JudgeSharpness(msgspec.Struct, frozen=True, kw_only=True):
    """How strongly a judge follows the common scores (1 is the panel's average), and its liking for the first place."""

    judge: str
    sharpness: float
    first_place: float


class PanelModel(msgspec.Struct, frozen=True, kw_only=True):
    """Common scores in which a sharp judge counts for more, best contestant first."""

    scores: dict[str, float]
    judges: tuple[JudgeSharpness, ...]


def panel_majority(table: pa.Table, options: RankingOptions | None = None) -> Ranking | Unrankable:
    """Return the ranking by the panel's majority verdicts, one comparison for each pair of samples."""
    options = options or RankingOptions()
    data = read(table, by=options.by)
    return rank_comparisons(_voted(data), options) if len(data) else rank_comparisons(data, options)


def panel_model(table: pa.Table, *, by: str = "contestant") -> PanelModel | Unrankable:
    """Return common scores with a sharpness and a position bias for each judge.

    A mild penalty holds sharpness near 1 and scores near 0, so that a judge without a flaw has no infinite sharpness.
    """
    data = read(table, by=by)
    plain = rank_comparisons(data, RankingOptions(by="sample" if by == "sample" else "contestant"))
    if isinstance(plain, Unrankable):
        return plain
    judges = data.judge.labels
    strata = Strata(names=judges, codes=data.judge.codes, values=np.arange(len(judges), dtype=np.float64)[:, None])
    cells = sum_up(data.first, data.second, data.halves, contestants=len(data.contestants), strata=strata)
    judge, sign = cells.stratum // 2, np.where(cells.stratum % 2, -1.0, 1.0)
    scores, sharp, first = _alternate(cells, judge, sign, judges=len(judges))
    order = np.argsort(-scores, kind="stable")
    return PanelModel(
        scores={data.contestants[at]: float(scores[at]) for at in order.tolist()},
        judges=tuple(
            JudgeSharpness(judge=name, sharpness=float(sharp[at]), first_place=float(first[at]))
            for at, name in enumerate(judges)
        ),
    )


def _voted(data: Comparisons) -> Comparisons:
    """Return one row for each pair: the majority of the judges' verdicts, as seen from the lower sample id."""
    given = verdicts(data)
    votes = np.sign(np.where(np.abs(given) == 1, given, 0).sum(axis=1))
    _, rows = np.unique(data.pair.codes, return_index=True)
    some = data.take(rows)
    leaning = votes[some.pair.codes]
    halves = np.where(some.turned, 1 - leaning, 1 + leaning).astype(np.int8)
    panel = Factor(labels=("panel",), codes=np.zeros(len(rows), dtype=np.int32))
    return msgspec.structs.replace(some, halves=halves, judge=panel, excluded=data.excluded, unranked=data.unranked)


def _alternate(cells: Cells, judge: Whole, sign: Floats, *, judges: int) -> tuple[Floats, Floats, Floats]:
    """Return scores, sharpness and position bias by turns of Newton steps on the scores and on the judges."""
    ridge = 1e-3 if examine(cells).determined else MILD
    scores, sharp, first = np.zeros(cells.contestants), np.ones(judges), np.zeros(judges)
    for _ in range(_TURNS):
        seen = moments(sharp[judge] * gaps(cells, scores) + first[judge] * sign, None)
        rest, weight = cells.score - cells.total * seen.score, cells.total * seen.variance
        slope = outflow(cells, sharp[judge] * rest) - ridge * scores
        graph = Laplacian(cells=cells, weights=sharp[judge] ** 2 * weight, ridge=ridge)
        step = graph.solve(slope[:, None], tolerance=1e-10)[:, 0]
        step *= min(1.0, 1.0 / max(float(np.ptp(step)), 1e-300))
        scores = centred(scores + step)
        moved = _judges_step(cells, judge, sign, gaps(cells, scores), np.stack([sharp, first]))
        sharp, first = np.maximum(sharp + moved[0], 0.01), first + moved[1]
        if max(float(np.abs(step).max()), float(np.abs(moved).max())) < _CLOSE:
            break
    average = float(np.exp(np.log(sharp).mean()))
    return scores * average, sharp / average, first


def _judges_step(cells: Cells, judge: Whole, sign: Floats, gap: Floats, effects: Floats) -> Floats:
    """Return one Newton step of every judge's sharpness and position bias, a row each, no longer than 0.5."""
    sharp, first = effects
    size = len(sharp)
    seen = moments(sharp[judge] * gap + first[judge] * sign, None)
    rest, weight = cells.score - cells.total * seen.score, cells.total * seen.variance

    def total(values: Floats) -> Floats:
        return np.bincount(judge, values, size).astype(np.float64, copy=False)

    slopes = np.stack([total(rest * gap) - (sharp - 1), total(rest * sign) - 0.01 * first], axis=1)
    mixed = total(weight * gap * sign)
    curvature = np.stack([total(weight * gap**2) + 1, mixed, mixed, total(weight) + 0.01], axis=1).reshape(size, 2, 2)
    step = np.linalg.solve(curvature, slopes[:, :, None])[:, :, 0].T
    return np.clip(step, -0.5, 0.5)
