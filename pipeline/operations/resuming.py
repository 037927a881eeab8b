"""Going on: one round over the runs, again and again until nothing is open.

Any number of workers may do this on one store: they meet in the log, where only one of them can decide.
"""

from collections.abc import Callable

import msgspec

from pipeline import planning
from pipeline.domain import Counts
from pipeline.operations.collecting import collect_due, poll_due
from pipeline.operations.publishing import publish_due
from pipeline.operations.settling import settle_due
from pipeline.operations.studies import check_keys, complete_opening
from pipeline.operations.submitting import complete_plan, submit_due
from pipeline.operations.worker import Run, Worker


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How far the runs are: whether a request is open, and whether waiting can bring them further."""

    counts: Counts
    is_open: bool
    moves_by_itself: bool
    reasons: tuple[str, ...] = ()


def advance(run: Run, *, mended: bool = False) -> None:
    """Do everything about the run that can be done now, without waiting."""
    complete_plan(run)
    settle_due(run)
    submit_due(run, mended=mended)
    poll_due(run)
    collect_due(run)
    if publish_due(run):
        submit_due(run)


def resume(
    worker: Worker,
    runs: list[Run],
    *,
    interval: float,
    once: bool = False,
    watch: Callable[[Standing], None] = lambda _: None,
) -> Standing:
    """Bring the runs to their end, polling every `interval` seconds; return how far they are."""
    complete_opening(worker, runs)
    check_keys(worker, (run.config.judge.provider for run in runs if planning.is_open(run.refresh())))
    mended = True
    while True:
        for run in runs:
            if planning.is_open(run.refresh()):
                advance(run, mended=mended)
        mended = False
        now = standing(runs)
        watch(now)
        if once or not now.moves_by_itself:
            return now
        worker.clock.sleep(interval)


def standing(runs: list[Run]) -> Standing:
    """Return how far the runs are as of the last look at their logs."""
    states = [run.state for run in runs]
    counts = sum((state.counts for state in states), Counts())
    unopened = sum(run.config.requests for run in runs if run.state.plan is None)
    waiting = [(run, batch) for run in runs for batch in planning.waits_for_a_person(run.state)]
    reasons = [f"{run.run_id} {batch.batch_id}: {batch.note}" for run, batch in waiting]
    unasked = sum(len(planning.unasked(state)) for state in states)
    if unasked or unopened:
        reasons.append(f"{unasked} slices and {unopened} requests of runs never opened were not asked for")
    return Standing(
        counts=counts,
        is_open=counts.open > 0 or unopened > 0,
        moves_by_itself=any(planning.moves_by_itself(state) for state in states),
        reasons=tuple(reasons),
    )
