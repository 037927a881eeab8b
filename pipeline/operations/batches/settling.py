"""Attempts whose outcome nobody recorded: looked for at the provider, then adopted, voided or held.

Looking and adopting are harmless at any time. Voiding opens the way to a second create, so it comes only after the
quiet period, two clean listings, and the removal of the input that a late create would need.

Where the provider shows our key, a match is proof. Where it does not (Anthropic), a batch of the right size made at
the right time is only probable: what has ended is proven by its request ids; a single open candidate is adopted
and proven when it ends; several wait until their ids tell. Nothing is cancelled that is not proven ours.
"""

import contextlib
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice

import msgspec
from msgspec.structs import replace

from pipeline import planning
from pipeline.errors import AccountError, ConfigError, CorruptObjectError, ProviderError, RejectedError
from pipeline.events import Adopted, FileUploaded, Held, Uncertain, Voided
from pipeline.ids import BatchId
from pipeline.operations.workers.run import Run
from pipeline.providers import ListsInputs, ProbableProvider, RemoteBatch, Sought
from pipeline.state import BatchState, RunState
from pipeline.storage import checkpoints, keys

_IDS_THAT_PROVE = 20
_MACHINES_THAT_TELL = 30  # those after them have only the wall to go by, or what they watch themselves
_LAST_LOOK = timedelta(days=30)  # so long providers keep answers: what was made before is of no use to anybody


def settle_due(run: Run) -> None:
    """Look for every unsettled attempt of the run."""
    for batch in planning.due(run.refresh(), run.worker.clock.now()).settle:
        if run.keep():
            settle(run, batch)


def settle(run: Run, batch: BatchState) -> bool:
    """Look for one attempt's batch; return whether it is settled now."""
    if not is_our_account(run, batch):
        return _is_shown_all_the_same(run, batch)
    if not run.is_reachable:
        return False
    try:
        found = _look(run, batch) or [each for each in _older(run, batch) if each.end is not None]
        run.troubles.pop(batch.batch_id, None)
        if found:
            return _adopt(run, batch, found)
        if batch.phase == "submitting" or _is_news(run, batch):
            _doubt(run, batch)
            return False
        if not run.has_lasted(batch, batch.uncertain_at, run.worker.pace.quiet):
            return False
        return _void(run, batch)
    except ProviderError as error:
        run.missed(error)
        run.notify(batch, f"cannot look for it now: {error}", warning=True)
        if isinstance(error, AccountError):
            run.troubles[batch.batch_id] = f"{batch.batch_id} may have been created and cannot be looked for: {error}"
        return False


def _is_shown_all_the_same(run: Run, batch: BatchState) -> bool:
    """Adopt what carries our key, whatever the key in use; that nothing is shown to this one tells nothing.

    A key may have been replaced by another of the same account, and earlier versions noted no region.
    """
    if isinstance(run.provider, ProbableProvider) or not run.is_reachable:
        return False
    try:
        found = _look(run, batch)
    except ProviderError as error:
        run.missed(error)
        return False
    if found:
        run.troubles.pop(batch.batch_id, None)
    return bool(found) and _adopt(run, batch, found)


def _is_news(run: Run, batch: BatchState) -> bool:
    """Say whether it is worth a record that this machine, too, looked in vain; where each look has its own, few are."""
    return run.worker.clock.boot() not in batch.since and len(batch.since) < _MACHINES_THAT_TELL


def _doubt(run: Run, batch: BatchState) -> None:
    """Record that the attempt was looked for in vain, from this machine: what follows is timed by its own clock.

    An input that its author uploaded and did not live to tell of is recorded with it, so that it gets removed.
    """
    found_so = batch.note if batch.phase == "uncertain" else None
    reason = found_so or "the worker that announced this attempt recorded no answer"
    run.record(*_untold(run, batch), Uncertain(batch_id=batch.batch_id, attempt=batch.attempt, reason=reason))
    waits = f"{run.worker.pace.quiet:g} s"
    run.notify(batch, f"may have been created; it is looked for during {waits} before anything is sent again")


def _untold(run: Run, batch: BatchState) -> list[FileUploaded]:
    """Return what was uploaded for an attempt without a word in the log, as far as the provider shows it."""
    provider, key = run.provider, batch.batch_key
    if batch.phase != "submitting" or batch.file_id or key is None or not isinstance(provider, ListsInputs):
        return []
    with contextlib.suppress(ProviderError):
        found = provider.inputs(key)[:1]
        return [FileUploaded(batch_id=batch.batch_id, attempt=batch.attempt, file_id=each) for each in found]
    return []


