"""Rows of the comparisons table, built by column and handed out in blocks of bounded size."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.domain import Outcome, Output, Status
from pipeline.operations.worker import Run
from pipeline.state import BatchState
from pipeline.tasks import task_named

_ROWS_A_BLOCK = 16_384
_BYTES_A_BLOCK = 32 * 2**20


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the request at a position; `again` says that another sending may mend it."""

    position: int
    status: Status
    output: Output | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    again: bool = False


class RowBuilder:
    """Turns rows into record batches of the task's schema."""

    def __init__(self, run: Run, batch: BatchState) -> None:
        self._run = run
        self._batch = batch
        self.schema: pa.Schema = task_named(run.config.task).SCHEMA

    def batches(self, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in blocks of bounded size."""
        block: list[Row] = []
        size = 0
        for row in rows:
            block.append(row)
            size += len(row.output.content or "") + len(row.output.thoughts or "") if row.output else 0
            if len(block) == _ROWS_A_BLOCK or size > _BYTES_A_BLOCK:
                yield self._block(block)
                block, size = [], 0
        if block:
            yield self._block(block)

    def _block(self, rows: list[Row]) -> pa.RecordBatch:
        columns = {**self._constants(len(rows)), **self._subjects(rows), **self._answers(rows)}
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for field in self.schema
            for column in [columns[field.name]]
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _constants(self, count: int) -> dict[str, object]:
        """Return the columns that are the same in every row of the batch."""
        config = self._run.config
        words = {
            "experiment": self._run.experiment.name,
            "run_id": config.run_id,
            "template": config.template.name,
            "provider": config.judge.provider,
            "model": config.judge.model,
            "reasoning": config.judge.reasoning,
            "direction": config.direction,
        }
        zeros = pa.array([0] * count, pa.int32())
        named = {name: pa.DictionaryArray.from_arrays(zeros, [value]) for name, value in words.items()}
        return {
            **named,
            "repeat": [config.repeat] * count,
            "attempt": [self._batch.send] * count,
            "batch_id": [self._batch.batch_id] * count,
            "remote_batch_id": [self._batch.remote_id] * count,
        }

    def _subjects(self, rows: list[Row]) -> dict[str, object]:
        """Return the columns that say what was compared, and who won."""
        renderer, material = self._run.renderer, self._run.material
        positions = np.array([row.position for row in rows])
        first, second = renderer.first[positions].tolist(), renderer.second[positions].tolist()
        winners = [
            one if row.outcome == "first" else other if row.outcome == "second" else None
            for row, one, other in zip(rows, first, second, strict=True)
        ]
        ids, contestants = material.ids, material.contestants
        return {
            "pair_id": renderer.pair_ids(positions),
            "first_id": [ids[each] for each in first],
            "second_id": [ids[each] for each in second],
            "first_contestant": [contestants[each] for each in first],
            "second_contestant": [contestants[each] for each in second],
            "group": [material.groups[each] for each in first],
            "winner_id": [None if each is None else ids[each] for each in winners],
            "winner_contestant": [None if each is None else contestants[each] for each in winners],
            "request_id": renderer.request_ids(positions),
        }

    def _answers(self, rows: list[Row]) -> dict[str, object]:
        """Return the columns that say what came back."""
        outputs = [row.output or _NOTHING for row in rows]
        return {
            "status": [row.status for row in rows],
            "outcome": [row.outcome for row in rows],
            "reason": [row.reason for row in rows],
            "content": [output.content for output in outputs],
            "thoughts": [output.thoughts for output in outputs],
            "finish_reason": [output.finish_reason for output in outputs],
            "returned_model": [output.returned_model for output in outputs],
            "input_tokens": [_int32(output.tokens.input) for output in outputs],
            "cached_tokens": [_int32(output.tokens.cached) for output in outputs],
            "output_tokens": [_int32(output.tokens.output) for output in outputs],
            "reasoning_tokens": [_int32(output.tokens.reasoning) for output in outputs],
            "judged_at": [self._moment(output) for output in outputs],
        }

    def _moment(self, output: Output) -> datetime | None:
        """Return when the provider says it judged, or else when the batch ended."""
        if output.judged_at is not None and 0 < output.judged_at < _LATEST:
            return datetime.fromtimestamp(output.judged_at, UTC)
        return self._batch.ended_at


_NOTHING = Output(request_id="", status="errored")
_LATEST = 32_503_680_000.0  # the year 3000: a time beyond it was not in seconds


def _int32(count: int | None) -> int | None:
    """Return a token count that a table can hold; a negative one means nothing."""
    return count if count is not None and 0 <= count < 2**31 else None
