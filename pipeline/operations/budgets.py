"""How much may be sent: the most requests or dollars a person agreed to, held against what would be asked for anew.

Requests count that nobody asked for yet, with the later turns that follow from them. What is at its provider, on its
way there or sent again does not: it was agreed to when it was asked for.
"""

from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction

import msgspec

from pipeline import planning
from pipeline.errors import ConfigError
from pipeline.ids import RunId
from pipeline.operations.by_segment import Chosen
from pipeline.operations.catalogue import planned_from_file
from pipeline.operations.studies.costing import PRICE_REMEDY, PlanEstimate, RunEstimate, estimated, names_of
from pipeline.operations.studies.growing import check_growth
from pipeline.operations.studies.plans import Plan
from pipeline.operations.workers.failures import apart
from pipeline.operations.workers.worker import Worker
from pipeline.prices import in_all, usd_limit, usd_span
from pipeline.segments import to_be_sent, to_be_sent_of_run
from pipeline.state import RunState
from pipeline.wording import and_more, counted


class Limits(msgspec.Struct, frozen=True):
    """What a person calls the most requests and the most dollars that may be sent."""

    requests: str
    cost: str


OF_COMMANDS = Limits("--most-requests", "--most-cost")


def check_budget(wanted: int, most: int | None, *, limit: str, remedy: str) -> None:
    """Raise ConfigError if more is wanted than `limit`, as the person calls it, allows."""
    if most is not None and wanted > most:
        raise ConfigError(
            f"{counted(wanted, 'request')} would be sent, but {limit} allows {most:,}; nothing was sent. {remedy}"
        )


def wanted_by(chosen: Iterable[Chosen]) -> int:
    """Return how many requests asking for these segments leads to."""
    return sum(to_be_sent(some.run.state, each) for some in chosen for each in some.segments())


def wanted_by_plan(worker: Worker, planned: Plan) -> int:
    """Return how many requests submitting the file leads to."""
    return sum(each.requests for each in _wanted_by_run(worker, planned).values())


def check_cost(worker: Worker, planned: Plan, most: Decimal, *, limit: str = OF_COMMANDS.cost) -> None:
    """Raise ConfigError if what submitting the file leads to may cost more, or nobody knows what it costs."""
    found = estimated(planned, worker.clock.now().date())
    remedy = "Raise it, lower max_output_tokens of the judges, or ask for less in the file"
    _check_cost(found, _wanted_by_run(worker, planned), most, limit=limit, remedy=remedy)


def check_cost_of(worker: Worker, chosen: Iterable[Chosen], most: Decimal, *, limit: str) -> None:
    """Raise ConfigError if asking for these segments may cost more, or nobody knows what: their files tell it."""
    asked = [some for some in chosen if any(to_be_sent(some.run.state, each) for each in some.segments())]
    wanted = {some.run.run_id: _wanted_of(some) for some in asked}
    runs: list[RunEstimate] = []
    for name in dict.fromkeys(some.run.experiment.name for some in asked):
        planned = planned_from_file(worker, name)
        if planned is None:
            raise ConfigError(f"{limit} needs the file of {name}, which is not here; nothing was sent")
        check_growth(worker, planned)
        runs += estimated(planned, worker.clock.now().date()).runs
    if gone := sorted(wanted.keys() - {run.run_id for run in runs}):
        raise ConfigError(f"{limit} needs a file that names {and_more(gone)}; nothing was sent")
    found = PlanEstimate(runs=tuple(runs))
    _check_cost(found, wanted, most, limit=limit, remedy="Raise it, or choose fewer segments")


def _check_cost(
    estimates: PlanEstimate, wanted: Mapping[RunId, "_Wanted"], most: Decimal, *, limit: str, remedy: str
) -> None:
    found = estimates.of(wanted)
    if found.unpriced:
        names = names_of(found.unpriced)
        raise ConfigError(
            f"{limit} needs prices, and none is known for {names}; nothing was sent. To give one, {PRICE_REMEDY}"
        )
    whole = in_all(run.cost.of_part(*wanted[run.run_id].shares) for run in found.runs if run.cost)
    if whole.high > most:
        raise ConfigError(
            f"it may cost {usd_span(whole.low, whole.high)}, but {limit} allows {usd_limit(most)}; "
            f"nothing was sent. {remedy}"
        )


class _Wanted(msgspec.Struct, frozen=True):
    """How many requests of a run are to be sent, and what shares of its requests and of its bytes that is."""

    requests: int
    shares: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1))


def _wanted_by_run(worker: Worker, planned: Plan) -> dict[RunId, _Wanted]:
    """Return what submitting sends of each run that it sends something of; one whose log cannot be read sends none."""
    name = planned.experiment.name
    known = {run.run_id: run for run in worker.runs(name)} if name in worker.experiment_names() else {}
    wanted: dict[RunId, _Wanted] = {}
    for config in planned.experiment.runs:
        if config.run_id not in known:
            wanted[config.run_id] = _Wanted(config.requests)
            continue
        run = known[config.run_id]
        with apart(run):
            requests = to_be_sent_of_run(run.refresh(), config.requests)
            wanted[config.run_id] = _Wanted(requests, _shares(run.state))
    return {run_id: each for run_id, each in wanted.items() if each.requests}


def _wanted_of(some: Chosen) -> _Wanted:
    state = some.run.state
    return _Wanted(sum(to_be_sent(state, each) for each in some.last_seen()), _shares(state, some.indices))


def _shares(state: RunState, chosen: Collection[int] | None = None) -> tuple[Fraction, Fraction]:
    """Return what shares of a run's requests and bytes nobody asked for yet: in one segment texts may be longer."""
    if state.plan is None:
        return Fraction(1), Fraction(1)
    first = state.plan.segments  # of a conversation: later turns follow from them
    unasked = {index for index in planning.unasked(state) if chosen is None or index in chosen}
    left = [segment for index, segment in enumerate(first) if index in unasked]
    return (
        Fraction(sum(each.requests for each in left), max(sum(each.requests for each in first), 1)),
        Fraction(sum(each.bytes for each in left), max(sum(each.bytes for each in first), 1)),
    )