def is_our_account(run: Run, batch: BatchState) -> bool:
    """Say whether the key in use can see what this attempt may have made; another account's listing proves nothing."""
    used = run.provider.account
    if batch.account is None or batch.account == used:
        return True
    named = f"{run.run_id} {batch.batch_id}"
    run.troubles[batch.batch_id] = (
        f"{batch.batch_id} may have been created with another key or in another region (fingerprint {batch.account}, "
        f"now {used}); set those of that account, or use `pairlog adopt {named} REMOTE_ID` if you found it there, or "
        f"`pairlog void {named} --force` if nobody can look any more: it is then paid twice if it was created after all"
    )
    return False


def _look(run: Run, batch: BatchState, *, earlier: timedelta = timedelta()) -> list[RemoteBatch]:
    """Return the batches at the provider that are, or may be, this attempt's; also those made so much earlier.

    An attempt that was opened later than now was opened by a clock that is off, by nobody knows how much.
    """
    assert batch.batch_key is not None, "an opened attempt has a key"
    assert batch.opened_at is not None, "an opened attempt has a time"
    since = min(batch.opened_at, run.worker.clock.now()) - earlier
    provider = run.provider
    if not isinstance(provider, ProbableProvider):
        files = (batch.file_id,) if batch.file_id else ()
        found = provider.find(Sought(batch_key=batch.batch_key, since=since, files=files))
        taken = belonging(run.state.batches.values())
        return [each for each in found if each.remote_id not in taken]
    taken = known_remote_ids(run)
    requests = batch.input.requests if batch.input else batch.requests
    candidates = provider.candidates(since=since, requests=requests)
    return [each for each in candidates if each.remote_id not in taken and may_be_ours(run, batch, provider, each)]


def _older(run: Run, batch: BatchState) -> list[RemoteBatch]:
    """Return what may be this attempt's though it is older than our clocks say, where no key tells: open or proven."""
    return _look(run, batch, earlier=planning.CLOCKS_APART) if isinstance(run.provider, ProbableProvider) else []


def may_be_ours(run: Run, batch: BatchState, provider: ProbableProvider, remote: RemoteBatch) -> bool:
    """Say whether the candidate is ours, as far as can be told: an ended one shows its request ids."""
    return remote.end is None or _is_proven(run, batch, provider, remote)


def _is_proven(run: Run, batch: BatchState, provider: ProbableProvider, remote: RemoteBatch) -> bool:
    if remote.end is None:
        return False
    try:
        shown = set(islice(provider.custom_ids(remote.remote_id), _IDS_THAT_PROVE))
    except RejectedError:
        return False
    ours = set(run.renderer.request_ids(run.members(batch)).to_pylist())
    return bool(shown) and shown <= ours


def known_remote_ids(run: Run) -> set[str]:
    """Return the provider's ids of every batch in the store that is known to belong to somebody."""
    return belonging(batch for other in _runs_at(run) for batch in _state_of(other, beside=run).batches.values())


def belonging(batches: Iterable[BatchState]) -> set[str]:
    """Return the provider's ids that are known to belong to one of these batches."""
    return {
        remote_id
        for batch in batches
        for remote_id in (batch.remote_id if batch.proven else None, *batch.superseded, *batch.spent)
        if remote_id
    }


def _guessed(run: Run) -> set[str]:
    """Return the provider's ids of batches that some batch in the store follows without proof."""
    batches = (batch for other in _runs_at(run) for batch in _state_of(other, beside=run).batches.values())
    return {batch.remote_id for batch in batches if batch.remote_id and not batch.proven}


def _runs_at(run: Run) -> Iterator[Run]:
    """Yield every run in the store that has batches at the same provider.

    A live run has none, and is in the hands of another lane: whoever reads its log beside that one breaks it.
    """
    worker = run.worker
    for name in worker.experiment_names():
        for other in worker.runs(name):
            if other.config.judge.provider == run.config.judge.provider and not other.is_live:
                yield other


