"""From commits to states: pure, total, and the only way to a state."""

from collections.abc import Callable, Iterable
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from pipeline.domain import Counts
from pipeline.events import (
    Adopted,
    AnyEvent,
    AttemptOpened,
    BatchPlanned,
    CancelAsked,
    Commit,
    Ended,
    FileUploaded,
    Held,
    InputStored,
    OutputsStored,
    Refused,
    RemoteCleaned,
    RowsPublished,
    RunPlanned,
    StatusChanged,
    Submitted,
    TurnPlanned,
    Uncertain,
    Voided,
)
from pipeline.ids import BatchId
from pipeline.state import AT_PROVIDER, NOT_SENT, UNSETTLED, BatchState, Phase, RunState


def fold(state: RunState, commits: Iterable[Commit]) -> RunState:
    """Return the state after the commits.

    One from a writer that had lost its epoch changes nothing, but a batch that it names is not forgotten.
    """
    batches = dict(state.batches)
    plan, turns, number, epoch, stale = state.plan, state.turns, state.commits, state.epoch, state.stale
    for commit in commits:
        number += 1
        is_stale = commit.epoch < epoch
        stale += is_stale
        epoch = max(epoch, commit.epoch)
        rules = _RULES_OF_THE_REPLACED if is_stale else _RULES
        for event in commit.events:
            rule = rules.get(type(event))
            if rule is not None:
                batch = batches.get(event.batch_id)  # type: ignore[union-attr]  # rules are for events of one batch
                if batch is not None:
                    batches[batch.batch_id] = rule(batch, event, commit)
            elif isinstance(event, RunPlanned):
                plan = _asked_for(plan, event)
            elif is_stale:
                continue
            elif isinstance(event, BatchPlanned):
                batches.setdefault(event.batch_id, _planned(event))
            elif isinstance(event, CancelAsked):
                _cancel(batches, event)
            elif isinstance(event, TurnPlanned) and event.after not in (turn.after for turn in turns):
                turns = (*turns, event)
    return replace(state, batches=batches, plan=plan, turns=turns, commits=number, epoch=epoch, stale=stale)


def _asked_for(plan: RunPlanned | None, event: RunPlanned) -> RunPlanned:
    """Return the plan: the first one stands, but a run planned slice by slice may be asked for as a whole later."""
    if plan is None:
        return event
    if event.asked in {plan.asked, "segments"} or plan.run_digest != event.run_digest:
        return plan
    return replace(plan, asked="experiment", experiment_digest=event.experiment_digest)


def _planned(event: BatchPlanned) -> BatchState:
    batch = BatchState(
        batch_id=event.batch_id,
        segment=event.segment,
        send=event.send,
        requests=event.requests,
        after=event.after,
        counts=Counts(planned=event.requests),
    )
    if isinstance(event.not_before, msgspec.UnsetType):
        return batch
    fault = "account" if isinstance(event.fault, msgspec.UnsetType) else event.fault
    reason, by_hand = event.reason or None, fault == "account"
    return replace(batch, fault=fault, needs_person=by_hand, not_before=event.not_before, note=reason)


def _cancel(batches: dict[BatchId, BatchState], event: CancelAsked) -> None:
    for batch in [batches[batch_id] for batch_id in event.batch_ids if batch_id in batches]:
        batches[batch.batch_id] = _cancel_asked(batch)


def _cancel_asked(batch: BatchState) -> BatchState:
    if batch.phase in NOT_SENT:
        return replace(batch, phase="cancelled", cancel_asked=True, note="cancelled before it was sent")
    return replace(batch, cancel_asked=batch.phase not in {"published", "cancelled"})


def _prepared(batch: BatchState, event: InputStored, _: Commit) -> BatchState:
    return replace(batch, input=event, phase="prepared") if batch.phase == "planned" else batch


def _opened(batch: BatchState, event: AttemptOpened, commit: Commit) -> BatchState:
    if batch.phase not in NOT_SENT or event.attempt != batch.attempt + 1:
        return batch
    return replace(
        batch,
        phase="submitting",
        attempt=event.attempt,
        batch_key=event.batch_key,
        account=event.account,
        writer=commit.writer,
        opened_at=commit.at,
        first_opened_at=batch.first_opened_at or commit.at,
        uncertain_at=None,
        since={},
        file_id=None,
        other_files=batch.files,
        fault=None,
        code=None,
        needs_person=False,
        unsent=None,
        not_before=None,
        note=None,
    )


