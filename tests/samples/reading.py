"""Samples read from bytes that a test has, and the sentence that refuses them."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ConfigError
from pipeline.samples import Samples
from pipeline.storage.sources import read_samples

ONE = pa.table({"id": ["a"], "text": ["x"]})


def parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def from_bytes(name: str, data: bytes, folder: Path, most_bytes: int = 2**32) -> Samples:
    (folder / name).write_bytes(data)
    return read_samples(name, base=str(folder), most_bytes=most_bytes)


def refusal(location: str, base: str, most_bytes: int = 2**32) -> str:
    with pytest.raises(ConfigError) as caught:
        read_samples(location, base=base, most_bytes=most_bytes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refused_bytes(name: str, data: bytes, folder: Path, most_bytes: int = 2**32) -> str:
    (folder / name).write_bytes(data)
    message = refusal(name, str(folder), most_bytes)
    assert message.startswith(str(folder / name))
    return message.removeprefix(str(folder / name))
