"""Files for people, at a path or an fsspec URL: tables as Parquet, CSV or JSONL, pages and documents as they are.

Stored objects are written elsewhere.
"""

import contextlib
import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from pipeline.errors import ConfigError
from pipeline.storage.sources import shown

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def ending(out: str, *known: str) -> str:
    """Return what the file's name ends in, which says its format, or raise ConfigError with those that are known."""
    kind = Path(out).suffix
    if kind not in known:
        formats = f"{', '.join(known[:-1])} or {known[-1]}"
        raise ConfigError(f"--out {shown(out)}: the ending says the format; use {formats}")
    return kind


def write_table(out: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write the rows to the file and return how many; it ends in .parquet, .csv or .jsonl."""
    kind = ending(out, ".parquet", ".csv", ".jsonl")
    with _opened(out) as file:
        if kind == ".parquet":
            return _write_parquet(file, schema, batches)
        return _write_csv(file, schema, batches) if kind == ".csv" else _write_jsonl(file, batches)


def write_bytes(out: str, data: bytes) -> None:
    """Write the file whole."""
    with _opened(out) as file:
        file.write(data)


@contextlib.contextmanager
def _opened(out: str) -> Iterator[BinaryIO]:
    """Open the file, in a folder that is made if it is not there; raises ConfigError if it cannot be written."""
    try:
        with _file(out) as file:
            yield file
    except OSError as error:
        why = error.strerror or error
        remedy = "name a file in a folder that you may write to and that has room"
        raise ConfigError(f"--out {shown(out)}: cannot be written ({why}); {remedy}") from error


def _file(out: str) -> BinaryIO:
    file: BinaryIO
    if "://" not in out:
        file = LocalFileSystem(auto_mkdir=True).open(str(Path(out).absolute()), "wb")
        return file
    try:
        file = fsspec.open(out, "wb").open()
    except (ValueError, ImportError, NotImplementedError) as error:
        raise ConfigError(f"--out {shown(out)}: nothing can be written there; use a path, s3:// or gs://") from error
    return file


def _write_parquet(file: BinaryIO, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    count = 0
    with pq.ParquetWriter(file, schema, compression="zstd", compression_level=1) as writer:
        for batch in batches:
            writer.write_batch(batch.cast(schema))
            count += len(batch)
    return count


def _write_csv(file: BinaryIO, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
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


def _write_jsonl(file: BinaryIO, batches: Iterable[pa.RecordBatch]) -> int:
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
