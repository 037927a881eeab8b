"""Commands that move a study on: plan, submit, resume, run, cancel, adopt, void."""

from collections.abc import Iterator
from typing import Annotated

import typer

from pipeline import planning
from pipeline.cli.app import (
    RESUMABLE,
    FileArgument,
    IntervalOption,
    JsonOption,
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
from pipeline.cli.screen import complain, print_json, progress_of, say, show_runs, show_status
from pipeline.errors import ConfigError
from pipeline.ids import BatchId, RunId
from pipeline.operations import growing, plans, studies
from pipeline.operations.cancelling import cancel_all
from pipeline.operations.failures import apart
from pipeline.operations.plans import Plan
from pipeline.operations.reporting import status
from pipeline.operations.resuming import Standing, standing, submit_all
from pipeline.operations.resuming import resume as resume_runs
from pipeline.operations.run import Run
from pipeline.operations.settling import adopt_by_hand, void_by_hand
from pipeline.operations.starting import check_start, open_planned
from pipeline.operations.whereabouts import is_named, new_store
from pipeline.operations.worker import Worker
from pipeline.pairing import Cohesion
from pipeline.state import NOT_SENT, UNSETTLED, BatchState
from pipeline.wording import and_more, counted


@app.command()
def plan(file: FileArgument, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Validate, expand, and count requests, batches and tokens. Writes nothing, calls nobody."""
    worker = worker_on(store)
    planned = plans.plan(file, worker=worker)
    growing.check_growth(worker, planned)
    if not is_named(store) and (made := new_store(file, planned.experiment.name)):
        say(f"`pairlog submit` would make a new store in {made}")
    if as_json:
        print_json(_summary(planned))
        return
    lines = {
        run.config.run_id: [run.config.requests, len(run.segments), run.bytes, run.input_tokens] for run in planned.runs
    }
    show_runs(f"experiment {planned.experiment.name}", ["requests", "batches", "bytes", "≈ input tokens"], lines)
    _tell_left_out(planned)
    _tell_outlook(planned)
    _tell_models(planned)
    later = sum(run.later for run in planned.runs)
    if later:
        turns = counted(later, "request is a later turn", "requests are later turns")
        say(f"{turns}: each follows a real answer, and they are batched as those come in")
    too_large = sum(run.too_large for run in planned.runs)
    if too_large:
        complain(
            f"{counted(too_large, 'request is', 'requests are')} larger than a batch may be and will end as errored",
            title="note",
        )
    pairs = f"{counted(len(planned.pairs), 'pair')}, " if len(planned.pairs) else ""
    requests = counted(sum(run.config.requests for run in planned.runs), "request")
    say(f"{counted(len(planned.samples), 'sample')}, {pairs}{requests}; nothing was written or sent")
    _tell_known(worker, planned)


def _tell_models(planned: Plan) -> None:
    """Say which models look like a slip of the pen: not known here, and spelled like one that is."""
    for each in planned.misspelt():
        known = f"{each.model} is not a model of {each.provider} that is known here"
        complain(f"{known}; did you mean {each.near}?", title="note")


def _tell_known(worker: Worker, planned: Plan) -> None:
    """Say what of the file is in the store already, and what is kept there although the file no longer names it."""
    name = planned.experiment.name
    if name not in worker.experiment_names():
        return
    runs = worker.runs(name)
    there = {run.run_id for run in runs}
    fresh = [run for run in planned.runs if run.config.run_id not in there]
    new = sum(run.config.requests for run in fresh)
    say(f"{name} is in {worker.store.url} already; {new:,} of these requests are new")
    for each in fresh:
        say(f"  new: {each.config.run_id}")
    kept = sorted(there - {run.config.run_id for run in planned.runs})
    if kept:
        stay = counted(len(kept), "run stays", "runs stay")
        say(f"{stay} in the store although no longer named in this file: {', '.join(kept[:5])}")
    for run in runs:
        with apart(run):
            run.refresh()
    _tell_kept(planned, runs)


def _tell_kept(planned: Plan, runs: list[Run]) -> None:
    """Say which settings of the file hold for new runs only, where runs were opened with others."""
    for key, keeping in studies.kept_settings(planned, runs).items():
        say(f"`{key}` of this file holds for new runs only; it stays as it was for {and_more(keeping)}")


def _tell_left_out(planned: Plan) -> None:
    """Say what is not judged: rows that are blank or repeat others, and what an earlier experiment did not write."""
    if planned.samples.blank:
        say(f"{counted(planned.samples.blank, 'blank row')} left out")
    if planned.samples.collapsed:
        say(f"{counted(planned.samples.collapsed, 'duplicate row')} left out")
    if planned.left_out:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in planned.left_out.items())
        missing = counted(sum(planned.left_out.values()), "answer is", "answers are")
        complain(f"{missing} not there to be judged: {reasons}", title="note")


def _tell_outlook(planned: Plan) -> None:
    """Say before anything is paid for that no ranking of all can come of these pairs, and what helps."""
    found = planned.cohesion()
    if found is None:
        return
    _tell_self_pairs(planned, found)
    match found.outlook:
        case "apart":
            more = len(planned.pairs) < found.possible
            helps = f": a larger pairs.count helps, {found.enough:,} as a rule" if more else ""
            why = " and ".join(_apart(planned, found))
            complain(f"{why}, so they cannot give one ranking of all{helps}", title="warning")
        case "by group":
            each = f"`pairlog rank {planned.experiment.name} --per group` ranks each group alone"
            complain(f"no contestant is in two groups, so there is no ranking of all: {each}", title="note")
        case "some unpaired":
            say(f"{found.unpaired:,} of {counted(len(planned.samples), 'sample')} are in no pair; every contestant is")


def _apart(planned: Plan, found: Cohesion) -> Iterator[str]:
    """Yield what keeps the pairs from linking everyone."""
    if found.parts > found.least:
        apart = "that nothing links" if found.least == 1 else f"that nothing links, and {found.least:,} would do"
        yield f"the {counted(len(planned.pairs), 'pair')} fall into {found.parts:,} parts {apart}"
    if found.unranked:
        what = "contestants" if planned.samples.has("contestant") else "samples"
        yield f"{found.unranked:,} of {found.contestants:,} {what} are in no pair"


def _tell_self_pairs(planned: Plan, found: Cohesion) -> None:
    """Say before they are paid for how many pairs tell nothing about contestants, and what to do."""
    if not found.self_pairs:
        return
    pairs = counted(len(planned.pairs), "pair")
    which = f"all {pairs}" if found.self_pairs == len(planned.pairs) > 1 else f"{found.self_pairs:,} of {pairs}"
    compare = "compares" if found.self_pairs == 1 else "compare"
    helps = "give each contestant at most one sample in a group"
    if not planned.samples.has("group"):
        helps = "give the samples a column `group` (what they answer, say), and pairs are made inside a group only"
    if found.contestants == 1:
        helps = "name in the column `contestant` whom each sample stands for"
    complain(
        f"{which} {compare} a contestant with itself, and only `rank --by sample` counts such a pair: {helps}",
        title="warning",
    )


def _summary(planned: Plan) -> dict[str, object]:
    runs = [
        {
            "run_id": run.config.run_id,
            "requests": run.config.requests,
            "batches": len(run.segments),
            "bytes": run.bytes,
            "input_tokens": run.input_tokens,
            "too_large": run.too_large,
        }
        for run in planned.runs
    ]
    found = planned.cohesion()
    totals = {key: sum(int(str(run[key])) for run in runs) for key in ("requests", "batches", "bytes", "input_tokens")}
    return {
        "experiment": planned.experiment.name,
        "samples": len(planned.samples),
        "pairs": len(planned.pairs),
        "parts": found.parts if found else 0,
        "unpaired": found.unpaired if found else 0,
        "self_pairs": found.self_pairs if found else 0,
        "left_out": planned.left_out,
        **totals,
        "runs": runs,
    }


@app.command()
def submit(file: FileArgument, most_requests: MostOption = None, store: StoreOption = None) -> int:
    """Plan and submit every batch; does not poll; safe to repeat."""
    if_interrupted(_NOTHING_YET)
    worker = worker_on(store)
    runs = submitted(worker, file, most_requests=most_requests, here=not is_named(store))
    if _tell_unsent(runs):
        return 1
    if not any(planning.is_open(run.state) for run in runs):
        say("nothing was sent: every request of this experiment has ended already")
        _tell_cancelled(standing(runs))
        return 0
    live = sum(run.is_live for run in runs)
    say(
        "every batch is at its provider; `pairlog resume` polls and fetches"
        + (", and calls the live judges" * bool(live))
    )
    return 0


_UNSENT = NOT_SENT | UNSETTLED
_NOTHING_YET = "interrupted; nothing was planned or sent yet; run it again"


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
    reasons: dict[str, dict[RunId, None]] = {}
    for why, run in (*((run.failure or "", run) for run in failed), *((_why(batch), run) for run, batch in batches)):
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


def submitted(worker: Worker, file: str, *, most_requests: int | None = None, here: bool = False) -> list[Run]:
    """Start the study of the file, telling on the way what to know about it; return its runs.

    Args:
        here: the store is the working directory's own, because nobody named one.
    """
    planned = plans.plan(file, worker=worker)
    _tell_left_out(planned)
    _tell_outlook(planned)
    check_start(worker, planned, most_requests=most_requests)
    if here and (made := new_store(file, planned.experiment.name)):
        say(f"this makes a new store in {made}")
    runs = _opened(worker, planned)
    _tell_kept(planned, runs)
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
    strict: StrictOption = False,
    store: StoreOption = None,
) -> int:
    """Submit, then resume."""
    if_interrupted(_NOTHING_YET)
    worker = worker_on(store)
    runs = submitted(worker, file, most_requests=most_requests, here=not is_named(store))
    return finish(worker, runs, interval=interval, strict=strict)


def finish(worker: Worker, runs: list[Run], *, interval: float, once: bool = False, strict: bool = False) -> int:
    """Resume the runs, show how they ended, and return the exit code."""
    with progress_of(sum(run.config.requests for run in runs)) as watch:
        end = resume_runs(worker, runs, interval=interval, once=once, watch=watch)
    failed = {run.experiment.name for run in runs if run.failure}
    names = [name for name in dict.fromkeys(run.experiment.name for run in runs) if name not in failed]
    show_status(status(worker, names, briefly=True).experiments if names else [])
    return _exit_code(end, strict=strict)


def _exit_code(end: Standing, *, strict: bool) -> int:
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


def _tell_cancelled(end: Standing) -> None:
    """Say that what was cancelled stays so under this name."""
    if end.counts.cancelled:
        was = counted(end.counts.cancelled, "request was", "requests were")
        say(f"{was} cancelled and will not be sent: take a new name in the file to ask again")


@app.command()
def cancel(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT")],
    run_id: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only this run.")] = None,
    store: StoreOption = None,
) -> int:
    """Cancel what is open; what was answered is kept. The rest ends as cancelled."""
    worker = worker_on(store)
    (experiment,) = chosen(worker, [name])
    runs = [run for run in worker.runs(experiment) if run_id in {None, run.run_id}]
    if not runs:
        raise ConfigError(f"experiment {name!r} has no run {run_id!r}; `pairlog status {name}` lists them")
    asked = cancel_all(worker, runs)
    end, failed = standing(runs), [run for run in runs if run.failure]
    if asked or not failed:
        say(f"{counted(asked, 'batch')} cancelled" if asked else "nothing is open")
    for run in failed:
        complain(f"{run.run_id}: {run.failure}", title="not cancelled")
    for reason in end.reasons:
        complain(reason, title="waits for you")
    if end.counts.open:
        waiting = counted(end.counts.open, "request waits", "requests wait")
        complain(f"{waiting} for the provider; `pairlog resume {name}` fetches what was answered", title="left")
    if failed:
        complain(f"{counted(len(failed), 'run')} could not be cancelled and may go on costing", title="left")
    return 1 if end.is_open else 0


RunArgument = Annotated[str, typer.Argument(metavar="RUN")]
BatchArgument = Annotated[str, typer.Argument(metavar="BATCH")]


@app.command()
def adopt(
    run_id: RunArgument,
    batch_id: BatchArgument,
    remote_id: Annotated[str, typer.Argument(metavar="REMOTE_ID")],
    store: StoreOption = None,
) -> None:
    """Say what a held batch is called at its provider. For one that you found there."""
    run = worker_on(store).run(run_id)
    adopt_by_hand(run, _unsettled(run, batch_id), remote_id)
    say(f"{batch_id} is {remote_id}; `pairlog resume` continues")


@app.command()
def void(
    run_id: RunArgument,
    batch_id: BatchArgument,
    store: StoreOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it may be on its way, is there, or was sent with another key.")
    ] = False,
) -> None:
    """Let a held batch be sent again. For one that you know the provider does not have."""
    run = worker_on(store).run(run_id)
    batch = _unsettled(run, batch_id)
    void_by_hand(run, batch, force=force)
    if batch.account not in {None, run.provider.account}:
        complain(
            f"{batch_id} was looked for with another key than it was sent with: it is paid twice if it was created",
            title="note",
        )
    say(f"{batch_id} {'ends as cancelled' if batch.cancel_asked else 'will be sent again'} by `pairlog resume`")


def _unsettled(run: Run, batch_id: str) -> BatchState:
    batch = run.refresh().batches.get(BatchId(batch_id))
    if batch is None:
        raise ConfigError(f"{run.run_id} has no batch {batch_id!r}; `pairlog status` lists them")
    if batch.phase not in UNSETTLED:
        raise ConfigError(f"{batch_id} is {batch.phase}; only a held or uncertain batch can be settled by hand")
    return batch
