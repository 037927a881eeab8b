"""Rows of a task's table, built by column and handed out in blocks of bounded size."""

from collections.abc import Iterable, Iterator

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
from pipeline.tasks.columns import Column

_ROWS_AT_ONCE = 8_192
_CHARACTERS_AT_ONCE = 4 * 2**20


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


class Rows(msgspec.Struct, eq=False):
    """What became of some requests, by column: their places in the batch, what came back, and what it says."""

    places: list[int] = []
    outputs: list[Output] = []
    endings: list[Ending] = []

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[tuple[int, Output, Ending]]:
        return zip(self.places, self.outputs, self.endings, strict=True)

    def add(self, place: int, output: Output, ending: Ending) -> None:
        """Add one row."""
        self.places.append(place)
        self.outputs.append(output)
        self.endings.append(ending)

    def extend(self, others: "Rows") -> None:
        """Add other rows."""
        self.places += others.places
        self.outputs += others.outputs
        self.endings += others.endings

    def characters(self) -> int:
        """Return how long all answers are together."""
        return sum(map(len, filter(None, [output.content for output in self.outputs])))


class RowBuilder:
    """Turns rows into record batches of the task's schema."""

    def __init__(self, run: Run, batch: BatchState, asked: Asked) -> None:
        self._run = run
        self._batch = batch
        self._asked = asked
        self._about = subjects_of(run)
        self._task = task_named(run.config.task)
        self.schema: pa.Schema = self._task.SCHEMA

    def batches(self, blocks: Iterable[Rows]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, some blocks at a time."""
        gathered, size = Rows(), 0
        for rows in blocks:
            gathered.extend(rows)
            size += rows.characters()
            if len(gathered) >= _ROWS_AT_ONCE or size >= _CHARACTERS_AT_ONCE:
                yield self._block(gathered)
                gathered, size = Rows(), 0
        if gathered:
            yield self._block(gathered)

    def _block(self, rows: Rows) -> pa.RecordBatch:
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
        zeros = pa.array(np.zeros(count, np.int32))
        named = {name: pa.DictionaryArray.from_arrays(zeros, [value]) for name, value in words.items()}
        return {
            **named,
            "repeat": pa.repeat(pa.scalar(config.repeat, pa.int16()), count),
            "attempt": pa.repeat(pa.scalar(self._batch.send, pa.int16()), count),
            "batch_id": pa.repeat(pa.scalar(self._batch.batch_id, pa.string()), count),
            "remote_batch_id": pa.repeat(pa.scalar(self._batch.remote_id, pa.string()), count),
        }

    def _subjects(self, rows: Rows) -> dict[str, object]:
        """Return the columns that say what was asked about, and what was answered."""
        places = np.array(rows.places)
        values = [ending.value for ending in rows.endings]
        asked = self._asked
        about = self._about.columns(asked.positions[places], asked.names.take(places), values)
        return {**about, **self._task.columns(values), "request_id": asked.request_ids.take(places)}

    def _answers(self, rows: Rows) -> dict[str, object]:
        """Return the columns that say what came back."""
        outputs, endings = rows.outputs, rows.endings
        tokens = [output.tokens for output in outputs]
        return {
            "status": [ending.status for ending in endings],
            "reason": [ending.reason for ending in endings],
            "content": [output.content for output in outputs],
            "thoughts": [output.thoughts for output in outputs],
            "finish_reason": [output.finish_reason for output in outputs],
            "returned_model": [output.returned_model for output in outputs],
            "input_tokens": _counts([used.input for used in tokens]),
            "cached_tokens": _counts([used.cached for used in tokens]),
            "output_tokens": _counts([used.output for used in tokens]),
            "reasoning_tokens": _counts([used.reasoning for used in tokens]),
            "judged_at": self._moments(outputs),
        }

    def _moments(self, outputs: list[Output]) -> Column:
        """Return when the provider says it judged, or else when the batch ended."""
        told = np.array([output.judged_at for output in outputs], np.float64)
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
