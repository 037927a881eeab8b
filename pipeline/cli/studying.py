"""Commands that move a study on: submit, resume, run."""

from decimal import Decimal
from typing import Annotated

import typer

from pipeline.cli.app import (
    RESUMABLE,
    FileArgument,
    IntervalOption,
    MostCostOption,
    MostOption,
    NamesArgument,
    StoreOption,
    StrictOption,
    app,
    chosen,
    if_interrupted,
    named,
    worker_on,
)
from pipeline.cli.planned import tell_beforehand, tell_kept, tell_new_store
from pipeline.cli.screen import complain, progress_of, say, show_status
from pipeline.ids import ExperimentName, RunId
from pipeline.operations.reading.reasons import reasons_of
from pipeline.operations.reading.reporting import status
from pipeline.operations.resuming import Headway, headway, submit_all
from pipeline.operations.resuming import resume as resume_runs
from pipeline.operations.starting import check_start, open_planned
from pipeline.operations.studies import plans
from pipeline.operations.studies.plans import Plan
from pipeline.operations.studies.whereabouts import is_named
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.state import NOT_SENT, UNSETTLED, BatchState
from pipeline.wording import and_more, counted

_UNSENT = NOT_SENT | UNSETTLED
_ELSEWHERE = "another worker is at it"
_REASONS = 5
_LONGEST_REASON = 160
_NOTHING_YET = "interrupted; nothing was planned or sent yet; run it again"


@app.command()
def submit(
    file: FileArgument,
    most_requests: MostOption = None,
    most_cost: MostCostOption = None,
    store: StoreOption = None,
) -> int:
    """Plan and submit every batch; does not poll; safe to repeat."""
    if_interrupted(_NOTHING_YET)
    worker = worker_on(store)
    runs = submitted(worker, file, most_requests=most_requests, most_cost=most_cost, here=not is_named(store))
    if _tell_unsent(runs):
        return 1
    say(_sent(runs, end := headway(runs)))
    if not end.counts.open:
        _tell_cancelled(end)
    return 0


def _sent(runs: list[Run], end: Headway) -> str:
    """Return where the requests are now that nothing is left to send, and what goes on with them."""
    being = counted(end.cancelling, "request is", "requests are") + " being cancelled"
    if not end.counts.open:
        return "nothing was sent: every request of this experiment has ended already"
    if end.cancelling == end.counts.open:
        return f"nothing was sent: {being}; `pairlog resume` fetches what is answered by then"
    cancelling = f"{being}; " if end.cancelling else ""
    live = ", and calls the live judges" if any(run.is_live for run in runs) else ""
    return f"every batch is at its provider; {cancelling}`pairlog resume` polls and fetches{live}"


def _tell_unsent(runs: list[Run]) -> bool:
    """Say what is not at its provider and why, runs with one reason together; return whether there is any."""
    failed = [run for run in runs if run.failure]
    batches = [
        (run, batch)
        for run in runs
        if not run.is_live
        for batch in run.state.batches.active.values()
        if batch.phase in _UNSENT
    ]
    unsent = {run.run_id: run for run, _ in batches if run.failure is None}
    elsewhere = {name for name, run in unsent.items() if not run.worker.leases.is_free(name)}
    told = [(run.failure or "", run) for run in failed]
    told += [(_ELSEWHERE if run.run_id in elsewhere else _why(batch), run) for run, batch in batches]
    reasons: dict[str, dict[RunId, None]] = {}
    for why, run in told:
        reasons.setdefault(why, {})[run.run_id] = None
    for why, together in reasons.items():
        complain(f"{and_more(list(together))}: {why}", title="not sent")
    left = [counted(len(batches), "batch is", "batches are") + " not at the provider yet"] if batches else []
    left += [counted(len(failed), "run") + " could not be worked on"] if failed else []
    if left:
        mended = "mend that, and " if failed else ""
        complain(f"{' and '.join(left)}; {mended}`pairlog resume` goes on", title="left")
    return bool(left)


def _why(batch: BatchState) -> str:
    """Return why a batch is not at its provider; one that was not tried waits for those before it."""
    return batch.unsent or batch.note or "waits until the provider takes more"


def submitted(
    worker: Worker,
    file: str,
    *,
    most_requests: int | None = None,
    most_cost: Decimal | None = None,
    here: bool = False,
) -> list[Run]:
    """Start the study of the file, telling on the way what to know about it; return its runs.

    Args:
        here: the store is the working directory's own, because nobody named one.
    """
    planned = plans.plan(file, worker=worker)
    tell_beforehand(planned)
    check_start(worker, planned, most_requests=most_requests, most_cost=most_cost)
    if here:
        tell_new_store(file, planned, words="this makes")
    runs = _opened(worker, planned)
    tell_kept(planned, runs)
    submit_all(runs)
    return runs


