"""From raw outputs to rows: every request of a batch gets a row, or is planned again, and is counted either way."""

from collections.abc import Container
from datetime import timedelta

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import planning
from pipeline.domain import STATUSES, Counts
from pipeline.errors import ConflictError, CorruptObjectError
from pipeline.events import AnyEvent, BatchPlanned, CancelAsked, RowsPublished, Uncertain
from pipeline.ids import Digest, digest
from pipeline.operations.batches.late import may_turn_up
from pipeline.operations.batches.outputs import Reading
from pipeline.operations.batches.recording import Gathered
from pipeline.operations.batches.settling import hold
from pipeline.operations.workers.run import Run
from pipeline.state import BatchState, Phase
from pipeline.storage import keys
from pipeline.storage.objects import measured
from pipeline.storage.tables import opened
from pipeline.tasks import task_named
from pipeline.wording import counted


class _Publication(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch came to as it was in this phase, and what is planned for the requests that got no answer."""

    phase: Phase
    rows: RowsPublished
    following: tuple[BatchPlanned, ...]


def publish_due(run: Run, *, only: Container[int] | None = None) -> int:
    """Publish the rows of every batch whose outputs are stored, or that will never have any; return how many.

    Args:
        only: publish nothing but these segments.
    """
    published = 0
    gathered: Gathered[_Publication] = Gathered(run.worker.clock, lambda found: _commit(run, found))
    with gathered:
        for batch in planning.due(run.refresh(), run.worker.clock.now(), only=only).publish:
            if not run.keep():
                break
            if may_turn_up(run, batch):
                continue
            size = sum(part.bytes for part in batch.parts)
            gathered.begin(size)
            publication = _publication(run, batch)
            if publication is not None:
                gathered.add(publication, size=size)
            published += 1
    return published


def _publication(run: Run, batch: BatchState) -> _Publication | None:
    """Write the batch's rows; return what is to be told of them, or None if it is held."""
    reading = Reading(run, batch)
    if unread := reading.unread():
        hold(run, batch, f"{batch.remote_id} came back as {unread}; they are kept, and nothing is bought again")
        return None
    if reading.is_anothers():
        _disown(run, batch)
        return None
    if unshown := reading.unshown():
        hold(run, batch, f"the provider calls {batch.remote_id} {batch.remote_status} and shows {unshown}")
        return None
    rows = _rows(run, batch, reading)
    if not rows.again:
        return _Publication(phase=batch.phase, rows=rows, following=())
    if not batch.cancel_asked:
        run.notify(batch, f"{counted(rows.again, 'request')} got no answer and will be sent again")
    pause = _stopped(run, batch) or _pause(run, reading.unpaid(rows.again))
    burns = not (reading.spared and rows.counts.ended) and not batch.cancel_asked and pause is None
    following = (planning.next_batch(batch, again=rows.again, burns=burns, pause=pause),)
    return _Publication(phase=batch.phase, rows=rows, following=following)


def _disown(run: Run, batch: BatchState) -> None:
    """Look further for a batch that was adopted as only probable and is another's; what was proven ours is held."""
    reason = f"{batch.remote_id} does not hold the requests of this batch; it is not ours"
    if batch.proven:
        hold(run, batch, reason)
    else:
        run.record(Uncertain(batch_id=batch.batch_id, attempt=batch.attempt, reason=reason))
        run.notify(batch, f"{reason}; it is looked for again", warning=True)


def _stopped(run: Run, batch: BatchState) -> planning.Pause | None:
    """Return how long to wait if the provider ended the batch half-way by no fault of its lines, else None."""
    if batch.fault is None or batch.fault == "content":
        return None
    until = run.worker.clock.now() + timedelta(seconds=run.worker.pace.pause)
    reason = batch.faults[0].reason if batch.faults else batch.remote_status
    return planning.Pause(until=until, reason=f"the provider stopped the batch: {reason}", fault=batch.fault)


def _pause(run: Run, unpaid: str | None) -> planning.Pause | None:
    """Return how long to wait before requests are sent again that got no answer for a reason of the account."""
    if unpaid is None or run.is_live:
        return None
    until = run.worker.clock.now() + timedelta(seconds=run.worker.pace.pause)
    return planning.Pause(until=until, reason=f"every request without an answer failed for the account: {unpaid}")


def _rows(run: Run, batch: BatchState, reading: Reading) -> RowsPublished:
    """Store the rows, if there are any and nobody stored them first; return the event for those that can be read."""
    key = keys.rows(task_named(run.config.task).TABLE, run.experiment.name, run.run_id, batch.batch_id)
    store = run.worker.store
    if store.exists(key):
        return _found(run, batch, key, reading)
    body = b"" if planning.may_be_revived(batch) else reading.table()
    if not body or not reading.written:
        return _nothing_published(batch, reading)
    try:
        store.put_new(key, body)
    except ConflictError:
        run.notify(batch, "was published by another worker")
        return _found(run, batch, key, reading)
    return _published(batch, reading, key=key, content=digest(body), rows=pq.ParquetFile(pa.BufferReader(body)))


def _found(run: Run, batch: BatchState, key: str, reading: Reading) -> RowsPublished:
    """Return the event for rows that were there, whoever wrote them; raises if they know nothing of what came back.

    A copy of a store that was taken while somebody cancelled in it may hold such rows and a log that does not say so.
    """
    content = measured(run.worker.store, key).digest()
    with opened(run.worker.store, key) as rows:
        if batch.remote_id is not None and _are_of_nothing_sent(rows):
            raise CorruptObjectError(
                f"{key} says that nothing was sent, but {batch.remote_id} came back; move that object out of the store"
            )
        return _published(batch, reading, key=key, content=content, rows=rows)


def _are_of_nothing_sent(rows: pq.ParquetFile) -> bool:
    remotes = rows.read(columns=["remote_batch_id"]).column(0)
    return len(remotes) > 0 and not remotes.drop_null()


def _published(
    batch: BatchState, reading: Reading, *, key: str, content: Digest, rows: pq.ParquetFile
) -> RowsPublished:
    counted = rows.read(columns=["status"]).column("status").value_counts()
    found = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
    ended = sum(found.values())
    return RowsPublished(
        batch_id=batch.batch_id,
        key=key,
        digest=content,
        counts=Counts(planned=ended, **{status: found.get(status, 0) for status in STATUSES}),
        again=batch.requests - ended,
        damaged=reading.damaged,
        foreign=reading.foreign,
        doubled=reading.doubled,
    )


def _nothing_published(batch: BatchState, reading: Reading) -> RowsPublished:
    return RowsPublished(
        batch_id=batch.batch_id,
        key=None,
        digest=None,
        counts=Counts(),
        again=batch.requests,
        damaged=reading.damaged,
        foreign=reading.foreign,
        doubled=reading.doubled,
    )


def _commit(run: Run, found: list[_Publication]) -> None:
    """Publish, and plan what follows, in one commit; a batch that is not what it was when it was read is left alone."""
    while True:
        batches = run.refresh().batches
        events: list[AnyEvent] = []
        for each in found:
            batch = batches[each.rows.batch_id]
            if batch.phase == each.phase:
                events += (each.rows, *each.following)
                events += (CancelAsked(batch_ids=(new.batch_id,)) for new in each.following if batch.cancel_asked)
        try:
            if events:
                run.decide(*events)
        except ConflictError:
            continue
        return
