"""What turns up late: batches of attempts that had been given up. They are paid for, so their answers are used.

Where an input was uploaded, giving up removed it, and a late create fails free of charge; what carries our key is found
by it. A provider with neither (Anthropic) is searched for batches of the right size that were made until a quiet period
after the attempt was given up: those that have ended are proven by their request ids, and open ones are waited for.
"""

import contextlib
from collections.abc import Iterator
from datetime import timedelta

from pipeline import planning
from pipeline.errors import AccountError, ProviderError, RejectedError
from pipeline.events import Adopted, late_name
from pipeline.operations.batches.settling import belonging, known_remote_ids, may_be_ours
from pipeline.operations.workers.run import Run
from pipeline.providers import ProbableProvider, RemoteBatch, Sought
from pipeline.state import BatchState


def late_parts(run: Run, batch: BatchState) -> dict[str, str] | None:
    """Return what came back for attempts that had been given up, or None while such a batch may still run.

    A batch that turns up late is paid for as far as it got: it is stopped, and its answers are used.
    """
    if (batch.superseded or batch.voided) and not _sees(run, batch):
        raise AccountError(
            f"earlier attempts were made with another key (fingerprint {batch.account}); what came of them was not "
            f"looked for, since this one does not show {batch.remote_id}; set the key of that account"
        )
    candidates = _candidates(run, batch)
    if _is_undecided(run, batch, candidates):
        return None
    shown = (*_superseded(run, batch), *_turned_up(run, batch), *_remembered(run, batch, candidates))
    found = {remote.remote_id: remote for remote in shown}
    for remote in found.values():
        if remote.end is None:
            run.provider.cancel(remote.remote_id)
    if any(remote.end is None for remote in found.values()):
        return None
    return {
        late_name(number, name): handle
        for number, remote in enumerate(found.values(), start=1)
        for name, handle in remote.parts.items()
    }


def _sees(run: Run, batch: BatchState) -> bool:
    """Say whether the key in use sees what the attempts' did: it is the same, or a later one of the same account."""
    if batch.account in {None, run.provider.account}:
        return True
    try:
        return batch.remote_id is not None and run.provider.status(batch.remote_id).remote_id == batch.remote_id
    except RejectedError:
        return False


def may_turn_up(run: Run, batch: BatchState) -> bool:
    """Say whether a cancelled batch may still turn up at a provider without our key; one that did is followed again."""
    if batch.phase != "cancelled" or batch.voided_at is None or not isinstance(run.provider, ProbableProvider):
        return False
    try:
        candidates = _candidates(run, batch)
    except ProviderError as error:
        run.notify(batch, f"cannot look for it now: {error}", warning=True)
        return True
    if _is_undecided(run, batch, candidates):
        return True
    for remote in candidates:
        run.record(Adopted(batch_id=batch.batch_id, attempt=batch.attempt, remote_id=remote.remote_id))
        run.notify(batch, f"{remote.remote_id} turned up after all", warning=True)
    return bool(candidates) or not run.has_lasted(batch, batch.voided_at, run.worker.pace.quiet)


def _candidates(run: Run, batch: BatchState) -> list[RemoteBatch]:
    """Return what a provider without our key shows that is, or may be, of an attempt given up; nothing elsewhere."""
    provider = run.provider
    if batch.voided_at is None or batch.first_opened_at is None or not isinstance(provider, ProbableProvider):
        return []
    taken = known_remote_ids(run)
    latest = batch.voided_at + timedelta(seconds=run.worker.pace.quiet) + planning.CLOCKS_APART
    requests = batch.input.requests if batch.input else batch.requests
    return [
        remote
        for remote in provider.candidates(since=batch.first_opened_at - planning.CLOCKS_APART, requests=requests)
        if remote.remote_id not in taken
        and (remote.created_at is None or remote.created_at <= latest)
        and may_be_ours(run, batch, provider, remote)
    ]


def _is_undecided(run: Run, batch: BatchState, candidates: list[RemoteBatch]) -> bool:
    """Say whether one of the candidates is still open, so that only its end will tell whose it is."""
    undecided = [remote.remote_id for remote in candidates if remote.end is None]
    if undecided:
        run.notify(batch, f"may be one of these, and their ids will tell when they end: {', '.join(undecided)}")
    return bool(undecided)


def _superseded(run: Run, batch: BatchState) -> Iterator[RemoteBatch]:
    """Yield the batches that turned up before, as they are now; one that is gone has nothing to give."""
    for remote_id in filter(None, batch.superseded):
        with contextlib.suppress(RejectedError):
            yield run.provider.status(remote_id)


def _turned_up(run: Run, batch: BatchState) -> Iterator[RemoteBatch]:
    """Yield the batches that a last look finds under the keys of attempts given up; the log remembers them."""
    known = belonging(run.state.batches.values()).difference(batch.superseded)
    for attempt, key in batch.voided.items():
        assert batch.first_opened_at is not None, "an attempt given up was opened"
        sought = Sought(batch_key=key, since=batch.first_opened_at, files=batch.other_files)
        found = [remote for remote in run.provider.find(sought) if remote.remote_id not in known]
        yield from _remembered(run, batch, found, attempt=attempt)


def _remembered(
    run: Run, batch: BatchState, found: list[RemoteBatch], *, attempt: int | None = None
) -> Iterator[RemoteBatch]:
    """Yield the batches found for an attempt given up, the last one unless told; the log remembers each."""
    for remote in found:
        if remote.remote_id not in batch.superseded:
            given_up = max(batch.voided) if attempt is None else attempt
            run.record(Adopted(batch_id=batch.batch_id, attempt=given_up, remote_id=remote.remote_id))
            run.notify(batch, f"{remote.remote_id} turned up for an attempt given up", warning=True)
        yield remote
