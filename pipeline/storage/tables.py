"""Derived tables as Parquet objects: written whole, read in streams."""

import contextlib
import io
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import CorruptObjectError
from pipeline.storage import Store

_ROWS_A_GROUP = 65_536
_BYTES_A_GROUP = 16 * 2**20  # four times that made a batch of 200 MB take 536 MiB instead of 446
_DISTINCT = frozenset({"request_id", "pair_id"})
_LONG = frozenset({"content", "thoughts"})
_CODES = pa.dictionary(pa.int32(), pa.string())
_SCHEMA = "1"


def parquet_bytes(schema: pa.Schema, tables: Iterable[pa.Table], *, metadata: dict[str, str]) -> bytes:
    """Return the tables as one Parquet file, in row groups of bounded size."""
    sink = io.BytesIO()
    written = {"pairlog.schema": _SCHEMA, "pairlog.producer": f"pairlog {version('pairlog')}"}
    marked = schema.with_metadata({**written, **metadata})
    with pq.ParquetWriter(sink, marked, **writing(schema)) as writer:
        for group in _groups(tables):
            writer.write_table(pa.concat_tables(group).replace_schema_metadata(marked.metadata))
    return sink.getvalue()


def writing(schema: pa.Schema) -> dict[str, Any]:
    """Return how a table is written: no dictionary where hardly two values are equal, no extremes of long texts."""
    return {
        "compression": "zstd",
        "compression_level": 1,
        "write_page_checksum": True,
        "use_dictionary": [name for name in schema.names if name not in _DISTINCT | _LONG],
        "write_statistics": [name for name in schema.names if name not in _LONG],
    }


def _groups(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    group: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        group.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= _ROWS_A_GROUP or size >= _BYTES_A_GROUP:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


@contextlib.contextmanager
def opened(store: Store, key: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet object; raises CorruptObjectError if it is none."""
    with store.open(key) as file:
        try:
            yield pq.ParquetFile(file, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            raise CorruptObjectError(f"{key} is not readable Parquet; restore it from a backup ({error})") from error


def stream(store: Store, keys: Iterable[str], *, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of several Parquet objects one after the other."""
    for key in keys:
        with opened(store, key) as file:
            yield from file.iter_batches(batch_size=16_384, columns=columns)


def coded(schema: pa.Schema) -> pa.Schema:
    """Return the schema with texts that repeat as codes, which take a tenth of the memory."""
    repeat = {field.name for field in schema if pa.types.is_string(field.type) and field.name not in _DISTINCT | _LONG}
    return pa.schema([field.with_type(_CODES) if field.name in repeat else field for field in schema])


def filled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with exactly the columns of the schema, null where an earlier version knew none."""
    known = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in known else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
