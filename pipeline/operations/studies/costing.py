"""What a plan would probably cost, run by run, at the prices of a day."""

from collections.abc import Container, Iterable
from datetime import date

import msgspec

from pipeline.domain import Judge
from pipeline.ids import RunId
from pipeline.operations.studies.plans import Plan, RunPlan
from pipeline.prices import Estimate, Load, Span, answer_tokens, estimate, in_all, terms_of, usd_span
from pipeline.tasks import task_named
from pipeline.wording import and_more

PRICE_REMEDY = (
    "add `price: {input: …, output: …}` at the judge, in USD for a million tokens (0 for a model of your own)"
)


class RunEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would probably cost if each answer has so many tokens; no `cost` where a price is not known."""

    run_id: RunId
    judge: Judge
    answer: Span
    cost: Estimate | None


class PlanEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole plan would probably cost."""

    runs: tuple[RunEstimate, ...]

    @property
    def total(self) -> Estimate:
        """The sum over the runs whose prices are known."""
        return in_all(run.cost for run in self.runs if run.cost is not None)

    @property
    def unpriced(self) -> list[Judge]:
        """One judge for each provider, model and mode without a known price."""
        found = {_named(run.judge): run.judge for run in self.runs if run.cost is None}
        return list(found.values())

    def of(self, runs: Container[RunId]) -> "PlanEstimate":
        """Return the same of these runs alone."""
        return PlanEstimate(runs=tuple(run for run in self.runs if run.run_id in runs))


def estimated(planned: Plan, day: date) -> PlanEstimate:
    """Return what the plan would probably cost on that day."""
    return PlanEstimate(runs=tuple(_estimated(planned, run, day) for run in planned.runs))


def _estimated(planned: Plan, run: RunPlan, day: date) -> RunEstimate:
    judge, later = run.config.judge, run.later
    load = Load(requests=run.config.requests - later, later=later, bytes=run.bytes, largest=run.largest)
    answer = answer_tokens(judge, writes="answer" not in task_named(run.config.task).KEYS)
    terms = terms_of(judge.provider, judge.model, judge.mode, own=planned.experiment.prices or ())
    cost = estimate(load, answer, terms, day)
    return RunEstimate(run_id=run.config.run_id, judge=judge, answer=answer, cost=cost)


def told_estimate(found: PlanEstimate) -> str:
    """Return what all would probably cost in one line, and for which judges nobody knows."""
    unknown = f"not known for {names_of(found.unpriced)}" if found.unpriced else ""
    if all(run.cost is None for run in found.runs):
        return unknown
    total = found.total
    known = f"{usd_span(total.low, total.high)} at prices {total.prices}, an estimate, not a bill"
    return f"{known}; {unknown}" if unknown else known


def _named(judge: Judge) -> str:
    return f"{judge.provider} {judge.model} ({judge.mode})"


def names_of(judges: Iterable[Judge]) -> str:
    """Return the judges whose prices are not known, as one reads them aloud."""
    return and_more([_named(judge) for judge in judges], most=3)
