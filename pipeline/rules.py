"""What each event makes of the batch that it is about: one rule a kind, over the phases that a batch goes through.

A rule leaves alone what it is not for: an event may come late, twice, or from a writer that had been replaced.
"""

from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from pipeline.domain import Counts
from pipeline.events import (
    Adopted,
    AnyEvent,
    AttemptOpened,
    BatchPlanned,
    Commit,
    Ended,
    FileUploaded,
    Held,
    InputStored,
    OutputsStored,
    Refused,
    RemoteCleaned,
    RowsPublished,
    StatusChanged,
    Submitted,
    Uncertain,
    Voided,
)
from pipeline.state import AT_PROVIDER, NOT_SENT, UNSETTLED, BatchDraft, Phase

_NOT_THERE: frozenset[Phase] = frozenset({"voided", "refused", "cancelled"})
_GUESSED: frozenset[Phase] = AT_PROVIDER | {"ended", "stored", "held"}


def planned(event: BatchPlanned, place: int) -> BatchDraft:
    """Return the batch that is planned, `place` others before it."""
    batch = BatchDraft(
        batch_id=event.batch_id,
        segment=event.segment,
        send=event.send,
        requests=event.requests,
        after=event.after,
        place=place,
        counts=Counts(planned=event.requests),
    )
    if event.not_before is not msgspec.UNSET:
        batch.fault = "account" if isinstance(event.fault, msgspec.UnsetType) else event.fault
        batch.needs_person = batch.fault == "account"
        batch.not_before = event.not_before
        batch.note = event.reason or None
    return batch


def ask_to_cancel(batch: BatchDraft) -> None:
    """A person wants its end; what is not sent yet has come to it."""
    batch.cancel_asked = batch.phase not in {"published", "cancelled"}
    if batch.phase in NOT_SENT:
        batch.phase = "cancelled"
        batch.note = "cancelled before it was sent"


def _prepared(batch: BatchDraft, event: InputStored, _: Commit) -> None:
    if batch.phase == "planned":
        batch.phase = "prepared"
        batch.input = event


def _opened(batch: BatchDraft, event: AttemptOpened, commit: Commit) -> None:
    if batch.phase not in NOT_SENT or event.attempt != batch.attempt + 1:
        return
    if batch.phase in _NOT_THERE:
        _forget_attempt(batch)
    batch.phase = "submitting"
    batch.attempt = event.attempt
    batch.batch_key = event.batch_key
    batch.account = event.account
    batch.writer = commit.writer
    batch.opened_at = commit.at
    batch.first_opened_at = batch.first_opened_at or commit.at
    batch.fault = batch.unsent = batch.not_before = batch.note = None
    batch.needs_person = False


def _forget_attempt(batch: BatchDraft) -> None:
    """Forget how the attempt before went, but not its input."""
    batch.uncertain_at = batch.code = None
    batch.since = {}
    batch.other_files, batch.file_id = batch.files, None


def _status_changed(batch: BatchDraft, event: StatusChanged, commit: Commit) -> None:
    if batch.phase not in AT_PROVIDER:
        return
    if event.running:
        batch.phase = "running"
    batch.remote_status = event.word
    batch.awaits_files = event.is_without_files
    batch.status_at = commit.at
    batch.since = {commit.boot: commit.uptime}


def _ended(batch: BatchDraft, event: Ended, commit: Commit) -> None:
    if batch.phase not in AT_PROVIDER:
        return
    batch.remote_status = event.status
    batch.awaits_files = False
    batch.fault = event.fault
    batch.not_before = event.not_before
    if event.fault in {"account", "rate"} and not event.parts:
        batch.phase = "cancelled" if batch.cancel_asked else "refused"
        batch.spent = (*batch.spent, batch.remote_id or "")
        batch.remote_id = None
        batch.note = event.faults[0].reason if event.faults else event.status
        return
    batch.phase = "ended"
    batch.end = event.end
    batch.ended_at = commit.at
    batch.since = {commit.boot: commit.uptime}
    batch.remote_parts = event.parts
    batch.remote_lines = event.lines
    batch.faults = event.faults