def _status_changed(batch: BatchState, event: StatusChanged, commit: Commit) -> BatchState:
    if batch.phase not in AT_PROVIDER:
        return batch
    phase: Phase = "running" if event.running or batch.phase == "running" else "submitted"
    since = {commit.boot: commit.uptime}
    awaits = event.is_without_files
    return replace(batch, remote_status=event.word, awaits_files=awaits, status_at=commit.at, since=since, phase=phase)


def _ended(batch: BatchState, event: Ended, commit: Commit) -> BatchState:
    if batch.phase not in AT_PROVIDER:
        return batch
    if event.fault in {"account", "rate"} and not event.parts:
        reason = event.faults[0].reason if event.faults else event.status
        return replace(
            batch,
            phase="cancelled" if batch.cancel_asked else "refused",
            remote_id=None,
            remote_status=event.status,
            awaits_files=False,
            spent=(*batch.spent, batch.remote_id or ""),
            fault=event.fault,
            not_before=event.not_before,
            note=reason,
        )
    return replace(
        batch,
        phase="ended",
        end=event.end,
        ended_at=commit.at,
        since={commit.boot: commit.uptime},
        remote_status=event.status,
        awaits_files=False,
        remote_parts=event.parts,
        remote_lines=event.lines,
        faults=event.faults,
        fault=event.fault,
        not_before=event.not_before,
    )


def _stored(batch: BatchState, event: OutputsStored, _: Commit) -> BatchState:
    return replace(batch, parts=event.parts, phase="stored") if batch.phase == "ended" else batch


def _published(batch: BatchState, event: RowsPublished, _: Commit) -> BatchState:
    if batch.phase == "published":
        return batch
    return replace(batch, counts=event.counts, again=event.again, rows=event, proven=True, phase="published")


def _cleaned(batch: BatchState, _event: RemoteCleaned, _: Commit) -> BatchState:
    return replace(batch, cleaned=True)


AttemptEvent = FileUploaded | Submitted | Uncertain | Adopted | Voided | Held | Refused


def _tried(batch: BatchState, event: AttemptEvent, commit: Commit) -> BatchState:
    if isinstance(event, Submitted | Adopted):
        return _made(batch, event, commit)
    if batch.phase == "published" or event.attempt != batch.attempt:
        return _superseded(batch, event, commit)
    return _attempted(batch, event, commit)


def _attempted(
    batch: BatchState, event: FileUploaded | Uncertain | Voided | Held | Refused, commit: Commit
) -> BatchState:
    if isinstance(event, Held) and batch.phase in AT_PROVIDER | {"ended", "stored"}:
        return replace(batch, phase="held", note=event.reason)
    if isinstance(event, Uncertain) and batch.phase in {"ended", "stored"} and not batch.proven:
        return _doubted(_without_remote(batch), event, commit)
    if batch.phase not in UNSETTLED:
        return _superseded(batch, event, commit)
    match event:
        case FileUploaded(file_id=file_id):
            return replace(batch, file_id=file_id)
        case Uncertain():
            return _doubted(batch, event, commit)
        case Held(reason=reason):
            return replace(batch, phase="held", note=reason)
        case Voided(reason=reason):
            given_up = {**batch.voided, batch.attempt: batch.batch_key or ""}
            over = replace(
                _without_remote(batch),
                phase="cancelled" if batch.cancel_asked else "voided",
                voided=given_up,
                voided_at=commit.at,
                since={commit.boot: commit.uptime},
                note=reason,
            )
            return _with_what_turned_up(over, commit)
        case Refused(fault=fault, reason=reason):
            unsent = event.why_unsent
            over = replace(
                batch,
                phase="cancelled" if batch.cancel_asked else "refused",
                fault=fault,
                code=event.code,
                needs_person=event.needs_person,
                not_before=event.not_before,
                unsent=unsent,
                note=reason if unsent is None else f"not sent: {unsent}",
            )
            return _with_what_turned_up(over, commit)
        case _:
            assert_never(event)


def _doubted(batch: BatchState, event: Uncertain, commit: Commit) -> BatchState:
    """Whether there is a batch is not known: everybody counts from when its author stopped trying, by his own clock."""
    here = {commit.boot: commit.uptime}
    if batch.phase == "uncertain" and commit.writer != batch.writer:
        return replace(batch, since={**here, **batch.since}, note=event.reason)
    return replace(batch, phase="uncertain", uncertain_at=commit.at, since=here, note=event.reason)


