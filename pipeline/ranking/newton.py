"""Bradley-Terry by Newton's method on summed-up cells.

A comparison's log-odds are the difference of two scores plus covariates (a judge's preference for the first position, a
difference in length). Ties count half to each side, or follow Davidson (1970): their odds are `nu` times the geometric
mean of the two sides' odds. Both likelihoods are concave, so the end does not depend on the start.
"""

from typing import Literal

import msgspec
import numpy as np

from pipeline.ranking.cells import Cells
from pipeline.ranking.columns import Floats
from pipeline.ranking.laplacian import Laplacian, centred, gaps, outflow

TieModel = Literal["half", "davidson"]
_STEPS = 60
_CLOSE = 1e-6  # the step from there is exact to its square
_SHORTEST = 1e-6
_FARTHEST = 25.0  # log-odds that no number of comparisons can show: whoever gets there is running away


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Which likelihood is fitted; `ridge` weighs half the squares of scores and effects against it."""

    ties: TieModel = "half"
    ridge: float = 0.0


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """The best scores (mean zero) and effects: one for each covariate and, with Davidson, the log of `nu` last.

    `settled` is false where there are none because the odds grow without end: scores and effects together tell some
    comparisons' winners without fail.
    """

    scores: Floats
    effects: Floats
    settled: bool = True


class Moments(msgspec.Struct, frozen=True, kw_only=True):
    """What the model expects of one comparison: mean and variance of the score and of being a tie."""

    score: Floats
    variance: Floats
    tie: Floats
    shared: Floats


def moments(odds: Floats, log_nu: float | None) -> Moments:
    """Return what is expected at these log-odds; no ties are modelled where `log_nu` is None."""
    if log_nu is None:
        score = 1.0 / (1.0 + np.exp(-odds))
        nothing = np.zeros(0)
        return Moments(score=score, variance=score * (1.0 - score), tie=nothing, shared=nothing)
    peak = np.maximum(np.abs(odds) / 2, log_nu)
    win, loss, even = np.exp(odds / 2 - peak), np.exp(-odds / 2 - peak), np.exp(log_nu - peak)
    whole = win + loss + even
    tie = even / whole
    score = win / whole + tie / 2
    return Moments(score=score, variance=win / whole + tie / 4 - score**2, tie=tie, shared=tie * (0.5 - score))


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """The log-likelihood around a point: slope, curvature in blocks (scores, effects, both), the largest odds."""

    slope: Floats
    effect_slope: Floats
    graph: Laplacian
    mixed: Floats
    inner: Floats
    farthest: float


def split(model: Model, effects: Floats) -> tuple[Floats, float | None]:
    """Return the covariates' effects and the log of `nu`."""
    return (effects[:-1], float(effects[-1])) if model.ties == "davidson" else (effects, None)


def curve(cells: Cells, model: Model, scores: Floats, effects: Floats) -> Curve:
    """Return slope and curvature at the point."""
    slopes, log_nu = split(model, effects)
    odds = gaps(cells, scores)
    if cells.extra.shape[1]:
        odds += cells.extra @ slopes
    seen = moments(odds, log_nu)
    rest = cells.score - cells.total * seen.score
    weights = cells.total * seen.variance
    columns = [outflow(cells, weights * column) for column in cells.extra.T]
    inner = cells.extra.T @ (weights[:, None] * cells.extra) + model.ridge * np.eye(len(slopes))
    effect_slope = cells.extra.T @ rest - model.ridge * slopes
    if log_nu is not None:
        shared = cells.total * seen.shared
        columns.append(outflow(cells, shared))
        side = cells.extra.T @ shared
        corner = float(cells.total @ (seen.tie * (1 - seen.tie))) + model.ridge
        inner = np.block([[inner, side[:, None]], [side[None, :], np.array([[corner]])]])
        pull = cells.ties.sum() - float(cells.total @ seen.tie) - model.ridge * log_nu
        effect_slope = np.append(effect_slope, pull)
    return Curve(
        slope=outflow(cells, rest) - model.ridge * scores,
        effect_slope=effect_slope,
        graph=Laplacian(cells=cells, weights=weights, ridge=model.ridge),
        mixed=np.stack(columns, axis=1) if columns else np.empty((cells.contestants, 0)),
        inner=inner,
        farthest=float(np.abs(odds).max(initial=0.0)),
    )


def newton_step(at: Curve, *, tolerance: float) -> tuple[Floats, Floats]:
    """Return the step of scores and effects to the top of the parabola."""
    solved = at.graph.solve(np.column_stack([at.slope, at.mixed]), tolerance=tolerance)
    plain, bent = solved[:, 0], solved[:, 1:]
    if not bent.shape[1]:
        return plain, np.zeros(0)
    schur = at.inner - at.mixed.T @ bent
    effects = np.linalg.solve(schur, at.effect_slope - at.mixed.T @ plain).astype(np.float64, copy=False)
    return plain - bent @ effects, effects


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Scores and effects, and how the log-likelihood looks there."""

    scores: Floats
    effects: Floats
    view: Curve


def fit(cells: Cells, model: Model, *, start: Fit | None = None) -> Fit:
    """Return the best scores and effects; the design must be connected and, without ridge, determined.

    Covariates can tell winners that scores alone cannot: then the fit is not settled.
    """
    extra = cells.extra.shape[1] + (model.ties == "davidson")
    scores = np.zeros(cells.contestants) if start is None else start.scores
    effects = np.zeros(extra) if start is None else start.effects
    point = Point(scores=scores, effects=effects, view=curve(cells, model, scores, effects))
    tolerance = 0.1
    for _ in range(_STEPS):
        step, shift = newton_step(point.view, tolerance=tolerance)
        width = float(np.ptp(step)) + float(np.abs(shift).sum())
        if width <= _CLOSE:
            break
        if point.view.farthest > _FARTHEST and not model.ridge:
            return Fit(scores=point.scores, effects=point.effects, settled=False)
        point = _advance(cells, model, point, step, shift)
        tolerance = min(0.1, max(width * 0.01, 1e-8))
    return Fit(scores=centred(point.scores + step), effects=point.effects + shift)


def _advance(cells: Cells, model: Model, point: Point, step: Floats, shift: Floats) -> Point:
    """Return the point one step on; a step that would end far down the other side of the hill is halved."""
    promised = _rise(point.view, step, shift)
    length = 1.0
    while True:
        scores, effects = centred(point.scores + length * step), point.effects + length * shift
        there = curve(cells, model, scores, effects)
        if _rise(there, step, shift) >= -promised / 2 or length < _SHORTEST:
            return Point(scores=scores, effects=effects, view=there)
        length /= 2


def _rise(at: Curve, step: Floats, shift: Floats) -> float:
    """Return how fast the log-likelihood grows along the step."""
    return float(at.slope @ step) + float(at.effect_slope @ shift)
