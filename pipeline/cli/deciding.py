"""Commands by which a person decides what becomes of batches: cancel, adopt, void."""

from typing import Annotated

import typer

from pipeline import planning
from pipeline.cli.app import StoreOption, app, chosen, worker_on
from pipeline.cli.screen import complain, say
from pipeline.errors import ConfigError
from pipeline.ids import BatchId
from pipeline.operations.batches.settling import adopt_by_hand, void_by_hand
from pipeline.operations.cancelling import cancel_all
from pipeline.operations.resuming import headway
from pipeline.operations.workers.run import Run
from pipeline.state import UNSETTLED, BatchState
from pipeline.wording import counted


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
    end, failed = headway(runs), [run for run in runs if run.failure]
    if done := _cancelled(runs, asked):
        say(done)
    elif not failed:
        say("nothing more can be cancelled" if end.counts.open else "nothing is open")
    for run in failed:
        complain(f"{run.run_id}: {run.failure}", title="not cancelled")
    for reason in end.reasons:
        complain(reason, title="waits for you")
    if end.counts.open:
        waiting = counted(end.counts.open, "request waits", "requests wait")
        complain(f"{waiting} for the provider to stop; `pairlog resume {name}` fetches what was answered", title="left")
    if failed:
        complain(f"{counted(len(failed), 'run')} could not be cancelled and may go on costing", title="left")
    return 1 if end.is_open else 0


def _cancelled(runs: list[Run], asked: int) -> str:
    """Return what became of the batches whose end was asked for, now or before; nothing if there are none."""
    active = (batch for run in runs for batch in run.state.batches.active.values())
    left = sum(map(planning.is_being_cancelled, active))
    is_left = counted(left, "batch is", "batches are")
    told = [f"{counted(asked - left, 'batch')} cancelled"] if asked > left else []
    told += [f"{is_left} being cancelled: what the provider answers until it stops is kept"] if left else []
    return "; ".join(told)


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
    shown = adopt_by_hand(run, _unsettled(run, batch_id), remote_id)
    say(f"{batch_id} is {shown}; `pairlog resume` continues")


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
        raise ConfigError(f"{run.run_id} has no batch {batch_id!r}; `pairlog status --batches` lists them")
    if batch.phase not in UNSETTLED:
        raise ConfigError(f"{batch_id} is {batch.phase}; only a held or uncertain batch can be settled by hand")
    return batch
