"""CSV, JSONL and Parquet bytes as Arrow tables; damaged ones are refused with the line where the damage is."""

import csv
import json
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import ConfigError
from pipeline.samples import COLUMNS
from pipeline.samples.checks import NAMES, separated
from pipeline.samples.content import Chunk, Column, lengths
from pipeline.wording import counted

csv.field_size_limit(2**31 - 1)  # the default of 128 KiB is shorter than an essay may be

_OLD_LINES = "the lines end in carriage returns alone; save the file with the line ends of Unix or Windows (LF, CRLF)"
_BOM = b"\xef\xbb\xbf"
_ROWS_AT_ONCE = 2**16
_STRINGS_AT_ONCE = 2**9  # Arrow holds a text in half the room that Python needs, and in a quarter while it is copied
_MOST_COLUMNS = 1000
_STEEPEST = 1000  # decoded bytes for each stored byte
_HARMLESS = 2**28  # below this many bytes no ratio matters
_MOST_OF_STRING = 2**31 - 1


class _Rows(Protocol):
    """What the csv module's reader is."""

    @property
    def line_num(self) -> int: ...

    def __iter__(self) -> Iterator[list[str]]: ...


class Allowance:
    """How many decoded bytes may still come out of a source; refuses too many, and too many for what is stored."""

    def __init__(self, source: str, *, stored: int | None, most: int) -> None:
        self._source = source
        self._stored = stored
        self._most = most
        self._taken = 0
        self.check(stored or 0)

    def take(self, size: int) -> None:
        """Count bytes that were decoded."""
        self._taken += size
        self.check(self._taken)

    def check(self, size: int) -> None:
        """Refuse the source if so many bytes would come out of it."""
        if size > self._most:
            raise ConfigError(f"{self._source} holds more than {self._most} bytes of samples; split the experiment")
        if self._stored is not None and size > max(self._stored * _STEEPEST, min(_HARMLESS, self._most // 16)):
            raise ConfigError(
                f"{self._source} unpacks to more than {_STEEPEST} times its {self._stored} bytes; "
                f"it looks like a decompression bomb, so write it again without compression if it is not one"
            )


def decoded(data: bytes, where: str) -> str:
    """Return the bytes as text without a byte-order mark."""
    try:
        return data.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: byte {error.start} is not UTF-8; save the file as UTF-8") from error


def read_csv(file: BinaryIO, source: str, allowance: Allowance, *, begins: "array[int]") -> pa.Table:
    """Return the rows with every value as the text it was written as; `begins` takes the line each begins on."""
    rows = csv.reader(_lines(file, source, allowance), strict=True)
    try:
        header = next(rows, None)
        if not header:
            raise ConfigError(f"{source} has no header line; the first line names the columns, id and text among them")
        batches = [_transposed([], len(header)), *_batches(rows, header, source, begins)]
    except csv.Error as error:
        is_bare = "new-line" in str(error)
        if is_bare and rows.line_num == 1 and not file.read(1):
            raise ConfigError(f"{source}: {_OLD_LINES}") from error
        what = "a bare carriage return outside quotes" if is_bare else error
        raise ConfigError(f"{source}, line {rows.line_num}: not valid CSV: {what}; quote the value") from error
    columns = [pa.chunked_array(list(chunks), pa.large_string()) for chunks in zip(*batches, strict=True)]
    return pa.Table.from_arrays(columns, names=header)


def _lines(file: BinaryIO, source: str, allowance: Allowance) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        allowance.take(len(line))
        try:
            yield (line.removeprefix(_BOM) if number == 1 else line).decode()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{source}, line {number}: not UTF-8; save the file as UTF-8") from error


def _batches(rows: _Rows, header: list[str], source: str, begins: "array[int]") -> Iterator[list[Chunk]]:
    """Yield the columns of some rows at a time."""
    whole = _whole_rows(rows, header, source, begins)
    while kept := list(islice(whole, _STRINGS_AT_ONCE)):
        yield _transposed(kept, len(header))


def _whole_rows(rows: _Rows, header: list[str], source: str, begins: "array[int]") -> Iterator[list[str]]:
    """Yield the rows as wide as the header; one of empty values only is blank, however many commas it has."""
    width, line, first = len(header), rows.line_num + 1, rows.line_num
    for row in rows:
        if row:
            begins.append(line)
            if len(row) != width and any(row):
                wrong = line if separated(header) is None else first
                raise ConfigError(f"{source}, line {wrong}: {_wrong_width(row, header)}")
            yield row if any(row) else [""] * width
        line = rows.line_num + 1


def _wrong_width(row: list[str], header: list[str]) -> str:
    if (other := separated(header)) is not None:
        return other
    return f"{counted(len(row), 'value')} for {counted(len(header), 'column')}; quote values that hold commas"


def _transposed(rows: list[list[str]], width: int) -> list[Chunk]:
    return [pa.array([row[index] for row in rows], pa.large_string()) for index in range(width)]


def read_jsonl(file: BinaryIO, source: str, allowance: Allowance, *, begins: "array[int]") -> pa.Table:
    """Return one row for each line that is not blank; a key that a line lacks is null there.

    `begins` takes the line of each row.
    """
    columns: dict[str, _Values] = {}
    count = 0
    for number, line in enumerate(file, 1):
        allowance.take(len(line))
        bare = (line.removeprefix(_BOM) if number == 1 else line).strip(b" \t\r\n")
        if not bare:
            continue
        for name, value in _object(bare, f"{source}, line {number}").items():
            columns.setdefault(name, _Values(name)).put(value, row=count)
        if len(columns) > _MOST_COLUMNS:
            raise ConfigError(f"{source}, line {number}: more than {_MOST_COLUMNS} different keys; use fewer")
        count += 1
        begins.append(number)
    return pa.table({name: values.column(count, source) for name, values in columns.items()})


class _Values:
    """The values of one key as they come; those of a known column are handed over to Arrow some at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._chunks: list[Chunk] = []
        self._chunked = 0
        self._values: list[object] = []

    def put(self, value: object, *, row: int) -> None:
        """Take the value of this row; rows that were left out have none."""
        self._fill(row)
        self._values.append(value)
        if self._name in COLUMNS and len(self._values) >= _STRINGS_AT_ONCE:
            self._chunks.append(pa.array(self._values, pa.large_string()))
            self._chunked += len(self._values)
            self._values.clear()

    def column(self, rows: int, source: str) -> Column:
        """Return the column, which has so many rows."""
        self._fill(rows)
        last = _inferred(self._name, self._values, source)
        return pa.chunked_array([*self._chunks, last], last.type)

    def _fill(self, rows: int) -> None:
        self._values += [None] * (rows - self._chunked - len(self._values))


def _object(line: bytes, where: str) -> dict[str, object]:
    try:
        value = msgspec.json.decode(line)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: not UTF-8; save the file as UTF-8") from error
    except (msgspec.DecodeError, RecursionError) as error:
        what = _OLD_LINES if b"\r" in line else f"not valid JSON: {error}"
        raise ConfigError(f"{where}: {what}") from error
    if not isinstance(value, dict):
        raise ConfigError(f'{where}: not an object; write {{"id": …, "text": …}}')
    if any(line.count(b'"%b"' % name.encode()) > 1 for name in value) and (twice := _twice(line)):
        raise ConfigError(f"{where}: {twice!r} stands there twice; keep one of them")
    return {name: _known(name, each, where) if name in COLUMNS else each for name, each in value.items()}


def _twice(line: bytes) -> str | None:
    """Return a key that the line's object has more than once, None if the same words stand elsewhere in it."""
    objects: list[list[tuple[str, object]]] = []
    json.loads(line, object_pairs_hook=objects.append)
    names = [name for name, _ in objects[-1]]
    return next((name for name in names if names.count(name) > 1), None)


def _known(name: str, value: object, where: str) -> str | None:
    """Return the text of a known column; ids, groups and contestants may be whole numbers."""
    if value is None or isinstance(value, str):
        return value
    if name in NAMES and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    kinds = "text or a whole number" if name in NAMES else "text"
    raise ConfigError(f"{where}: {name!r} is {msgspec.json.encode(value).decode()[:60]}; write {kinds}")


def _inferred(name: str, values: list[object], source: str) -> Chunk:
    if name in COLUMNS:
        return pa.array(values, pa.large_string())
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise ConfigError(f"{source}: the values of {name!r} are not all of one kind; make them alike") from error


def read_parquet(file: BinaryIO, source: str, allowance: Allowance) -> pa.Table:
    """Return the table; texts are counted before they are unpacked, for a dictionary hides their size."""
    try:
        plain = pq.ParquetFile(file)
        schema = plain.schema_arrow
        allowance.check(plain.metadata.num_rows * len(schema) * 8)
        groups = (plain.metadata.row_group(index) for index in range(plain.metadata.num_row_groups))
        allowance.check(sum(group.total_byte_size for group in groups))
        texts = [field.name for field in schema if pa.types.is_string(_held(field.type))]
        packed = pq.ParquetFile(file, metadata=plain.metadata, read_dictionary=texts)
        batches = [_unpacked(batch, schema, allowance) for batch in packed.iter_batches(batch_size=_ROWS_AT_ONCE)]
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{source} is not a whole Parquet file; write or copy it again") from error
    if not batches:
        return schema.remove_metadata().empty_table()
    return pa.concat_tables(batches, promote_options="permissive")


def _held(kind: pa.DataType) -> pa.DataType:
    """Return the type without what only says how it is laid out in memory."""
    if pa.types.is_dictionary(kind):
        return _held(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def _unpacked(batch: pa.RecordBatch, schema: pa.Schema, allowance: Allowance) -> pa.Table:
    columns = [_unpacked_column(column, schema.field(index), allowance) for index, column in enumerate(batch.columns)]
    return pa.Table.from_arrays(columns, names=schema.names)


def _unpacked_column(column: Chunk, field: "pa.Field[pa.DataType]", allowance: Allowance) -> Chunk:
    if not (isinstance(column, pa.DictionaryArray) and pa.types.is_string(_held(column.type))):
        allowance.take(column.nbytes)
        return column
    sizes = np.maximum(lengths(column.dictionary), 0)
    size = int(sizes[np.asarray(column.indices.drop_null())].sum()) + 4 * len(column)
    allowance.take(size)
    if pa.types.is_dictionary(field.type) and field.name not in COLUMNS:
        return column
    return column.cast(pa.large_string() if size > _MOST_OF_STRING else _held(field.type))


def same_columns(one: pa.Table, other: pa.Table, *, names: tuple[str, str]) -> None:
    """Refuse two parts of one table whose columns differ, with the difference."""
    kinds = [{field.name: str(_held(field.type)) for field in table.schema} for table in (one, other)]
    for column in dict.fromkeys([*kinds[0], *kinds[1]]):
        first, second = (each.get(column, "missing") for each in kinds)
        if first != second:
            raise ConfigError(
                f"{names[1]} differs from {names[0]}: the column {column!r} is {second}, there {first}; "
                f"write all parts with the same columns"
            )