def _stored(batch: BatchDraft, event: OutputsStored, _: Commit) -> None:
    if batch.phase == "ended":
        batch.phase = "stored"
        batch.parts = event.parts


def _published(batch: BatchDraft, event: RowsPublished, _: Commit) -> None:
    if batch.phase != "published":
        batch.phase = "published"
        batch.counts = event.counts
        batch.again = event.again
        batch.rows = event
        batch.proven = True


def _cleaned(batch: BatchDraft, _event: RemoteCleaned, _: Commit) -> None:
    batch.cleaned = True


def _tried(batch: BatchDraft, event: FileUploaded | Uncertain | Voided | Held | Refused, commit: Commit) -> None:
    if batch.phase == "published" or event.attempt != batch.attempt:
        _superseded(batch, event, commit)
    else:
        _attempted(batch, event, commit)


def _attempted(batch: BatchDraft, event: FileUploaded | Uncertain | Voided | Held | Refused, commit: Commit) -> None:
    if isinstance(event, Held) and batch.phase in AT_PROVIDER | {"ended", "stored"}:
        _held(batch, event)
    elif isinstance(event, Uncertain) and batch.phase in {"ended", "stored"} and not batch.proven:
        _forget_remote(batch)
        _doubted(batch, event, commit)
    elif batch.phase not in UNSETTLED:
        _superseded(batch, event, commit)
    else:
        _told(batch, event, commit)


def _told(batch: BatchDraft, event: FileUploaded | Uncertain | Voided | Held | Refused, commit: Commit) -> None:
    """Take what is said of an attempt of which it is not settled whether it made a batch."""
    match event:
        case FileUploaded(file_id=file_id):
            batch.file_id = file_id
        case Uncertain():
            _doubted(batch, event, commit)
        case Held():
            _held(batch, event)
        case Voided():
            _voided(batch, event, commit)
        case Refused():
            _refused(batch, event, commit)
        case _:
            assert_never(event)


def _held(batch: BatchDraft, event: Held) -> None:
    batch.phase = "held"
    batch.note = event.reason


def _voided(batch: BatchDraft, event: Voided, commit: Commit) -> None:
    _forget_remote(batch)
    batch.phase = "cancelled" if batch.cancel_asked else "voided"
    batch.voided = {**batch.voided, batch.attempt: batch.batch_key or ""}
    batch.voided_at = commit.at
    batch.since = {commit.boot: commit.uptime}
    batch.note = event.reason
    _follow_what_turned_up(batch, commit)


def _refused(batch: BatchDraft, event: Refused, commit: Commit) -> None:
    batch.phase = "cancelled" if batch.cancel_asked else "refused"
    batch.fault = event.fault
    batch.code = event.code
    batch.needs_person = event.needs_person
    batch.not_before = event.not_before
    batch.unsent = event.why_unsent
    batch.note = event.reason if batch.unsent is None else f"not sent: {batch.unsent}"
    _follow_what_turned_up(batch, commit)


def _doubted(batch: BatchDraft, event: Uncertain, commit: Commit) -> None:
    """Whether there is a batch is not known: everybody counts from when its author stopped trying, by his own clock."""
    here = {commit.boot: commit.uptime}
    batch.note = event.reason
    if batch.phase == "uncertain" and commit.writer != batch.writer:
        batch.since = {**here, **batch.since}
        return
    batch.phase = "uncertain"
    batch.uncertain_at = commit.at
    batch.since = here


