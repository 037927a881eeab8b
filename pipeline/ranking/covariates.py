"""What besides the contestants may sway a judge: the first position, and length."""

from collections.abc import Mapping

import numpy as np

from pipeline.ranking.cells import Cells, Strata
from pipeline.ranking.columns import Comparisons
from pipeline.ranking.newton import Model, curve

_SMALLEST_SHARE = 1e-6


def covariates(data: Comparisons, *, position: bool, lengths: Mapping[str, float] | None) -> Strata | str | None:
    """Return the strata of the model's covariates, None if it has none, or why they cannot be had.

    Position is one covariate for each judge; length is one for all, in units of a doubling.
    """
    parts: list[Strata] = []
    if position:
        judges = data.judge
        parts.append(
            Strata(
                names=tuple(f"first position: {label}" for label in judges.labels),
                codes=judges.codes,
                values=np.eye(len(judges.labels)),
            )
        )
    if lengths is not None:
        found = _length(data, lengths)
        if isinstance(found, str):
            return found
        parts.append(found)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else _joined(parts[0], parts[1])


def determined(cells: Cells, model: Model) -> list[int]:
    """Return which covariates the data can tell from the scores, taken one after the other."""
    count = cells.extra.shape[1]
    start = curve(cells, Model(ridge=model.ridge), np.zeros(cells.contestants), np.zeros(count))
    bent = start.graph.solve(start.mixed, tolerance=1e-10)
    schur = start.inner - start.mixed.T @ bent
    kept: list[int] = []
    for place in range(count):
        rest = float(schur[place, place])
        if kept:
            side = schur[kept, place]
            rest -= float(side @ np.linalg.solve(schur[np.ix_(kept, kept)], side))
        if rest > _SMALLEST_SHARE * max(float(start.inner[place, place]), 1e-300):
            kept.append(place)
    return kept


def _length(data: Comparisons, lengths: Mapping[str, float]) -> Strata | str:
    """Return how many doublings the first sample is longer than the second."""
    names = data.first_sample.labels
    missing = next((name for name in names if name not in lengths), None)
    if missing is not None:
        return f"the length of sample {missing} is not known: give the samples that were compared"
    known = np.array([lengths[name] for name in names], dtype=np.float64)
    wrong = np.flatnonzero(~(np.isfinite(known) & (known >= 0)))
    if len(wrong):
        return f"the length of sample {names[wrong[0]]} is not a number of at least 0: {known[wrong[0]]}"
    doublings = np.log2(known + 1)
    difference = doublings[data.first_sample.codes] - doublings[data.second_sample.codes]
    values, codes = np.unique(difference, return_inverse=True)
    return Strata(names=("length (per doubling)",), codes=codes, values=values[:, None])


def _joined(one: Strata, other: Strata) -> Strata:
    """Return both sets of covariates side by side, with a stratum for each combination that occurs."""
    both = one.codes.astype(np.int64) * len(other.values) + other.codes
    used, codes = np.unique(both, return_inverse=True)
    left, right = np.divmod(used, len(other.values))
    values = np.hstack([one.values[left], other.values[right]])
    return Strata(names=one.names + other.names, codes=codes, values=values)
