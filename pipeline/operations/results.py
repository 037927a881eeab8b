"""The merged rows of an experiment as one file: Parquet, CSV or JSONL, streamed."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import ConfigError
from pipeline.ids import ExperimentName
from pipeline.operations.material import load_samples
from pipeline.operations.worker import Worker
from pipeline.storage.tables import filled, stream
from pipeline.tasks import Task, task_named
from pipeline.tasks.nearest import remedy

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export(worker: Worker, name: ExperimentName, *, out: str, with_samples: bool = False) -> int:
    """Write every row of the experiment to the file and return how many; its ending says the format."""
    kind = Path(out).suffix
    if kind not in {".parquet", ".csv", ".jsonl"}:
        raise ConfigError(f"--out {out}: the ending says the format; use .parquet, .csv or .jsonl")
    schema = _schema(worker, name, with_samples=with_samples)
    table = _with_samples(worker, name) if with_samples else _rows(worker, name, schema)
    try:
        with fsspec.open(out, "wb") as file:
            if kind == ".parquet":
                return _write_parquet(file, schema, table)
            return _write_csv(file, schema, table) if kind == ".csv" else _write_jsonl(file, table)
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written ({error.strerror or error})") from error


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
        published = [batch.rows.key for batch in run.refresh().batches.values() if batch.rows and batch.rows.key]
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


def _write_parquet(file: BinaryIO, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    count = 0
    with pq.ParquetWriter(file, schema, compression="zstd", compression_level=1) as writer:
        for batch in batches:
            writer.write_batch(batch.cast(schema))
            count += len(batch)
    return count


def _write_csv(file: BinaryIO, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    count = 0
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(schema.names)
    for batch in batches:
        columns = [[_cell(value) for value in column.to_pylist()] for column in batch.columns]
        writer.writerows(zip(*columns, strict=True))
        count += len(batch)
    text.flush()
    text.detach()
    return count


def _write_jsonl(file: BinaryIO, batches: Iterator[pa.RecordBatch]) -> int:
    count = 0
    encoder = msgspec.json.Encoder()
    for batch in batches:
        file.write(encoder.encode_lines(batch.to_pylist()))
        count += len(batch)
    return count


def _cell(value: object) -> object:
    """Return the value so that a spreadsheet shows it instead of computing it."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