def _state_of(run: Run, *, beside: Run) -> RunState:
    """Return the state of a run; of one that is complete, a checkpoint tells enough if its log is damaged.

    Where nothing tells, the run `beside` it can neither send nor settle: a batch of either may be the other's.
    """
    try:
        return run.refresh()
    except CorruptObjectError as error:
        saved = checkpoints.load(run.worker.store, run.run_id)
        if saved is not None and planning.is_complete(saved.state):
            return saved.state
        if run.run_id == beside.run_id:
            raise
        name, provider = run.experiment.name, run.config.judge.provider
        raise CorruptObjectError(
            f"nothing is sent to {provider} until the log of {run.run_id} can be read, which may tell of a batch on "
            f"its way there: restore it from a backup, or give {name} up by moving {keys.experiments(name)} out of "
            f"the store ({error})"
        ) from error


class Unsettled(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A batch that may have been created, and the run it belongs to."""

    run: Run
    batch: BatchState


def settle_elsewhere(run: Run, batch_id: BatchId) -> Unsettled | None:
    """Settle what keeps this batch from being sent, where its own worker is gone; return what still keeps it."""
    other = unsettled_elsewhere(run, batch_id)
    if other is None or other.run.run_id == run.run_id:
        return other
    with other.run.lease() as mine:
        if mine:
            settle_due(other.run)
    return unsettled_elsewhere(run, batch_id)


def unsettled_elsewhere(run: Run, batch_id: BatchId) -> Unsettled | None:
    """Return an unsettled attempt of another batch at a provider that cannot tell ours apart by a key."""
    if not isinstance(run.provider, ProbableProvider):
        return None
    for other in _runs_at(run):
        for each in planning.due(_state_of(other, beside=run), run.worker.clock.now()).settle:
            if (other.run_id, each.batch_id) != (run.run_id, batch_id):
                return Unsettled(run=other, batch=each)
    return None


def _adopt(run: Run, batch: BatchState, found: list[RemoteBatch]) -> bool:
    """Keep one of the batches found; return False if it cannot be told yet which."""
    provider = run.provider
    proven = found
    if isinstance(provider, ProbableProvider):
        proven = [each for each in found if _is_proven(run, batch, provider, each)]
        if not proven and (len(found) > 1 or found[0].remote_id in _guessed(run)):
            names = ", ".join(each.remote_id for each in found)
            waiting = f"one of these may be ours, and their ids will tell when they end: {names}"
            if batch.note != waiting:
                run.record(Uncertain(batch_id=batch.batch_id, attempt=batch.attempt, reason=waiting))
            return False
    kept, *others = sorted(proven or found, key=_worth)
    reason = None if proven else "the only batch of this size made at that time; proven when it ends"
    if others:
        reason = f"also found and cancelled: {', '.join(remote.remote_id for remote in others)}"
    adopted = Adopted(
        batch_id=batch.batch_id,
        attempt=batch.attempt,
        remote_id=kept.remote_id,
        reason=reason,
        proven=bool(proven),
    )
    run.record(adopted, *(replace(adopted, remote_id=other.remote_id, reason="a second batch") for other in others))
    run.notify(batch, f"found at the provider as {kept.remote_id}", warning=bool(others))
    for remote in others:
        provider.cancel(remote.remote_id)
    return True


def _worth(remote: RemoteBatch) -> tuple[bool, str, str]:
    """Order several batches of ours: one that failed has nothing for us, and of the others the oldest is kept."""
    return remote.end == "failed", str(remote.created_at), remote.remote_id


def _void(run: Run, batch: BatchState) -> bool:
    """Give the attempt up if it is not there, nor after its input is gone; return whether it is settled."""
    settled = _last_look(run, batch)
    if settled is None and batch.files:
        for file_id in batch.files:
            run.provider.discard(file_id)
        settled = _last_look(run, batch)
    if settled is not None:
        return settled
    reason = f"not at the provider {run.worker.pace.quiet:g} s after it was first missed"
    run.record(Voided(batch_id=batch.batch_id, attempt=batch.attempt, reason=reason))
    run.notify(batch, "was not created" + ("" if batch.cancel_asked else "; it will be sent again"))
    return True


def _last_look(run: Run, batch: BatchState) -> bool | None:
    """Look farther back than clocks are off; return whether the attempt is settled, or None if it is not there."""
    near = _look(run, batch)
    older = near or _look(run, batch, earlier=_LAST_LOOK)
    is_exact = not isinstance(run.provider, ProbableProvider)
    if found := near or [each for each in older if is_exact or each.end is not None]:
        return _adopt(run, batch, found)
    if older:
        run.notify(batch, "an older batch of this size is still open; its ids will tell whether it is ours")
        return False
    return None


def adopt_by_hand(run: Run, batch: BatchState, named: str) -> str:
    """Settle a batch as a person says: it is this one at the provider; refused if it is known to be another's.

    Return what the provider calls it, which may be longer than what the person did.
    """
    shown = run.provider.status(named)
    remote_id = shown.remote_id
    if remote_id in known_remote_ids(run) - {batch.remote_id, *batch.superseded, *batch.spent}:
        raise ConfigError(f"{remote_id} belongs to another batch of this store; `pairlog status --json` tells which")
    if shown.batch_key is not None and shown.batch_key not in {batch.batch_key, *batch.voided.values()}:
        raise ConfigError(f"{remote_id} carries another batch's key ({shown.batch_key}); it is not {batch.batch_id}")
    if shown.batch_key is None:
        _refuse_a_strangers(run, batch, shown)
    run.record(Adopted(batch_id=batch.batch_id, attempt=batch.attempt, remote_id=remote_id, reason="settled by hand"))
    return remote_id


def _refuse_a_strangers(run: Run, batch: BatchState, shown: RemoteBatch) -> None:
    """Refuse a batch without our key where the provider has one with it, or where size or request ids tell."""
    provider = run.provider
    if isinstance(provider, ProbableProvider):
        requests = batch.input.requests if batch.input else batch.requests
        if shown.requests not in {None, requests}:
            raise ConfigError(f"{shown.remote_id} has {shown.requests} requests; {batch.batch_id} has {requests}")
        if not may_be_ours(run, batch, provider, shown):
            raise ConfigError(f"{shown.remote_id} does not show the requests of {batch.batch_id}; it is not ours")
        return
    found = [each.remote_id for each in _look(run, batch)]
    if found and shown.remote_id not in found:
        command = f"pairlog adopt {run.run_id} {batch.batch_id} {found[0]}"
        raise ConfigError(f"{found[0]} is {batch.batch_id} by its key, and {shown.remote_id} has none; use `{command}`")


def void_by_hand(run: Run, batch: BatchState, *, force: bool = False) -> None:
    """Settle a batch as a person says: the provider does not have it; refused where that is not certain.

    Args:
        force: the person knows better: nobody is creating it now, what the provider shows is of no use, and what the
            key of another account would show can no longer be seen.
    """
    is_ours = is_our_account(run, batch)
    if not force:
        if not is_ours:
            raise ConfigError(run.troubles[batch.batch_id])
        _refuse_to_void(run, batch)
    _refuse_what_is_found(run, batch, force=force)
    for file_id in batch.files:
        with contextlib.nullcontext() if is_ours else contextlib.suppress(ProviderError):
            run.provider.discard(file_id)
    if batch.files:
        _refuse_what_is_found(run, batch, force=force)
    run.record(Voided(batch_id=batch.batch_id, attempt=batch.attempt, reason="settled by hand"))
    run.troubles.pop(batch.batch_id, None)


def _refuse_to_void(run: Run, batch: BatchState) -> None:
    """Refuse while a create may be on its way, and while the provider shows the batch."""
    named = f"{run.run_id} {batch.batch_id}"
    if batch.phase != "held" and not run.has_lasted(batch, batch.uncertain_at, run.worker.pace.quiet):
        raise ConfigError(
            f"{batch.batch_id} may still be on its way to the provider; `pairlog resume` looks for it and sends it "
            f"again if it is not there, or use `pairlog void {named} --force` if you are sure"
        )
    with contextlib.suppress(RejectedError):
        if batch.remote_id is not None:
            shown = run.provider.status(batch.remote_id).remote_id
            raise ConfigError(
                f"the provider has {shown}, which would be paid for twice; use `pairlog adopt {named} {shown}`, "
                f"or `pairlog void {named} --force` if its answers are gone or not yours"
            )


def _refuse_what_is_found(run: Run, batch: BatchState, *, force: bool) -> None:
    """Refuse where a last look shows the batch; a person may know that an old one of its size is another's."""
    is_told = not force or not isinstance(run.provider, ProbableProvider)
    older = (each for each in _look(run, batch, earlier=_LAST_LOOK) if is_told or each.end is not None)
    if found := _look(run, batch) or list(older):
        command = f"pairlog adopt {run.run_id} {batch.batch_id} {found[0].remote_id}"
        raise ConfigError(f"the provider has {found[0].remote_id}, which would be paid for twice; use `{command}`")


def hold(run: Run, batch: BatchState, reason: str) -> None:
    """Stop the batch until a person decides."""
    run.record(Held(batch_id=batch.batch_id, attempt=batch.attempt, reason=reason))
    run.notify(batch, f"held: {reason}", warning=True)
