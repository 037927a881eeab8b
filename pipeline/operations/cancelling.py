"""Cancelling: no more is sent, the provider is asked to stop, and what was answered is kept."""

from contextlib import suppress

from pipeline import planning
from pipeline.errors import ConflictError, LeaseLostError, ProviderError
from pipeline.events import BatchPlanned, CancelAsked
from pipeline.ids import BatchId
from pipeline.operations.batches.continuing import continue_due
from pipeline.operations.batches.publishing import publish_due
from pipeline.operations.batches.settling import is_our_account
from pipeline.operations.studies.opening import reopen
from pipeline.operations.workers.failures import apart
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.state import AT_PROVIDER, RunState

_BATCHES_A_COMMIT = 1_000


def cancel_all(worker: Worker, runs: list[Run]) -> int:
    """Ask for the end of every run; return how many batches that was asked of.

    One that something is wrong with keeps its `failure`; the others are cancelled, and cost no more.
    """
    reopen(worker, runs)
    worker.unreachable.clear()
    asked = 0
    for run in runs:
        if run.failure is None:
            with apart(run):
                asked += cancel(run)
    return asked


def cancel(run: Run) -> int:
    """Ask for the end of every open batch of the run; return how many that were.

    Segments that nobody asked to send are planned first, so that their requests end as cancelled too. A batch that this
    key cannot look for becomes a trouble of the run: it ends when a person has settled it. Where the provider cannot be
    reached, who resumes the run asks it for each batch.
    """
    asked = _record(run)
    for batch in run.state.batches.active.values():
        if batch.phase in {"submitting", "uncertain"} and not run.is_live:
            is_our_account(run, batch)
        at_provider = batch.batch_id in asked and batch.phase in AT_PROVIDER and not run.is_live and batch.proven
        if at_provider and batch.remote_id is not None and run.is_reachable:
            try:
                run.provider.cancel(batch.remote_id)
                run.notify(batch, f"asked the provider to stop {batch.remote_id}")
            except ProviderError as error:
                run.missed(error)
                run.notify(batch, f"the provider could not be asked yet: {error}", warning=True)
    with suppress(LeaseLostError), run.lease() as mine:
        while mine and publish_due(run) + continue_due(run):
            pass
    return len(asked)


def _record(run: Run) -> set[BatchId]:
    """Append the wish, behind whatever was decided meanwhile; return the batches it is about.

    A run of very many segments takes several commits. What is asked for already goes first, and no segment is planned
    without being cancelled in the same commit: who stops in between has cancelled less, and sent nothing more.
    """
    asked: set[BatchId] = set()
    while events := _wish(run.refresh()):
        try:
            run.decide(*events)
        except ConflictError:
            continue
        asked.update(events[-1].batch_ids)
    return asked


def _wish(state: RunState) -> tuple[*tuple[BatchPlanned, ...], CancelAsked] | None:
    """Return the next commit: the end of batches that are open or, if none is, of segments that nobody asked for."""
    open_ = [
        batch.batch_id
        for batch in state.batches.active.values()
        if batch.phase not in {"published", "cancelled"} and not batch.cancel_asked
    ]
    missing = [] if open_ else planning.unasked(state)[:_BATCHES_A_COMMIT]
    planned = planning.first_batches((index, state.segments[index]) for index in missing)
    wanted = open_[:_BATCHES_A_COMMIT] or [batch.batch_id for batch in planned]
    return (*planned, CancelAsked(batch_ids=tuple(wanted))) if wanted else None
