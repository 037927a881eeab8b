"""What is to be told of a batch to a person: why it is worth a look, what helps, and what it waits for."""

from datetime import datetime, timedelta

import msgspec

from pipeline.ids import BatchId, RunId
from pipeline.planning import files_until, is_being_cancelled, quiet_until
from pipeline.state import AT_PROVIDER, BatchState

_LONGEST_WINDOW = timedelta(hours=26)
_LONGEST_STEP = timedelta(hours=6)
_STEPS = frozenset({"validating", "finalizing"})  # what a provider does in minutes
_MENDED = "mend the account; `pairlog resume` then sends it at once"


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Why a batch is worth a look, what helps, and whether a person is needed or it will go on by itself."""

    reason: str
    remedies: tuple[str, ...] = ()
    needs_person: bool


def attention(
    run_id: RunId, batch: BatchState, now: datetime, *, kept: timedelta, quiet: timedelta
) -> Attention | None:
    """Return why somebody should look at the batch, or None; its provider keeps answers for so long.

    What may have been created is looked for during a `quiet` period before it is sent again.

    What only a hand moves on goes before what takes too long, and that before what is tried again by itself.
    """
    if batch.phase in {"published", "cancelled"}:
        return None
    said = batch.note or f"{batch.phase}, and nobody said why"
    if batch.phase == "held":
        return Attention(reason=said, remedies=ways_to_settle(run_id, batch.batch_id), needs_person=True)
    if batch.needs_person:
        return Attention(reason=said, remedies=(_MENDED,), needs_person=True)
    if late := alarm(batch, now, kept=kept):
        return Attention(reason=late, needs_person=True)
    if batch.phase == "uncertain":
        return Attention(reason=said, remedies=(_settles(batch, quiet),), needs_person=False)
    return Attention(reason=said, needs_person=False) if batch.phase == "refused" else None


def _settles(batch: BatchState, quiet: timedelta) -> str:
    """Return what becomes of a batch that may have been created."""
    until = quiet_until(batch, quiet)
    when = f", which it waits for until about {until:%H:%M:%S} UTC" if until else ""
    there, else_ = ("stopped", "cancelled") if batch.cancel_asked else ("taken over", "sent again")
    return f"`pairlog resume` settles it: it is {there} if the provider has it, else {else_}{when}"


def remark(batch: BatchState, quiet: timedelta) -> str | None:
    """Return what is to be said of a batch that goes on by itself, or None."""
    if until := files_until(batch, quiet):
        return (
            f"the provider calls it {batch.remote_status} and shows no answers; they are waited for until about "
            f"{until:%H:%M:%S} UTC, since they would be paid for"
        )
    if is_being_cancelled(batch) and batch.proven:
        return "being cancelled; what is answered until it ends is kept"
    if is_being_cancelled(batch):
        return "to be cancelled, but not stopped at the provider: it is not proven to be ours yet"
    return batch.note


def ways_to_settle(run_id: RunId, batch_id: BatchId) -> tuple[str, ...]:
    """Return the commands by which a person says what became of a held batch, and when each is right."""
    return (
        f"`pairlog adopt {run_id} {batch_id} REMOTE_ID` if the provider has it",
        f"`pairlog void {run_id} {batch_id}` if it does not",
    )


def alarm(batch: BatchState, now: datetime, *, kept: timedelta) -> str | None:
    """Return what a person should know about a batch that takes too long, or None; answers are `kept` so long."""
    waits = now - batch.submitted_at if batch.submitted_at else timedelta()
    if batch.phase in AT_PROVIDER and waits > _LONGEST_WINDOW:
        return f"at the provider for {_hours(waits)}; it is not sent again while it is open there"
    stays = now - batch.status_at if batch.status_at and batch.remote_status in _STEPS else timedelta()
    if batch.phase in AT_PROVIDER and stays > _LONGEST_STEP:
        return f"{batch.remote_status} for {_hours(stays)}; it is not sent again while it is open there"
    rests = now - batch.ended_at if batch.ended_at else timedelta()
    if batch.phase == "ended" and rests > kept / 4:
        return f"ended {_hours(rests)} ago and not fetched; the provider keeps answers for some {_hours(kept)}"
    return None


def _hours(span: timedelta) -> str:
    return f"{span.total_seconds() / 3600:.0f} hours"
