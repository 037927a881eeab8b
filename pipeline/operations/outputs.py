"""What a batch's raw outputs say: one reading of every line, and what became of the requests that no line answers."""

from collections.abc import Iterator
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.domain import Output, Status
from pipeline.operations.rows import Asked, Row, RowBuilder
from pipeline.operations.worker import Run
from pipeline.state import BatchState
from pipeline.storage.streams import decompressed, lines
from pipeline.storage.tables import parquet_bytes
from pipeline.tasks import task_named
from pipeline.tasks.answers import Unparsed
from pipeline.tasks.lookup import Lookup

_FAILURES = frozenset({"errored", "expired", "cancelled"})
_LINES_THAT_TELL = 200
_OUTPUTS_A_LOOK = 1_024
_ID_FIELDS = ("custom_id", "key", "request_id", "recordId", "batch_request_id")
_UNANSWERED: frozenset[Status] = frozenset({"expired", "missing"})


class Reading:
    """One reading of a batch's outputs: which rows they give, and what was wrong with them."""

    def __init__(self, run: Run, batch: BatchState) -> None:
        self._run = run
        self._batch = batch
        self._task = task_named(run.config.task)
        self._asked = Asked.of(run, batch)
        self._lookup = Lookup(self._asked.positions, self._asked.request_ids)
        plan = run.state.plan
        assert plan is not None, "a batch is only planned in a planned run"
        self._again = batch.send < plan.attempts and not batch.cancel_asked
        self._lines = _line_numbers(run.fits(self._asked.positions))
        self._named = self._named_lines()
        self.spared = bool(self._named) and not batch.cancel_asked
        self.written = self.damaged = self.foreign = self.doubled = 0

    def table(self) -> bytes:
        """Return the rows as Parquet; read once more when a line turned out to contradict an earlier one."""
        contradicted: set[int] = set()
        while True:
            self.written = self.damaged = self.foreign = self.doubled = 0
            builder = RowBuilder(self._run, self._batch, self._asked)
            known = len(contradicted)
            body = parquet_bytes(builder.schema, builder.batches(self._rows(contradicted)), metadata={})
            if len(contradicted) == known:
                return body

    def is_anothers(self) -> bool:
        """Say whether lines came back and none of them answers a request of this batch."""
        read = [output.request_id for output, _ in islice(self._outputs(), _LINES_THAT_TELL)]
        return bool(read) and bool((self._lookup.places(read) < 0).all())

    def _rows(self, contradicted: set[int]) -> Iterator[Row]:
        """Yield the rows that are final, then what became of the requests that no line answers."""
        seen: dict[int, int] = {}
        waiting: dict[int, Row] = {}
        for place, output, late in self._placed():
            mark = hash(_meaning(output))
            if place in seen and place not in waiting:
                self.doubled += 1
                if seen[place] != mark and not late and output.status not in _FAILURES:
                    contradicted.add(place)
                continue
            seen[place] = mark
            row = self._read(place, output, contradicted)
            if row.again or row.status in _UNANSWERED:
                waiting[place] = row
            else:
                waiting.pop(place, None)
                yield from self._ended(row)
        for place in range(len(self._asked)):
            if place in waiting or place not in seen:
                yield from self._ended(waiting.get(place) or self._unanswered(place))

    def _placed(self) -> Iterator[tuple[int, Output, bool]]:
        """Yield the outputs that answer a request of the batch, each with the request's place."""
        outputs = self._outputs()
        while block := list(islice(outputs, _OUTPUTS_A_LOOK)):
            places = self._lookup.places([output.request_id for output, _ in block])
            self.foreign += int((places < 0).sum())
            for place, (output, late) in zip(places.tolist(), block, strict=True):
                if place >= 0:
                    yield place, output, late

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

    def _named_in(self, line: bytes | None) -> str | None:
        """Return which request a line answers that is whole but not as we know it: paid for, not to be bought again."""
        try:
            fields = msgspec.json.decode((line or b"").decode(), type=dict[str, object])
        except (ValueError, msgspec.DecodeError, RecursionError):
            return None
        names = [name for key in _ID_FIELDS if isinstance(name := fields.get(key), str)]
        places = self._lookup.places(names).tolist()
        return next((name for name, place in zip(names, places, strict=True) if place >= 0), None)

    def _read(self, place: int, output: Output, contradicted: set[int]) -> Row:
        """Return the row of a request whose output came back."""
        if place in contradicted:
            return Row(place=place, status="errored", reason="two_outputs", again=True)
        if output.status != "answered":
            return Row(place=place, output=output, status=output.status, reason=output.reason, again=output.again)
        config = self._run.config
        answer = self._task.read(output.content, answer=config.judge.answer, tags=config.tags, ties=config.ties)
        if isinstance(answer, Unparsed):
            return Row(place=place, output=output, status="unparsed", reason=answer.reason)
        return Row(place=place, output=output, status="ok", outcome=answer)

    def _unanswered(self, place: int) -> Row:
        """Return the row of a request that nothing came back for."""
        batch = self._batch
        if batch.phase == "cancelled":
            return Row(place=place, status="cancelled", reason="cancelled_before_sending")
        if place not in self._lines:
            return Row(place=place, status="errored", reason="too_large")
        if batch.phase == "refused":
            return Row(place=place, status="errored", reason=batch.code or batch.note)
        if batch.end == "failed":
            return self._failed(place, self._lines[place])
        if batch.end == "cancelled":
            return Row(place=place, status="cancelled", reason="cancelled_at_provider")
        if batch.end == "expired":
            return Row(place=place, status="expired", reason="batch_expired", again=True)
        return Row(place=place, status="missing", reason="no_line", again=True)

    def _failed(self, place: int, line: int) -> Row:
        """Return the row of a request in a batch that failed whole: lines that were named are at fault, others not."""
        if self._named and line not in self._named:
            return Row(place=place, status="errored", reason="batch_failed", again=True)
        reason = self._named.get(line) or next((fault.reason for fault in self._batch.faults), "batch_failed")
        return Row(place=place, status="errored", reason=reason)

    def _named_lines(self) -> dict[int, str]:
        if self._batch.end != "failed":
            return {}
        known = set(self._lines.values())
        return {fault.line: fault.reason for fault in self._batch.faults if fault.line in known}

    def _ended(self, row: Row) -> Iterator[Row]:
        """Yield the row if the request has reached its end with it."""
        if row.again or row.status in _UNANSWERED:
            innocent = self.spared and self._lines.get(row.place) not in self._named
            if self._again or innocent:
                return
            if self._batch.cancel_asked and row.status in _UNANSWERED:
                row = msgspec.structs.replace(row, status="cancelled", reason="cancelled_at_provider")
        self.written += 1
        yield row


def _line_numbers(sent: NDArray[np.bool_]) -> dict[int, int]:
    """Return which line of the input each place is, counted from 1; those that are not sent have none."""
    return {place: line for line, place in enumerate(np.flatnonzero(sent).tolist(), start=1)}


def _meaning(output: Output) -> tuple[object, ...]:
    return (output.status, output.content, output.finish_reason, output.reason)