def _made(batch: BatchDraft, event: Submitted | Adopted, commit: Commit) -> None:
    """The provider has a batch: a fact, whoever says it and whatever was thought of the attempt meanwhile.

    What was adopted as only probable gives way to it; a guess gives way to everything.
    """
    is_guess = isinstance(event, Adopted) and not event.proven
    is_last = event.attempt == batch.attempt
    if batch.phase in _NOT_THERE and not is_guess and event.remote_id not in batch.spent:
        _follow(batch, event.remote_id, commit)
    elif is_last and batch.phase in UNSETTLED and (batch.phase == "held" or event.remote_id not in batch.superseded):
        _follow(batch, event.remote_id, commit, proven=not is_guess)
    elif is_last and batch.phase in _GUESSED and not batch.proven and not is_guess:
        if event.remote_id == batch.remote_id:
            batch.proven = True
        else:
            _forget_remote(batch)
            _follow(batch, event.remote_id, commit)
    elif not is_guess:
        _superseded(batch, event, commit)


def _follow(batch: BatchDraft, remote_id: str, commit: Commit, *, proven: bool = True) -> None:
    """From now on the batch is this one at the provider."""
    batch.phase = "submitted"
    batch.remote_id = remote_id
    batch.proven = proven
    batch.submitted_at = commit.at
    batch.awaits_files = False
    batch.uncertain_at = batch.fault = batch.unsent = batch.note = None
    batch.needs_person = False
    if batch.superseded:
        batch.superseded = tuple(other for other in batch.superseded if other != remote_id)


def _follow_what_turned_up(batch: BatchDraft, commit: Commit) -> None:
    """Follow a batch of an earlier attempt, where one turned up, instead of making another."""
    if batch.superseded:
        _follow(batch, batch.superseded[-1], commit)


def _forget_remote(batch: BatchDraft) -> None:
    """Forget a batch that has nothing for us, but not its name; one that was only guessed may be another's."""
    if batch.remote_id is None:
        return
    if batch.proven:
        batch.spent = (*batch.spent, batch.remote_id)
    batch.proven = True
    batch.remote_id = batch.end = None
    batch.parts = ()
    batch.remote_parts = {}


AttemptEvent = FileUploaded | Submitted | Uncertain | Adopted | Voided | Held | Refused


def _superseded(batch: BatchDraft, event: AttemptEvent, _: Commit) -> None:
    """Keep the name of a batch, or of an input, that turned up for an attempt which is over or no longer the last."""
    match event:
        case Submitted(remote_id=remote_id) | Adopted(remote_id=remote_id, proven=True):
            if remote_id not in {*batch.superseded, *batch.spent, batch.remote_id}:
                batch.superseded = (*batch.superseded, remote_id)
        case FileUploaded(file_id=file_id) if file_id not in batch.files:
            batch.other_files = (*batch.other_files, file_id)
            batch.cleaned = False


def _still_uncertain(batch: BatchDraft, event: Uncertain, commit: Commit) -> None:
    if batch.phase == "uncertain" and batch.attempt == event.attempt:
        _doubted(batch, event, commit)


def _refused_after_all(batch: BatchDraft, event: Refused, commit: Commit) -> None:
    """That a writer's own attempt made no batch is a fact, for nobody else could have made one."""
    if batch.attempt == event.attempt and batch.writer == commit.writer:
        _attempted(batch, event, commit)


Rule = Callable[[BatchDraft, Any, Commit], None]  # Any: each rule names the events that it is for

RULES: dict[type[AnyEvent], Rule] = {
    InputStored: _prepared,
    AttemptOpened: _opened,
    **dict.fromkeys((Submitted, Adopted), _made),
    **dict.fromkeys((FileUploaded, Uncertain, Voided, Held, Refused), _tried),
    StatusChanged: _status_changed,
    Ended: _ended,
    OutputsStored: _stored,
    RowsPublished: _published,
    RemoteCleaned: _cleaned,
}

# What a writer did before it learned that it had been replaced: its files, its sending, its batch.
RULES_OF_THE_REPLACED: dict[type[AnyEvent], Rule] = {
    Submitted: _made,
    Adopted: _made,
    FileUploaded: _superseded,
    Uncertain: _still_uncertain,
    Refused: _refused_after_all,
}
