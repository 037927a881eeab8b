"""What a batch's raw outputs say: one reading of every line, and what became of the requests that no line answers."""

import json
import re
from collections.abc import Iterator
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.domain import Output, Status
from pipeline.operations.rows import Asked, Row, RowBuilder
from pipeline.operations.worker import Run
from pipeline.state import BatchState
from pipeline.storage.streams import blocks_of_lines, decompressed
from pipeline.storage.tables import parquet_bytes
from pipeline.tasks import task_named
from pipeline.tasks.answers import Unparsed
from pipeline.tasks.lookup import Lookup

_FAILURES = frozenset({"errored", "expired", "cancelled"})
_LINES_THAT_TELL = 200
_PLACES_A_BLOCK = 1_024
_ID_FIELDS = ("custom_id", "key", "request_id", "recordId", "batch_request_id")
_UNREADABLE = (ValueError, msgspec.DecodeError, RecursionError)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_UNANSWERED: frozenset[Status] = frozenset({"expired", "missing"})


class Reading:
    """One reading of a batch's outputs: which rows they give, and what was wrong with them."""

    def __init__(self, run: Run, batch: BatchState) -> None:
        self._run = run
        self._batch = batch
        self._answer = task_named(run.config.task).reader(run.config)
        self._asked = Asked.of(run, batch)
        self._lookup = Lookup(self._asked.positions, self._asked.request_ids)
        plan = run.state.plan
        assert plan is not None, "a batch is only planned in a planned run"
        self._again = batch.send < plan.attempts and not batch.cancel_asked
        sizes = run.renderer.sizes(self._asked.positions)
        self._lines = _line_numbers(run.fits(sizes))
        self._ended_before = set(np.flatnonzero(sizes == 0).tolist())
        self._named = self._named_lines()
        self.spared = bool(self._named) and not batch.cancel_asked
        self.written = self.damaged = self.foreign = self.doubled = 0

    def table(self) -> bytes:
        """Return the rows as Parquet; lines that came twice are compared, and where they differ neither counts."""
        body = self._written(contradicted=set())
        if self._repeated:
            contradicted = self._contradicted(self._repeated)
            body = self._written(contradicted=contradicted) if contradicted else body
        return body

    def is_anothers(self) -> bool:
        """Say whether lines came back and none of them answers a request of this batch."""
        outputs = (output.request_id for block, _ in self._outputs() for output in block)
        read = list(islice(outputs, _LINES_THAT_TELL))
        return bool(read) and bool((self._lookup.places(read) < 0).all())

    def _written(self, *, contradicted: set[int]) -> bytes:
        self._repeated: set[int] = set()
        self.written = self.damaged = self.foreign = self.doubled = 0
        builder = RowBuilder(self._run, self._batch, self._asked)
        return parquet_bytes(builder.schema, builder.batches(self._rows(contradicted)), metadata={})

    def _rows(self, contradicted: set[int]) -> Iterator[list[Row]]:
        """Yield the rows that are final, a block of lines at a time, then what became of all other requests."""
        ended: set[int] = set()
        waiting: dict[int, Row] = {}
        for outputs, late in self._outputs():
            rows: list[Row] = []
            for place, output in self._placed(outputs):
                if place in ended:
                    self._repeat(place, output, late=late)
                    continue
                found = self._read(place, output, contradicted)
                if found.again or found.status in _UNANSWERED:
                    waiting[place] = found
                else:
                    ended.add(place)
                    rows.append(found)
            yield self._counted(rows)
        others = (place for place in range(len(self._asked)) if place not in ended)
        while block := list(islice(others, _PLACES_A_BLOCK)):
            last = [self._ended(waiting.get(place) or self._unanswered(place)) for place in block]
            yield self._counted([row for row in last if row is not None])

    def _placed(self, outputs: list[Output]) -> list[tuple[int, Output]]:
        """Return the outputs that answer a request of the batch, each with the request's place."""
        places = self._lookup.places([output.request_id for output in outputs]).tolist()
        placed = [each for each in zip(places, outputs, strict=True) if each[0] >= 0]
        self.foreign += len(outputs) - len(placed)
        return placed

    def _counted(self, rows: list[Row]) -> list[Row]:
        self.written += len(rows)
        return rows

    def _repeat(self, place: int, output: Output, *, late: bool) -> None:
        """Count a further line for a request that has its row; one that may say something else is remembered."""
        self.doubled += 1
        if not late and output.status not in _FAILURES:
            self._repeated.add(place)

    def _contradicted(self, repeated: set[int]) -> set[int]:
        """Return the requests among these whose lines differ in what they say."""
        said: dict[int, tuple[object, ...]] = {}
        found: set[int] = set()
        for outputs, late in self._outputs():
            for place, output in self._placed(outputs):
                if place not in repeated:
                    continue
                if place not in said:
                    if not (output.again or output.status in _UNANSWERED):
                        said[place] = _meaning(output)
                elif said[place] != _meaning(output) and not late and output.status not in _FAILURES:
                    found.add(place)
        return found

    def _outputs(self) -> Iterator[tuple[list[Output], bool]]:
        """Yield what can be read of the outputs, and whether it came for an attempt that had been given up."""
        decode = self._run.decode
        for part in sorted(self._batch.parts, key=lambda part: (part.name.startswith("late"), part.name == "error")):
            late = part.name.startswith("late")
            with self._run.worker.store.open(part.key) as file:
                for block in blocks_of_lines(decompressed(file, key=part.key)):
                    try:
                        yield [decode(line) for line in block], late
                    except _UNREADABLE:
                        yield from self._one_by_one(block, late=late)

    def _one_by_one(self, block: list[bytes], *, late: bool) -> Iterator[tuple[list[Output], bool]]:
        """Yield the outputs of a block in which a line cannot be read."""
        for line in map(_in_whole_characters, block):
            try:
                yield [self._run.decode(line)], late
            except _UNREADABLE:
                self.damaged += 1
                if (name := self._named_in(line)) is not None:
                    yield [Output(request_id=name, status="errored", reason="unreadable")], True

    def _named_in(self, line: bytes) -> str | None:
        """Return which request a line answers that is whole but not as we know it: paid for, not to be bought again."""
        try:
            fields = msgspec.json.decode(line.decode(), type=dict[str, object])
        except _UNREADABLE:
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
        answer = self._answer(output.content)
        if isinstance(answer, Unparsed):
            return Row(place=place, output=output, status=answer.status, reason=answer.reason)
        return Row(place=place, output=output, status="ok", value=answer)

    def _unanswered(self, place: int) -> Row:
        """Return the row of a request that nothing came back for."""
        batch = self._batch
        if batch.phase == "cancelled":
            return Row(place=place, status="cancelled", reason="cancelled_before_sending")
        if place in self._ended_before:
            return Row(place=place, status="cancelled", reason="no_answer_to_go_on_from")
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

    def _ended(self, row: Row) -> Row | None:
        """Return the row if the request has reached its end with it."""
        if row.again or row.status in _UNANSWERED:
            innocent = self.spared and self._lines.get(row.place) not in self._named
            if self._again or innocent:
                return None
            if self._batch.cancel_asked and row.status in _UNANSWERED:
                return msgspec.structs.replace(row, status="cancelled", reason="cancelled_at_provider")
        return row


def _line_numbers(sent: NDArray[np.bool_]) -> dict[int, int]:
    """Return which line of the input each place is, counted from 1; those that are not sent have none."""
    return {place: line for line, place in enumerate(np.flatnonzero(sent).tolist(), start=1)}


def _in_whole_characters(line: bytes) -> bytes:
    """Return the line with each half of a surrogate pair replaced: who stops inside a character writes one."""
    if not _SURROGATE.search(line):
        return line
    try:
        return json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace")
    except _UNREADABLE:
        return line


def _meaning(output: Output) -> tuple[object, ...]:
    return (output.status, output.content, output.finish_reason, output.reason)
