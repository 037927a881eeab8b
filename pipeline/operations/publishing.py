"""From raw outputs to rows: every request of a batch gets a row, or is planned again, and is counted either way."""

from collections import Counter
from collections.abc import Container, Iterator
from itertools import islice

import msgspec

from pipeline import planning
from pipeline.domain import STATUSES, Counts, Output, Status
from pipeline.errors import ConflictError
from pipeline.events import BatchPlanned, CancelAsked, RowsPublished
from pipeline.ids import RequestId, digest
from pipeline.operations.rows import Row, RowBuilder
from pipeline.operations.settling import hold
from pipeline.operations.worker import Run
from pipeline.state import BatchState
from pipeline.storage import keys
from pipeline.storage.streams import decompressed, lines
from pipeline.storage.tables import opened, parquet_bytes
from pipeline.tasks import task_named
from pipeline.tasks.answers import Unparsed

_FAILURES = frozenset({"errored", "expired", "cancelled"})
_LINES_THAT_TELL = 200
_ID_FIELDS = ("custom_id", "key", "request_id", "recordId", "batch_request_id")
_UNANSWERED: frozenset[Status] = frozenset({"expired", "missing"})


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
    reading = _Reading(run, batch)
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


def _published(run: Run, batch: BatchState, key: str, reading: "_Reading") -> RowsPublished:
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


def _nothing_published(batch: BatchState, reading: "_Reading") -> RowsPublished:
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


