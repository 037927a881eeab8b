"""Several judges as one panel: by majority, one vote a judge and pair; or by a model of how sharply each judge sees."""

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.ranking.agreement import verdicts
from pipeline.ranking.bradley_terry import MILD
from pipeline.ranking.cells import Cells, Strata, Whole, sum_up
from pipeline.ranking.columns import Comparisons, Factor, Floats, read
from pipeline.ranking.connectivity import examine
from pipeline.ranking.draws import permutation
from pipeline.ranking.laplacian import Laplacian, centred, gaps, outflow
from pipeline.ranking.newton import Curve, moments, newton_step
from pipeline.ranking.rankings import cluster_kind, clusters, rank_comparisons
from pipeline.ranking.uncertainty import FULL_LIMIT, critical
from pipeline.ranking.values import Ranking, RankingOptions, Unrankable

_STEPS = 100
_CLOSE = 1e-8
_SAME = 1e-6  # what fitting leaves of a difference where there is none
_FOLDS = 20
_NEAR_ONE, _NEAR_NONE = 1.0, 0.01  # weights of half the squares of sharpness - 1 and of position bias
_DULLEST = 0.01


class JudgeSharpness(msgspec.Struct, frozen=True, kw_only=True):
    """How strongly a judge follows the common scores (1 is the panel's average), and what standing first is worth."""

    judge: str
    sharpness: float
    first_place: float


class PanelStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant's place and common score; no interval where no comparison links parts of the study."""

    contestant: str
    rank: int
    score: float
    low: float | None
    high: float | None


class PanelModel(msgspec.Struct, frozen=True, kw_only=True):
    """Common scores in which a sharp judge counts for more, best contestant first."""

    standings: tuple[PanelStanding, ...]
    judges: tuple[JudgeSharpness, ...]


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """What several judges say together, twice: by majority and by model."""

    majority: Ranking | Unrankable
    model: PanelModel | Unrankable


class _Judged(msgspec.Struct, frozen=True, kw_only=True):
    """Scores, and each judge's sharpness and preference for the first position."""

    scores: Floats
    sharp: Floats
    first: Floats


def panel(table: pa.Table, options: RankingOptions | None = None) -> Panel | None:
    """Return the panel's two rankings; None where fewer than two judges gave a readable answer."""
    options = options or RankingOptions()
    data = read(table, by=options.by)
    if len(np.unique(data.judge.codes)) < 2:
        return None
    return Panel(majority=_majority(data, options), model=_model(data, options))


def _majority(data: Comparisons, options: RankingOptions) -> Ranking | Unrankable:
    plain = msgspec.structs.replace(options, position=False)
    return rank_comparisons(_voted(data) if len(data) else data, plain)


def _model(data: Comparisons, options: RankingOptions) -> PanelModel | Unrankable:
    """Return common scores with a sharpness and a position bias for each judge.

    A mild penalty holds sharpness near 1 and scores near 0, so that a judge without a flaw has no infinite sharpness.
    """
    plain = rank_comparisons(data, RankingOptions(by=options.by))
    if isinstance(plain, Unrankable):
        return plain
    found = _fitted(data, np.ones(len(data), dtype=bool))
    error = _jackknife(data, found, options) if len(data.contestants) <= FULL_LIMIT else None
    rank = 1 + np.searchsorted(np.sort(-found.scores), -found.scores - _SAME)
    order = np.argsort(rank, kind="stable")
    reach = None if error is None else critical(options.confidence, _FOLDS) * error
    return PanelModel(
        standings=tuple(
            PanelStanding(
                contestant=data.contestants[at],
                rank=int(rank[at]),
                score=float(found.scores[at]),
                low=None if reach is None else float(found.scores[at] - reach[at]),
                high=None if reach is None else float(found.scores[at] + reach[at]),
            )
            for at in order.tolist()
        ),
        judges=tuple(
            JudgeSharpness(judge=name, sharpness=float(found.sharp[at]), first_place=float(found.first[at]))
            for at, name in enumerate(data.judge.labels)
        ),
    )


def _jackknife(data: Comparisons, found: _Judged, options: RankingOptions) -> Floats | None:
    """Return standard errors from fits without a twentieth of the clusters each; None where one falls apart."""
    cluster = clusters(data, cluster_kind(data, options))
    fold = permutation(options.seed, 0, int(cluster.max()) + 1)[cluster] % _FOLDS
    scores = []
    for number in range(_FOLDS):
        kept = fold != number
        size = len(data.contestants)
        if (
            not kept.any()
            or not examine(sum_up(data.first[kept], data.second[kept], data.halves[kept], contestants=size)).connected
        ):
            return None
        scores.append(_fitted(data, kept, start=found).scores)
    return np.asarray(np.std(scores, axis=0) * np.sqrt(_FOLDS - 1))