_NOT_THERE: frozenset[Phase] = frozenset({"voided", "refused", "cancelled"})
_GUESSED: frozenset[Phase] = AT_PROVIDER | {"ended", "stored", "held"}


def _made(batch: BatchState, event: Submitted | Adopted, commit: Commit) -> BatchState:
    """The provider has a batch: a fact, whoever says it and whatever was thought of the attempt meanwhile.

    What was adopted as only probable gives way to it; a guess gives way to everything.
    """
    is_guess = isinstance(event, Adopted) and not event.proven
    is_last = event.attempt == batch.attempt
    if batch.phase in _NOT_THERE and not is_guess and event.remote_id not in batch.spent:
        return _followed(batch, event.remote_id, commit)
    if is_last and batch.phase in UNSETTLED and (batch.phase == "held" or event.remote_id not in batch.superseded):
        return _followed(batch, event.remote_id, commit, proven=not is_guess)
    if is_last and batch.phase in _GUESSED and not batch.proven and not is_guess:
        if event.remote_id == batch.remote_id:
            return replace(batch, proven=True)
        return _followed(_without_remote(batch), event.remote_id, commit)
    return batch if is_guess else _superseded(batch, event, commit)


def _followed(batch: BatchState, remote_id: str, commit: Commit, *, proven: bool = True) -> BatchState:
    """From now on the batch is this one at the provider."""
    return replace(
        batch,
        phase="submitted",
        remote_id=remote_id,
        superseded=tuple(other for other in batch.superseded if other != remote_id),
        proven=proven,
        awaits_files=False,
        submitted_at=commit.at,
        uncertain_at=None,
        fault=None,
        needs_person=False,
        unsent=None,
        note=None,
    )


def _with_what_turned_up(batch: BatchState, commit: Commit) -> BatchState:
    """Follow a batch of an earlier attempt, where one turned up, instead of making another."""
    return _followed(batch, batch.superseded[-1], commit) if batch.superseded else batch


def _without_remote(batch: BatchState) -> BatchState:
    """Forget a batch that has nothing for us, but not its name; one that was only guessed may be another's."""
    if batch.remote_id is None:
        return batch
    spent = (*batch.spent, batch.remote_id) if batch.proven else batch.spent
    return replace(batch, remote_id=None, spent=spent, proven=True, end=None, parts=(), remote_parts={})


def _superseded(batch: BatchState, event: AttemptEvent, _: Commit) -> BatchState:
    """Keep the name of a batch, or of an input, that turned up for an attempt which is over or no longer the last."""
    match event:
        case Submitted(remote_id=remote_id) | Adopted(remote_id=remote_id, proven=True) if remote_id not in {
            *batch.superseded,
            *batch.spent,
            batch.remote_id,
        }:
            return replace(batch, superseded=(*batch.superseded, remote_id))
        case FileUploaded(file_id=file_id) if file_id not in batch.files:
            return replace(batch, other_files=(*batch.other_files, file_id), cleaned=False)
        case _:
            return batch


def _still_uncertain(batch: BatchState, event: Uncertain, commit: Commit) -> BatchState:
    is_same = batch.phase == "uncertain" and batch.attempt == event.attempt
    return _doubted(batch, event, commit) if is_same else batch


def _refused_after_all(batch: BatchState, event: Refused, commit: Commit) -> BatchState:
    """That a writer's own attempt made no batch is a fact, for nobody else could have made one."""
    is_own = batch.attempt == event.attempt and batch.writer == commit.writer
    return _attempted(batch, event, commit) if is_own else batch


_Rule = Callable[[BatchState, Any, Commit], BatchState]  # Any: each rule names the events that it is for

_RULES: dict[type[AnyEvent], _Rule] = {
    InputStored: _prepared,
    AttemptOpened: _opened,
    **dict.fromkeys((FileUploaded, Submitted, Uncertain, Adopted, Voided, Held, Refused), _tried),
    StatusChanged: _status_changed,
    Ended: _ended,
    OutputsStored: _stored,
    RowsPublished: _published,
    RemoteCleaned: _cleaned,
}

# What a writer did before it learned that it had been replaced: its files, its sending, its batch.
_RULES_OF_THE_REPLACED: dict[type[AnyEvent], _Rule] = {
    Submitted: _made,
    Adopted: _made,
    FileUploaded: _superseded,
    Uncertain: _still_uncertain,
    Refused: _refused_after_all,
}