class _Reading:
    """One reading of a batch's outputs: which rows they give, and what was wrong with them."""

    def __init__(self, run: Run, batch: BatchState) -> None:
        self._run = run
        self._batch = batch
        self._task = task_named(run.config.task)
        members = run.members(batch)
        self._members = members.tolist()
        self._positions = dict(zip(run.renderer.request_ids(members), self._members, strict=True))
        plan = run.state.plan
        assert plan is not None, "a batch is only planned in a planned run"
        self._again = batch.send < plan.attempts and not batch.cancel_asked
        self._lines = {position: line for line, position in enumerate(run.sendable(batch).tolist(), start=1)}
        self._named = self._named_lines()
        self.spared = bool(self._named) and not batch.cancel_asked
        self.written = self.damaged = self.foreign = self.doubled = 0

    def table(self) -> bytes:
        """Return the rows as Parquet; read once more when a line turned out to contradict an earlier one."""
        contradicted: set[int] = set()
        while True:
            self.written = self.damaged = self.foreign = self.doubled = 0
            builder = RowBuilder(self._run, self._batch)
            known = len(contradicted)
            body = parquet_bytes(builder.schema, builder.batches(self._rows(contradicted)), metadata={})
            if len(contradicted) == known:
                return body

    def is_anothers(self) -> bool:
        """Say whether lines came back and none of them answers a request of this batch."""
        read = list(islice(self._outputs(), _LINES_THAT_TELL))
        return bool(read) and not any(output.request_id in self._positions for output, _ in read)

    def _rows(self, contradicted: set[int]) -> Iterator[Row]:
        """Yield the rows that are final, then what became of the requests that no line answers."""
        seen: dict[int, int] = {}
        waiting: dict[int, Row] = {}
        for output, late in self._outputs():
            position = self._positions.get(RequestId(output.request_id))
            if position is None:
                self.foreign += 1
                continue
            mark = hash(_meaning(output))
            if position in seen and position not in waiting:
                self.doubled += 1
                if seen[position] != mark and not late and output.status not in _FAILURES:
                    contradicted.add(position)
                continue
            seen[position] = mark
            row = self._read(position, output, contradicted)
            if row.again or row.status in _UNANSWERED:
                waiting[position] = row
            else:
                waiting.pop(position, None)
                yield from self._ended(row)
        for position in self._members:
            if position in waiting or position not in seen:
                yield from self._ended(waiting.get(position) or self._unanswered(position))

    def _outputs(self) -> Iterator[tuple[Output, bool]]:
        """Yield what can be read of the outputs, and whether it came for an attempt that had been given up."""
        decode = self._run.decode
        for part in sorted(self._batch.parts, key=lambda part: (part.name.startswith("late"), part.name == "error")):
            with self._run.worker.store.open(part.key) as file:
                for line in lines(decompressed(file, key=part.key)):
                    try:
                        if line is None:
                            raise ValueError("longer than a line may be")  # noqa: TRY301 - one place counts damage
                        yield decode(line), part.name.startswith("late")
                    except (ValueError, msgspec.DecodeError, RecursionError):
                        self.damaged += 1
                        if (name := self._named_in(line)) is not None:
                            yield Output(request_id=name, status="errored", reason="unreadable"), True

    def _named_in(self, line: bytes | None) -> RequestId | None:
        """Return which request a line answers that is whole but not as we know it: paid for, not to be bought again."""
        try:
            fields = msgspec.json.decode((line or b"").decode(), type=dict[str, object])
        except (ValueError, msgspec.DecodeError, RecursionError):
            return None
        names = (fields.get(key) for key in _ID_FIELDS)
        return next((RequestId(name) for name in names if isinstance(name, str) and name in self._positions), None)

    def _read(self, position: int, output: Output, contradicted: set[int]) -> Row:
        """Return the row of a request whose output came back."""
        if position in contradicted:
            return Row(position=position, status="errored", reason="two_outputs", again=True)
        if output.status != "answered":
            return Row(position=position, output=output, status=output.status, reason=output.reason, again=output.again)
        config = self._run.config
        answer = self._task.read(output.content, answer=config.judge.answer, tags=config.tags, ties=config.ties)
        if isinstance(answer, Unparsed):
            return Row(position=position, output=output, status="unparsed", reason=answer.reason)
        return Row(position=position, output=output, status="ok", outcome=answer)

    def _unanswered(self, position: int) -> Row:
        """Return the row of a request that nothing came back for."""
        batch = self._batch
        if batch.phase == "cancelled":
            return Row(position=position, status="cancelled", reason="cancelled_before_sending")
        if position not in self._lines:
            return Row(position=position, status="errored", reason="too_large")
        if batch.phase == "refused":
            return Row(position=position, status="errored", reason=batch.code or batch.note)
        if batch.end == "failed":
            return self._failed(position, self._lines[position])
        if batch.end == "cancelled":
            return Row(position=position, status="cancelled", reason="cancelled_at_provider")
        if batch.end == "expired":
            return Row(position=position, status="expired", reason="batch_expired", again=True)
        return Row(position=position, status="missing", reason="no_line", again=True)

    def _failed(self, position: int, line: int) -> Row:
        """Return the row of a request in a batch that failed whole: lines that were named are at fault, others not."""
        if self._named and line not in self._named:
            return Row(position=position, status="errored", reason="batch_failed", again=True)
        reason = self._named.get(line) or next((fault.reason for fault in self._batch.faults), "batch_failed")
        return Row(position=position, status="errored", reason=reason)

    def _named_lines(self) -> dict[int, str]:
        if self._batch.end != "failed":
            return {}
        known = set(self._lines.values())
        return {fault.line: fault.reason for fault in self._batch.faults if fault.line in known}

    def _ended(self, row: Row) -> Iterator[Row]:
        """Yield the row if the request has reached its end with it."""
        if row.again or row.status in _UNANSWERED:
            innocent = self.spared and self._lines.get(row.position) not in self._named
            if self._again or innocent:
                return
            if self._batch.cancel_asked and row.status in _UNANSWERED:
                row = msgspec.structs.replace(row, status="cancelled", reason="cancelled_at_provider")
        self.written += 1
        yield row


def _meaning(output: Output) -> tuple[object, ...]:
    return (output.status, output.content, output.finish_reason, output.reason)
