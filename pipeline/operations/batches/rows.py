"""Rows of a task's table, built by column and handed out in blocks of bounded size."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.domain import Output
from pipeline.endings import Ending
from pipeline.operations.batches.subjects import subjects_of
from pipeline.operations.workers.requests import Positions
from pipeline.operations.workers.run import Run
from pipeline.state import BatchState
from pipeline.tasks import task_named
from pipeline.tasks.columns import Column, strings

_ROWS_AT_ONCE = 8_192
_BYTES_AT_ONCE = 8 * 2**20


class Asked(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The requests of a batch, in order: where they stand in the run, and the ids that were made for them once."""

    positions: Positions
    names: Column
    request_ids: Column

    @classmethod
    def of(cls, run: Run, batch: BatchState) -> "Asked":
        """Return the requests of the batch."""
        positions = run.members(batch)
        requests = run.renderer
        return cls(positions=positions, names=requests.names(positions), request_ids=requests.request_ids(positions))

    def __len__(self) -> int:
        return len(self.positions)


NOTHING = Output(request_id="", status="errored")  # stands where no output came


class Rows(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What became of some requests, by column: their places in the batch, what came back, and what it says.

    `size` is how many bytes the lines had that were read for them.
    """

    places: Positions
    outputs: list[Output]
    endings: list[Ending]
    size: int = 0

    @classmethod
    def of(cls, rows: Sequence[tuple[int, Output, Ending]], *, size: int = 0) -> "Rows":
        """Return these rows by column."""
        places, outputs, endings = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
        return cls(places=np.array(places, np.int64), outputs=outputs, endings=endings, size=size)

    def __len__(self) -> int:
        return len(self.outputs)

    def __iter__(self) -> Iterator[tuple[int, Output, Ending]]:
        return zip(self.places.tolist(), self.outputs, self.endings, strict=True)


class _Columns(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What some rows will say, without their outputs: which requests, what was answered, long texts, and all else."""

    places: Positions
    values: list[Any]  # Any: what the task's reader made of the answers
    texts: dict[str, Column]
    others: dict[str, list[Any]]  # Any: which type a column has is said by the schema
    size: int

    @classmethod
    def of(cls, rows: Rows) -> "_Columns":
        """Return the columns of the rows."""
        outputs, endings = rows.outputs, rows.endings
        tokens = [output.tokens for output in outputs]
        texts = {
            "content": strings([output.content for output in outputs]),
            "thoughts": strings([output.thoughts for output in outputs]),
        }
        others: dict[str, list[Any]] = {
            "status": [ending.status for ending in endings],
            "reason": [ending.reason for ending in endings],
            "finish_reason": [output.finish_reason for output in outputs],
            "returned_model": [output.returned_model for output in outputs],
            "input_tokens": [used.input for used in tokens],
            "cached_tokens": [used.cached for used in tokens],
            "output_tokens": [used.output for used in tokens],
            "reasoning_tokens": [used.reasoning for used in tokens],
            "judged_at": [output.judged_at for output in outputs],
        }
        values = [ending.value for ending in endings]
        return cls(places=rows.places, values=values, texts=texts, others=others, size=rows.size)


class RowBuilder:
    """Turns rows into tables of the task's schema."""

    def __init__(self, run: Run, batch: BatchState, asked: Asked) -> None:
        self._run = run
        self._batch = batch
        self._asked = asked
        self._about = subjects_of(run)
        self._task = task_named(run.config.task)
        self.schema: pa.Schema = self._task.SCHEMA

    def tables(self, blocks: Iterable[Rows]) -> Iterator[pa.Table]:
        """Yield the rows, some blocks at a time; texts become columns block by block, while a cache still has them."""
        gathered: list[_Columns] = []
        for rows in filter(len, blocks):
            gathered.append(_Columns.of(rows))
            count, size = sum(len(some.values) for some in gathered), sum(some.size for some in gathered)
            if count >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
                yield self._table(gathered)
                gathered = []
        if gathered:
            yield self._table(gathered)

    def _table(self, gathered: Sequence[_Columns]) -> pa.Table:
        columns = {**self._subjects(gathered), **self._answers(gathered)}
        columns |= self._constants(len(columns["request_id"]))
        arrays = [
            pa.array(column, field.type) if isinstance(column, list) else column
            for field in self.schema
            for column in [columns[field.name]]
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _constants(self, count: int) -> dict[str, Any]:
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
        zeros = pa.array(np.zeros(count, np.int32))
        named = {name: pa.DictionaryArray.from_arrays(zeros, [value]) for name, value in words.items()}
        return {
            **named,
            "repeat": pa.repeat(pa.scalar(config.repeat, pa.int16()), count),
            "attempt": pa.repeat(pa.scalar(self._batch.send, pa.int16()), count),
            "batch_id": pa.repeat(pa.scalar(self._batch.batch_id, pa.string()), count),
            "remote_batch_id": pa.repeat(pa.scalar(self._batch.remote_id, pa.string()), count),
        }

    def _subjects(self, gathered: Sequence[_Columns]) -> dict[str, Any]:
        """Return the columns that say what was asked about, and what was answered."""
        places = np.concatenate([some.places for some in gathered])
        values = list(chain.from_iterable(some.values for some in gathered))
        asked = self._asked
        about = self._about.columns(asked.positions[places], asked.names.take(places), values)
        return {**about, **self._task.columns(values), "request_id": asked.request_ids.take(places)}

    def _answers(self, gathered: Sequence[_Columns]) -> dict[str, Any]:
        """Return the columns that say what came back."""
        texts = {name: pa.chunked_array([some.texts[name] for some in gathered]) for name in gathered[0].texts}
        others: dict[str, list[Any]] = {
            name: list(chain.from_iterable(some.others[name] for some in gathered)) for name in gathered[0].others
        }
        counts = {name: _counts(counts) for name, counts in others.items() if name.endswith("_tokens")}
        return {**texts, **others, **counts, "judged_at": self._moments(others["judged_at"])}

    def _moments(self, judged_at: list[float | None]) -> Column:
        """Return when the provider says it judged, or else when the batch ended."""
        told = np.array(judged_at, np.float64)
        known = (told > 0) & (told < _LATEST)
        ended = self._batch.ended_at
        moments = np.full(len(told), 0 if ended is None else _microseconds(np.array(ended.timestamp())))
        moments[known] = _microseconds(told[known])
        return pa.array(moments, mask=~known if ended is None else None).cast(pa.timestamp("us", tz="UTC"))


_LATEST = 32_503_680_000.0  # the year 3000: a time beyond it was not in seconds


def _counts(counts: list[int | None]) -> Column:
    """Return token counts that a table can hold; one that is negative or beyond its bounds means nothing."""
    try:
        return pa.array(counts, pa.uint32()).cast(pa.int32())
    except (OverflowError, pa.ArrowInvalid):
        known = [count if count is not None and 0 <= count < 2**31 else None for count in counts]
        return pa.array(known, pa.int32())


def _microseconds(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return times as whole microseconds; the fraction is rounded alone, because together they are too long for it."""
    whole = np.floor(seconds)
    return (whole * 1e6).astype(np.int64) + np.rint((seconds - whole) * 1e6).astype(np.int64)
