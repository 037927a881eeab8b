"""What a study will cost and has cost, in words for people and in fields for programs."""

from pipeline.cli.screen import complain, say
from pipeline.operations.studies.costing import PRICE_REMEDY, PlanEstimate, RunEstimate, names_of
from pipeline.prices import Estimate, Span, as_number, usd_span
from pipeline.wording import and_more

_NOT_KNOWN = "not known"


def cost_cells(found: PlanEstimate) -> dict[str, str]:
    """Return what stands in the column of costs, for each run and for all."""
    cells = {str(run.run_id): _cell(run.cost) for run in found.runs}
    priced = any(run.cost for run in found.runs)
    return {**cells, "all": _cell(found.total if priced else None)}


def _cell(cost: Estimate | None) -> str:
    return _NOT_KNOWN if cost is None else usd_span(cost.low, cost.high)


def cost_in_words(found: PlanEstimate) -> str:
    """Return what stands behind a number of requests: what they cost, as far as prices are known; nothing of none."""
    if not any(run.cost for run in found.runs):
        return ""
    without = ", those without a known price left out" if found.unpriced else ""
    return f", for ≈ {_cell(found.total)}{without}"


def tell_estimate(found: PlanEstimate) -> None:
    """Say what the estimate is made of, and which prices it lacks."""
    priced = [run for run in found.runs if run.cost is not None]
    if priced:
        say(f"≈ USD is an estimate at prices {found.total.prices}, not a bill, without what is sent again")
        say("input: 3 to 4 bytes a token; output, thoughts included, is assumed:")
        for span, judges in _assumed(priced).items():
            say(f"  {_tokens(span)} a request: {and_more(judges, most=3)}")
        if any(run.judge.max_output_tokens is None for run in priced):
            say("  (`max_output_tokens` at a judge bounds it)")
    if found.unpriced:
        without = "; the sum is without it" if priced else ""
        complain(f"no price is known for {names_of(found.unpriced)}: {PRICE_REMEDY}{without}", title="note")


def _tokens(span: Span) -> str:
    return f"{span.low:,} to {span.high:,} tokens" if span.low < span.high else f"{span.high:,} tokens"


def _assumed(runs: list[RunEstimate]) -> dict[Span, list[str]]:
    """Return which judges are assumed to write how much."""
    found: dict[Span, dict[str, None]] = {}
    for run in runs:
        found.setdefault(run.answer, {})[f"{run.judge.model} ({run.judge.reasoning})"] = None
    return {span: list(judges) for span, judges in found.items()}


def cost_fields(run: RunEstimate) -> dict[str, object]:
    """Return what `plan --json` says of a run's cost."""
    assumed = {"low": run.answer.low, "high": run.answer.high}
    return {"cost_usd": _ends(run.cost) if run.cost else None, "output_tokens_a_request": assumed}


def total_fields(found: PlanEstimate) -> dict[str, object]:
    """Return what `plan --json` says of the cost of all: the sum over runs whose price is known, and which are not."""
    judges = [{"provider": each.provider, "model": each.model, "mode": each.mode} for each in found.unpriced]
    return {"cost_usd": _ends(found.total), "cost_without": judges, "prices_as_of": found.total.dates}


def _ends(cost: Estimate) -> dict[str, object]:
    return {"low": as_number(cost.low), "high": as_number(cost.high)}