def _fitted(data: Comparisons, kept: npt.NDArray[np.bool_], *, start: _Judged | None = None) -> _Judged:
    """Return the model fitted to some of the comparisons."""
    judges = data.judge.count
    strata = Strata(
        names=data.judge.labels,
        codes=data.judge.codes[kept],
        values=np.arange(judges, dtype=np.float64)[:, None],
    )
    size = len(data.contestants)
    cells = sum_up(data.first[kept], data.second[kept], data.halves[kept], contestants=size, strata=strata)
    judge, sign = cells.stratum // 2, np.where(cells.stratum % 2, -1.0, 1.0)
    begin = start or _Judged(scores=np.zeros(size), sharp=np.ones(judges), first=np.zeros(judges))
    return _climb(cells, judge, sign, begin)


def _voted(data: Comparisons) -> Comparisons:
    """Return one row for each pair: the majority of the judges' verdicts, as seen from the lower sample id."""
    given = verdicts(data)
    votes = np.sign(np.where(np.abs(given) == 1, given, 0).sum(axis=1))
    _, rows = np.unique(data.pair.codes, return_index=True)
    some = data.take(rows)
    leaning = votes[some.pair.codes]
    halves = np.where(some.turned, 1 - leaning, 1 + leaning).astype(np.int8)
    panel = Factor(names=pa.array(["panel"]), codes=np.zeros(len(rows), dtype=np.int32))
    return msgspec.structs.replace(some, halves=halves, judge=panel, excluded=data.excluded, unranked=data.unranked)


def _climb(cells: Cells, judge: Whole, sign: Floats, begin: _Judged) -> _Judged:
    """Return scores, sharpness and position bias by Fisher scoring on all of them together."""
    ridge = 1e-3 if examine(cells).determined else MILD
    scores, effects = begin.scores, np.concatenate([begin.sharp, begin.first])
    judges = len(begin.sharp)
    for _ in range(_STEPS):
        view = _view(cells, judge, sign, scores, effects.reshape(2, judges), ridge=ridge)
        step, shift = newton_step(view, tolerance=1e-8)
        length = min(1.0, 0.5 / max(float(np.abs(shift).max()), float(np.ptp(step)) / 2, 1e-300))
        scores = centred(scores + length * step)
        effects = effects + length * shift
        effects[:judges] = np.maximum(effects[:judges], _DULLEST)
        if max(float(np.abs(step).max()), float(np.abs(shift).max())) < _CLOSE:
            break
    sharp, first = effects.reshape(2, judges)
    average = float(np.exp(np.log(sharp).mean()))
    return _Judged(scores=scores * average, sharp=sharp / average, first=first)


def _view(cells: Cells, judge: Whole, sign: Floats, scores: Floats, effects: Floats, *, ridge: float) -> Curve:
    """Return slope and expected curvature; effects are every judge's sharpness, then every judge's position bias."""
    sharp, first = effects
    judges = len(sharp)
    gap = gaps(cells, scores)
    odds = sharp[judge] * gap + first[judge] * sign
    seen = moments(odds, None)
    rest, weight = cells.score - cells.total * seen.score, cells.total * seen.variance

    def total(values: Floats) -> Floats:
        return np.bincount(judge, values, judges).astype(np.float64, copy=False)

    bent = [sharp[judge] * weight * by * (judge == one) for by in (gap, sign) for one in range(judges)]
    shared = np.diag(total(weight * gap * sign))
    inner = np.block(
        [[np.diag(total(weight * gap**2) + _NEAR_ONE), shared], [shared, np.diag(total(weight) + _NEAR_NONE)]]
    )
    pulls = [total(rest * gap) - _NEAR_ONE * (sharp - 1), total(rest * sign) - _NEAR_NONE * first]
    return Curve(
        slope=outflow(cells, sharp[judge] * rest) - ridge * scores,
        effect_slope=np.concatenate(pulls),
        graph=Laplacian(cells=cells, weights=sharp[judge] ** 2 * weight, ridge=ridge),
        mixed=np.stack([outflow(cells, column) for column in bent], axis=1),
        inner=inner,
        farthest=float(np.abs(odds).max(initial=0.0)),
    )
