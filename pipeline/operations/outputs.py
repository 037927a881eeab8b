"""What a batch's raw outputs say: one reading of every line, and what became of the requests that no line answers."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from pipeline.domain import Output, Status
from pipeline.ids import RequestId
from pipeline.operations.rows import Row, RowBuilder
from pipeline.operations.worker import Run
from pipeline.state import BatchState
from pipeline.storage.streams import decompressed, lines
from pipeline.storage.tables import parquet_bytes
from pipeline.tasks import task_named
from pipeline.tasks.answers import Unparsed

_FAILURES = frozenset({"errored", "expired", "cancelled"})
_LINES_THAT_TELL = 200
_ID_FIELDS = ("custom_id", "key", "request_id", "recordId", "batch_request_id")
_UNANSWERED: frozenset[Status] = frozenset({"expired", "missing"})


class Reading:
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
