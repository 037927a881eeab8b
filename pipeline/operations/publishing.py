"""From raw outputs to rows: every request of a batch gets a row, or is planned again, and is counted either way."""

from collections import Counter
from collections.abc import Container

from pipeline import planning
from pipeline.domain import STATUSES, Counts
from pipeline.errors import ConflictError
from pipeline.events import BatchPlanned, CancelAsked, RowsPublished
from pipeline.ids import digest
from pipeline.operations.outputs import Reading
from pipeline.operations.settling import hold
from pipeline.operations.worker import Run
from pipeline.state import BatchState
from pipeline.storage import keys
from pipeline.storage.tables import opened


def publish_due(run: Run, *, only: Container[int] | None = None) -> int:
    """Publish the rows of every batch whose outputs are stored, or that will never have any; return how many.

    Args:
        only: publish nothing but these slices.
    """
    due = planning.due(run.refresh(), run.worker.clock.now(), only=only).publish
    published = 0
    for batch in due:
        if not run.keep():
            break
        publish(run, batch)
        published += 1
    return published


def publish(run: Run, batch: BatchState) -> None:
    """Publish the batch's rows and plan what got no answer, in one commit."""
    reading = Reading(run, batch)
    if reading.is_anothers():
        hold(run, batch, f"{batch.remote_id} holds other requests than this batch; it is not ours")
        return
    key = keys.comparisons(run.experiment.name, run.run_id, batch.batch_id)
    store = run.worker.store
    if not store.exists(key):
        body = reading.table()
        if reading.written:
            try:
                store.put_new(key, body)
            except ConflictError:
                run.notify(batch, "was published by another worker")
    event = _published(run, batch, key, reading) if store.exists(key) else _nothing_published(batch, reading)
    _commit(run, batch, event, burns=not (reading.spared and event.counts.ended))


def _published(run: Run, batch: BatchState, key: str, reading: Reading) -> RowsPublished:
    """Return the event for the rows that can be read now, whoever wrote them."""
    with opened(run.worker.store, key) as file:
        found = Counter(file.read(columns=["status"]).column("status").to_pylist())
    ended = sum(found.values())
    return RowsPublished(
        batch_id=batch.batch_id,
        key=key,
        digest=digest(run.worker.store.get(key)),
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


def _commit(run: Run, batch: BatchState, event: RowsPublished, *, burns: bool) -> None:
    following: list[BatchPlanned] = []
    if event.again:
        following.append(planning.next_batch(batch, again=event.again, burns=burns))
        run.notify(batch, f"{event.again} requests got no answer and are sent again")
    while (now := run.refresh().batches[batch.batch_id]).phase != "published":
        unwanted = [CancelAsked(batch_ids=(each.batch_id,)) for each in following if now.cancel_asked]
        try:
            run.decide(event, *following, *unwanted)
        except ConflictError:
            continue
