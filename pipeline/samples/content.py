"""The digest of a column's content: the same on every machine, for every chunking and every width of a type."""

import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Column: TypeAlias = "pa.ChunkedArray[Any]"  # Any: which scalars it holds is known only at run time
Chunk: TypeAlias = "pa.Array[Any]"  # Any: likewise
Encoded = tuple[bytes, bytes | memoryview]  # what says where the values are, and the values
_Encode = Callable[[Chunk], Encoded]


def lengths(column: "Column | Chunk") -> npt.NDArray[np.int64]:
    """Return how many bytes each text has, -1 for null."""
    counted = pc.call_function("binary_length", [column])
    return np.asarray(counted.cast(pa.int64()).fill_null(-1))


def column_digest(name: str, column: Column) -> bytes:
    """Return the digest of a column: its name and kind, then lengths and bytes of its values apart."""
    kind, encode = _encoding(column.type)
    heads, bodies = hashlib.sha256(), hashlib.sha256()
    for chunk in column.chunks:
        head, body = encode(chunk)
        heads.update(head)
        bodies.update(body)
    made = hashlib.sha256()
    for part in (name.encode(), kind.encode()):
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    made.update(heads.digest() + bodies.digest())
    return made.digest()


def _encoding(held: pa.DataType) -> tuple[str, _Encode]:
    """Return what the type counts as and how its values become bytes."""
    types = pa.types
    if types.is_dictionary(held):
        kind, encode = _encoding(held.value_type)
        return kind, lambda chunk: encode(chunk.cast(held.value_type))
    if types.is_string(held) or types.is_large_string(held) or types.is_string_view(held):
        return "text", _variable
    if types.is_binary(held) or types.is_large_binary(held) or types.is_binary_view(held):
        return "bytes", _variable
    if types.is_uint64(held):
        return "uint64", _fixed(pa.uint64(), "<u8")
    if types.is_integer(held):
        return "int", _fixed(pa.int64(), "<i8")
    if types.is_floating(held):
        return "float", _fixed(pa.float64(), "<f8")
    if types.is_boolean(held):
        return "bool", _fixed(pa.uint8(), "u1")
    if types.is_date(held) or types.is_time(held) or types.is_timestamp(held) or types.is_duration(held):
        return _temporal(held)
    return "json", _json


def _temporal(held: pa.DataType) -> tuple[str, _Encode]:
    """Return the encoding of a time, in the unit that Parquet keeps it in."""
    kept: pa.DataType = held
    if isinstance(held, pa.TimestampType) and held.unit == "s":
        kept = pa.timestamp("ms", held.tz)
    elif pa.types.is_date64(held):
        kept = pa.date32()
    elif held == pa.time32("s"):
        kept = pa.time32("ms")
    numbers = pa.int32() if kept.bit_width == 32 else pa.int64()
    encode = _fixed(pa.int64(), "<i8")
    return str(kept), lambda chunk: encode(chunk.cast(kept).view(numbers))


def _variable(chunk: Chunk) -> Encoded:
    """Return the lengths of the values (-1 for null), and all their bytes."""
    values = chunk.cast(pa.large_binary())
    return lengths(values).astype("<i8").tobytes(), _bytes(values.fill_null(b""))


def _bytes(values: Chunk) -> bytes | memoryview:
    _, offsets, data = values.buffers()
    if data is None or offsets is None or not len(values):
        return b""
    bounds = np.frombuffer(memoryview(offsets), dtype=np.int64)
    return memoryview(data)[bounds[values.offset] : bounds[values.offset + len(values)]]


def _fixed(width: pa.DataType, layout: str) -> _Encode:
    def encode(chunk: Chunk) -> Encoded:
        """Return which values are there, and the values with zero for null."""
        valid = np.asarray(chunk.is_valid().cast(pa.uint8()))
        values = np.asarray(pc.call_function("coalesce", [chunk.cast(width), pa.scalar(0, width)]))
        if values.dtype.kind == "f":
            values = np.where(np.isnan(values), np.nan, values)
        return valid.tobytes(), values.astype(layout).tobytes()

    return encode


def _json(chunk: Chunk) -> Encoded:
    """Return nested and rare values as lengths and bytes of their canonical JSON."""
    written = [None if value is None else msgspec.json.encode(value, order="sorted") for value in chunk.to_pylist()]
    return _variable(pa.array(written, pa.large_binary()))
