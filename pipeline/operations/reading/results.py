"""The merged rows of an experiment as one file: Parquet, CSV or JSONL, streamed."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipeline.errors import ConfigError
from pipeline.ids import ExperimentName
from pipeline.operations.reading.files import ending, write_table
from pipeline.operations.workers.material import load_samples
from pipeline.operations.workers.worker import Worker
from pipeline.storage.tables import coded, filled, stream
from pipeline.tasks import Task, task_named
from pipeline.wording import remedy


def export(worker: Worker, name: ExperimentName, *, out: str, with_samples: bool = False) -> int:
    """Write every row of the experiment to the file and return how many; its ending says the format."""
    ending(out, ".parquet", ".csv", ".jsonl")
    schema = _schema(worker, name, with_samples=with_samples)
    table = _with_samples(worker, name) if with_samples else _rows(worker, name, schema)
    return write_table(out, schema, table)


def table_of(
    worker: Worker, name: ExperimentName, *, columns: Sequence[str] | None = None, with_samples: bool = False
) -> pa.Table:
    """Return the experiment's rows as one table; raises ConfigError for a column that it does not have."""
    schema = _schema(worker, name, with_samples=with_samples)
    for column in columns or ():
        if column not in schema.names:
            raise ConfigError(f"the rows of {name} have no column {column!r}; {remedy(column, schema.names)}")
    wanted = schema if columns is None else pa.schema([schema.field(column) for column in columns])
    if with_samples:
        batches = [batch.cast(schema) for batch in _with_samples(worker, name)]
        return pa.Table.from_batches(batches, schema).select(wanted.names)
    return pa.Table.from_batches(list(_rows(worker, name, wanted)), wanted)


def coded_table_of(worker: Worker, name: ExperimentName, *, columns: Sequence[str]) -> pa.Table:
    """Return these columns of the experiment's rows, texts that repeat as codes: of a million rows 100 MB and less."""
    schema = _schema(worker, name, with_samples=False)
    wanted = coded(pa.schema([schema.field(column) for column in columns]))
    return pa.Table.from_batches(list(_rows(worker, name, wanted)), wanted)


def task_of(worker: Worker, name: ExperimentName) -> Task:
    """Return the task of the experiment; all its runs have one."""
    return task_named(worker.runs(name)[0].config.task)


def _schema(worker: Worker, name: ExperimentName, *, with_samples: bool) -> pa.Schema:
    schema: pa.Schema = task_of(worker, name).SCHEMA
    if with_samples:
        for side in _sides(schema):
            schema = schema.append(pa.field(f"{side}_text", pa.string()))
    return schema


def _sides(schema: pa.Schema) -> list[str]:
    """Return which samples a row is about: the columns `<side>_id` name them."""
    return [side for side in ("first", "second", "sample") if f"{side}_id" in schema.names]


def _rows(worker: Worker, name: ExperimentName, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the published rows run by run, with these columns; what no event points to is no row."""
    for run in worker.runs(name):
        published = [batch.rows_key for batch in run.refresh().batches.values() if batch.rows_key]
        yield from (filled(batch, wanted) for batch in stream(worker.store, published, columns=wanted.names))


def _with_samples(worker: Worker, name: ExperimentName) -> Iterator[pa.RecordBatch]:
    texts: dict[str, str] = {}
    for _, experiment in worker.experiments(name):
        samples = load_samples(worker.store, experiment)
        texts.update(zip(samples.ids(), samples.texts(), strict=True))
    for batch in _rows(worker, name, _schema(worker, name, with_samples=False)):
        added = batch
        for side in _sides(batch.schema):
            column = pa.array([texts[each] for each in batch.column(f"{side}_id").to_pylist()], pa.string())
            added = added.append_column(f"{side}_text", column)
        yield added
