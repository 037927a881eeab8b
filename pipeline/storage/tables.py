"""Derived tables as Parquet objects: written whole, read in streams."""

import contextlib
import io
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import CorruptObjectError
from pipeline.storage import Store

_METADATA = {"pairlog.schema": "1", "pairlog.producer": "pairlog"}


def parquet_bytes(schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, metadata: dict[str, str]) -> bytes:
    """Return the batches as one Parquet file, a row group each."""
    sink = io.BytesIO()
    marked = schema.with_metadata({**_METADATA, **metadata})
    with pq.ParquetWriter(sink, marked, compression="zstd", compression_level=1, write_page_checksum=True) as writer:
        for batch in batches:
            writer.write_batch(batch.replace_schema_metadata(marked.metadata))
    return sink.getvalue()


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
