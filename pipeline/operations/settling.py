"""Attempts whose outcome nobody recorded: looked for at the provider by our key, then adopted or voided.

Looking and adopting are harmless at any time. Voiding opens the way to a second create, so it comes only after the
quiet period, two clean listings, and the removal of the input that a late create would need.
"""

from pipeline import planning
from pipeline.errors import ProviderError
from pipeline.events import Adopted, Held, Uncertain, Voided
from pipeline.operations.worker import Run
from pipeline.providers import RemoteBatch
from pipeline.state import BatchState


def settle_due(run: Run) -> int:
    """Look for every unsettled attempt of the run; return how many were settled."""
    settled = 0
    for batch in planning.due(run.refresh(), run.worker.clock.now()).settle:
        settled += settle(run, batch)
    return settled


def settle(run: Run, batch: BatchState) -> bool:
    """Look for one attempt's batch; return whether it is settled now."""
    try:
        found = _look(run, batch)
        if found:
            _adopt(run, batch, found)
            return True
        if batch.phase == "submitting":
            reason = "the worker that announced this attempt recorded no answer"
            run.record(Uncertain(batch_id=batch.batch_id, attempt=batch.attempt, reason=reason))
            return False
        if not planning.quiet_since(batch, run.worker.clock.now(), run.worker.pace.quiet):
            return False
        return _void(run, batch)
    except ProviderError as error:
        run.notify(batch, f"cannot look for it now: {error}", warning=True)
        return False


def _look(run: Run, batch: BatchState) -> list[RemoteBatch]:
    assert batch.batch_key is not None, "an opened attempt has a key"
    assert batch.opened_at is not None, "an opened attempt has a time"
    return run.provider.find(batch.batch_key, since=batch.opened_at)


def _adopt(run: Run, batch: BatchState, found: list[RemoteBatch]) -> None:
    """Keep the oldest batch that carries our key; any other is ours too, and cancelled."""
    oldest, *others = sorted(found, key=lambda remote: (str(remote.created_at), remote.remote_id))
    reason = None
    if others:
        reason = f"also found and cancelled: {', '.join(remote.remote_id for remote in others)}"
    run.record(Adopted(batch_id=batch.batch_id, attempt=batch.attempt, remote_id=oldest.remote_id, reason=reason))
    run.notify(batch, f"found at the provider as {oldest.remote_id}", warning=bool(others))
    for remote in others:
        run.provider.cancel(remote.remote_id)


def _void(run: Run, batch: BatchState) -> bool:
    if batch.file_id is not None:
        run.provider.discard(batch.file_id)
    late = _look(run, batch)
    if late:
        _adopt(run, batch, late)
        return True
    reason = f"not at the provider {run.worker.pace.quiet:g} s after it was first missed"
    run.record(Voided(batch_id=batch.batch_id, attempt=batch.attempt, reason=reason))
    run.notify(batch, "was not created; it will be sent again")
    return True


def adopt_by_hand(run: Run, batch: BatchState, remote_id: str) -> None:
    """Settle a batch as a person says: it is this one at the provider."""
    run.provider.status(remote_id)
    run.record(Adopted(batch_id=batch.batch_id, attempt=batch.attempt, remote_id=remote_id, reason="settled by hand"))


def void_by_hand(run: Run, batch: BatchState) -> None:
    """Settle a batch as a person says: the provider does not have it."""
    run.record(Voided(batch_id=batch.batch_id, attempt=batch.attempt, reason="settled by hand"))


def hold(run: Run, batch: BatchState, reason: str) -> None:
    """Stop the batch until a person decides."""
    run.record(Held(batch_id=batch.batch_id, attempt=batch.attempt, reason=reason))
    run.notify(batch, f"held: {reason}", warning=True)
