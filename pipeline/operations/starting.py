"""Starting a study: what could stop it is checked before anything is written, then it is frozen and its runs opened."""

from decimal import Decimal

from pipeline.operations.budgets import OF_COMMANDS, Limits, check_budget, check_cost, wanted_by_plan
from pipeline.operations.studies.growing import check_growth
from pipeline.operations.studies.opening import check_keys, freeze, open_runs
from pipeline.operations.studies.plans import Plan
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.storage.probe import ensure_proven


def check_start(
    worker: Worker,
    planned: Plan,
    *,
    most_requests: int | None = None,
    most_cost: Decimal | None = None,
    limits: Limits = OF_COMMANDS,
) -> None:
    """Raise ConfigError for whatever stands against the study; nothing is written or sent.

    Args:
        most_cost: the most, in USD, that the upper end of the estimate may be.
        limits: what the person calls the two.
    """
    check_keys(worker, (run.config for run in planned.runs))
    check_growth(worker, planned)
    if most_requests is not None:
        remedy = "Raise it, or ask for less in the file"
        check_budget(wanted_by_plan(worker, planned), most_requests, limit=limits.requests, remedy=remedy)
    if most_cost is not None:
        check_cost(worker, planned, most_cost, limit=limits.cost)


def check_store(worker: Worker) -> None:
    """Make sure, at the first use of the store, that it lets one writer win; raises ConfigError if it does not."""
    ensure_proven(worker.store, worker.clock)


def open_planned(worker: Worker, planned: Plan) -> list[Run]:
    """Freeze the experiment and open its runs, on a store that has shown to let one writer win.

    From the first open run on, any worker can go on.
    """
    check_store(worker)
    return open_runs(worker, planned, experiment_digest=freeze(worker, planned))
