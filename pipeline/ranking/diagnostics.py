"""From a table of comparisons to what there is to know about its judges."""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from pipeline.ranking.agreement import agreements, alpha, verdicts
from pipeline.ranking.bradley_terry import MILD
from pipeline.ranking.cells import sum_up
from pipeline.ranking.columns import Comparisons, read
from pipeline.ranking.connectivity import examine
from pipeline.ranking.cycles import cycles
from pipeline.ranking.findings import Calibration, Diagnostics, Influence, JudgeFindings, Residual
from pipeline.ranking.influence import calibration, influence, residuals
from pipeline.ranking.makers import self_preferences
from pipeline.ranking.newton import Model, fit
from pipeline.ranking.steadiness import judge_findings
from pipeline.wording import counted

_DOUBT = 0.05
_STEADY = 0.7
_READABLE = 0.95
ALL_JUDGES = "all judges"


def diagnose(
    table: pa.Table, *, by: str = "contestant", lengths: Mapping[str, float] | None = None, seed: int = 0
) -> Diagnostics:
    """Return the judges' diagnostics; what the table cannot tell is None or empty, never a made-up number."""
    data = read(table, by=by)
    judges = judge_findings(table, data, lengths)
    given = verdicts(data)
    single = [cycles(data.take(data.judge.codes == code), judge=label) for code, label in enumerate(data.judge.labels)]
    held, worst, steps = _fit_findings(data)
    return Diagnostics(
        judges=judges,
        agreements=agreements(given, data.judge.labels, seed=seed),
        alpha=alpha(given, seed=seed),
        self_preferences=self_preferences(data),
        cycles=(*single, cycles(data, judge=ALL_JUDGES)) if len(single) > 1 else tuple(single),
        influence=held,
        residuals=worst,
        calibration=steps,
        warnings=tuple(_warnings(judges)),
    )


def doubts(table: pa.Table, *, by: str = "contestant") -> tuple[str, ...]:
    """Return the warnings of `diagnose` alone, a sentence for each judge: at a small part of its cost."""
    return tuple(_warnings(judge_findings(table, read(table, by=by), None)))


def _fit_findings(data: Comparisons) -> tuple[Influence | None, tuple[Residual, ...], tuple[Calibration, ...]]:
    """Return what needs fitted scores; nothing where they cannot be had."""
    if not len(data) or bool(np.all(data.halves == 1)):
        return None, (), ()
    cells = sum_up(data.first, data.second, data.halves, contestants=len(data.contestants))
    links = examine(cells)
    if not links.connected:
        return None, (), ()
    model = Model(ridge=0.0 if links.determined else MILD)
    found = fit(cells, model)
    return (
        influence(data, cells, found, model),
        residuals(data.contestants, cells, found),
        calibration(cells, found),
    )


def _warnings(judges: tuple[JudgeFindings, ...]) -> list[str]:
    """Return a sentence for each judge about which a reader must know something."""
    several = len({found.template for found in judges}) > 1
    said = []
    for found in judges:
        name = f"{found.judge} with template {found.template}" if several and found.template else found.judge
        faults = list(_faults(found))
        if faults:
            said.append(f"{name} {'; it '.join(faults)}")
    return said


def _faults(found: JudgeFindings) -> Iterator[str]:
    bias = found.position
    if bias is not None and bias.p_value < _DOUBT:
        place = "first" if bias.to_first > bias.to_second else "second"
        likely = f"p = {bias.p_value:.2g}" if bias.p_value >= 1e-4 else "p < 0.0001"
        yield (
            f"favours the {place} position: the sample there won {max(bias.to_first, bias.to_second):,} of the "
            f"{bias.to_first + bias.to_second:,} pairs whose winner changed with the order ({likely})"
        )
    if found.consistency is not None and found.consistency.share < _STEADY:
        kept, pairs = found.consistency.share, counted(found.consistency.count, "pair")
        yield f"kept its winner in {f'only {100 * kept:.0f} %' if kept else 'none'} of {pairs} judged in both orders"
    read = sum(found.statuses.get(status, 0) for status in ("ok", "inapplicable"))
    asked = found.rows - found.statuses.get("cancelled", 0)  # a person's doing, not the judge's
    if read < _READABLE * asked:
        yield f"gave a readable answer to only {read:,} of {asked:,} requests"
