"""Cancelling: no more is sent, the provider is asked to stop, and what was answered is kept."""

from pipeline import planning
from pipeline.errors import ConflictError, ProviderError
from pipeline.events import CancelAsked
from pipeline.operations.continuing import continue_due
from pipeline.operations.publishing import publish_due
from pipeline.operations.worker import Run
from pipeline.state import AT_PROVIDER


def cancel(run: Run) -> int:
    """Ask for the end of every open batch of the run; return how many that were.

    Slices that nobody asked to send are planned first, so that their requests end as cancelled too.
    """
    asked = _record(run)
    for batch in run.state.batches.values():
        at_provider = batch.batch_id in asked and batch.phase in AT_PROVIDER and not run.is_live and batch.proven
        if at_provider and batch.remote_id is not None:
            try:
                run.provider.cancel(batch.remote_id)
                run.notify(batch, f"asked the provider to stop {batch.remote_id}")
            except ProviderError as error:
                run.notify(batch, f"the provider could not be asked yet: {error}", warning=True)
    with run.lease() as mine:
        while mine and publish_due(run) + continue_due(run):
            pass
    return len(asked)


def _record(run: Run) -> set[str]:
    """Append the wish, behind whatever was decided meanwhile; return the batches it is about."""
    while True:
        state = run.refresh()
        missing = planning.unasked(state)
        planned = planning.first_batches((index, state.segments[index]) for index in missing)
        open_ = [
            batch.batch_id
            for batch in state.batches.values()
            if batch.phase not in {"published", "cancelled"} and not batch.cancel_asked
        ]
        wanted = (*open_, *(batch.batch_id for batch in planned))
        if not wanted:
            return set()
        try:
            run.decide(*planned, CancelAsked(batch_ids=wanted))
        except ConflictError:
            continue
        return set(wanted)