def _opened(worker: Worker, planned: Plan) -> list[Run]:
    """Open the study; from the first open run on there is something to resume if this is interrupted."""
    try:
        runs = open_planned(worker, planned)
    except KeyboardInterrupt:
        if any(run.refresh().plan for run in worker.runs(planned.experiment.name)):
            if_interrupted(RESUMABLE)
        raise
    if_interrupted(RESUMABLE)
    return runs


@app.command()
def resume(
    names: NamesArgument = None,
    interval: IntervalOption = 60.0,
    once: Annotated[bool, typer.Option("--once", help="One round, without waiting.")] = False,
    strict: StrictOption = False,
    store: StoreOption = None,
) -> int:
    """Poll, fetch, parse and send again until nothing is open. From any machine, without FILE."""
    worker = worker_on(store)
    runs = [run for name in chosen(worker, names) for run in worker.runs(name)]
    if_interrupted(RESUMABLE)
    if not runs:
        say(f"there is nothing to resume in {named(worker)}")
        return 0
    return finish(worker, runs, interval=interval, once=once, strict=strict)


@app.command()
def run(
    file: FileArgument,
    interval: IntervalOption = 60.0,
    most_requests: MostOption = None,
    most_cost: MostCostOption = None,
    strict: StrictOption = False,
    store: StoreOption = None,
) -> int:
    """Submit, then resume."""
    if_interrupted(_NOTHING_YET)
    worker = worker_on(store)
    runs = submitted(worker, file, most_requests=most_requests, most_cost=most_cost, here=not is_named(store))
    return finish(worker, runs, interval=interval, strict=strict)


def finish(worker: Worker, runs: list[Run], *, interval: float, once: bool = False, strict: bool = False) -> int:
    """Resume the runs, show how they ended, and return the exit code."""
    polls = None if once or all(run.is_live for run in runs) else interval
    with progress_of(sum(run.config.requests for run in runs), interval=polls) as watch:
        end = resume_runs(worker, runs, interval=interval, once=once, watch=watch)
    failed = {run.experiment.name for run in runs if run.failure}
    names = [name for name in dict.fromkeys(run.experiment.name for run in runs) if name not in failed]
    shown = {run.run_id for run in runs}
    show_status(status(worker, names, only=shown, briefly=True).experiments if names else [])
    _tell_others(worker, names, shown)
    _tell_reasons([run for run in runs if not run.failure])
    return _exit_code(end, strict=strict)


def _tell_others(worker: Worker, names: list[ExperimentName], shown: set[RunId]) -> None:
    """Say of which runs nothing was told: those that an earlier file asked for and this one does not."""
    for name in names:
        if others := sum(run.run_id not in shown for run in worker.runs(name)):
            said = counted(others, "further run is", "further runs are")
            say(f"{said} in the store but not in this file: `pairlog status {name}` shows all")


def _tell_reasons(runs: list[Run]) -> None:
    """Say why most of the requests that did not end as ok did not."""
    found = reasons_of(runs)
    shown = list(found.counts.items())[:_REASONS]
    for (how, why), count in shown:
        say(f"{count:,} {how}: {why if len(why) <= _LONGEST_REASON else why[: _LONGEST_REASON - 1] + '…'}")
    if more := sum(found.counts.values()) + found.left - sum(count for _, count in shown):
        say(f"{more:,} for other reasons: the column `reason` of `pairlog results` has them all")


def _exit_code(end: Headway, *, strict: bool) -> int:
    for reason in end.reasons:
        complain(reason, title="waits for you")
    if end.counts.open:
        complain(
            f"{counted(end.counts.open, 'request is', 'requests are')} open; `pairlog resume` continues", title="left"
        )
    if end.is_open:
        return 1
    failed = end.counts.ended - end.counts.ok
    if strict and failed:
        complain(f"{counted(failed, 'request')} did not end as ok", title="left")
        return 1
    say(f"every request has ended: {end.counts.ok:,} ok, {failed:,} not")
    _tell_cancelled(end)
    return 0


def _tell_cancelled(end: Headway) -> None:
    """Say that what was cancelled stays so under this name."""
    if end.counts.cancelled:
        was = counted(end.counts.cancelled, "request was", "requests were")
        say(f"{was} cancelled and will not be sent: take a new name in the file to ask again")
