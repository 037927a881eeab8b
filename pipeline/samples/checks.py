"""What a table of samples must be: the columns, the ids, the texts, and no id for two things."""

import io
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import ConfigError
from pipeline.samples.content import Column, lengths
from pipeline.wording import and_more, nearest

COLUMNS = ("id", "text", "group", "contestant", "context", "criterion")
NAMES = ("id", "group", "contestant")  # columns where a whole number is taken as its decimal text
_LONGEST_ID = 512
_MOST_BYTES_OF_STRING = 2**31 - 1  # an Arrow string array counts its bytes in 32 bits
_Rows = npt.NDArray[np.int64]
At = Callable[[int], str]
_OTHER_MARKS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_MOST_NAMED = 3
_CONTROL = r"[\x00-\x1f\x7f-\x{9f}]"


class Checked(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A table that can be judged, and how many rows of it were left out because they held nothing."""

    table: pa.Table
    blank: int


def numbered(row: int) -> str:
    """Return what a row is called where nothing better is known."""
    return f"row {row + 1}"


def checked(table: pa.Table, *, source: str, at: At = numbered) -> Checked:
    """Return the table in the shape of `COLUMNS` + metadata, blank and repeated rows left out, or refuse it."""
    shaped = _shaped(table, source)
    _check_encoding(shaped, source, at)
    blank = _blank_rows(shaped)
    kept = np.delete(np.arange(len(shaped)), blank)
    filled = shaped.take(kept) if len(blank) else shaped

    def of_kept(row: int) -> str:
        return at(int(kept[row]))

    _check_ids(filled.column("id"), source, of_kept)
    _check_texts(filled, source, of_kept)
    return Checked(table=_without_twins(filled, source, of_kept), blank=len(blank))


def _blank_rows(table: pa.Table) -> _Rows:
    """Return the rows that hold nothing at all: spreadsheets write such ones below and between the others."""
    rows = np.arange(len(table))
    for name in table.column_names:
        column = table.column(name)
        if len(rows) < len(table):
            column = column.take(rows)
        is_empty = lengths(column) <= 0 if _is_string(column.type) else np.asarray(column.is_null(nan_is_null=True))
        rows = rows[is_empty]
        if not len(rows):
            break
    return rows


def _shaped(table: pa.Table, source: str) -> pa.Table:
    """Return the table with the known columns first, as text, and the others behind them as they are."""
    names = table.column_names
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{source} has two columns named {name!r}; rename one of them")
    if not names and not len(table):
        table = pa.table({name: pa.array([], pa.string()) for name in COLUMNS})
    if missing := [name for name in ("id", "text") if name not in table.column_names]:
        raise ConfigError(_missing_columns(source, missing, names))
    known = {name: _as_text(table, name, source) for name in COLUMNS}
    others = {name: table.column(name) for name in names if name not in COLUMNS}
    for name, column in others.items():
        _check_storable(name, column.type, source)
    return pa.table({**known, **others})


def _missing_columns(source: str, missing: list[str], found: list[str]) -> str:
    if (other := separated(found)) is not None:
        return f"{source}: {other}"
    shown = f"only {', '.join(repr(each) for each in found[:20])}"
    spare = [each for each in found if each not in COLUMNS]
    if len(missing) == 1:
        (name,) = missing
        hint = f"did you mean {near!r}?" if (near := nearest(name, spare)) else f"add a column named {name}"
        return f"{source} has no column {name!r}, {shown}; {hint}"
    names = ((name, nearest(name, spare)) for name in missing)
    helps = (f"rename {near!r} to {name}" if near else f"name a column {name}" for name, near in names)
    return f"{source} has no columns {' and '.join(map(repr, missing))}, {shown}; {' and '.join(helps)}"


def separated(header: list[str]) -> str | None:
    """Return what is wrong with a header whose columns are separated by something else than commas; None if not so."""
    marks = (words for mark, words in _OTHER_MARKS.items() if mark in header[0]) if len(header) == 1 else iter(())
    if (words := next(marks, None)) is None:
        return None
    return f"the columns are separated by {words}; separate them by commas, and quote values that hold commas"


def _as_text(table: pa.Table, name: str, source: str) -> Column:
    """Return the column as one array of strings, with empty optional values as nulls."""
    if name not in table.column_names:
        return pa.chunked_array([pa.nulls(len(table), pa.string())])
    column = table.column(name)
    held = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    whole = name in NAMES and pa.types.is_integer(held)
    if not (whole or _is_string(held) or pa.types.is_null(held)):
        kinds = "text or whole numbers" if name in NAMES else "text"
        raise ConfigError(f"{source}: the column {name!r} holds {held} values; write {kinds}")
    if pa.types.is_dictionary(column.type):
        column = column.cast(held)
    return _joined(column if name in ("id", "text") else _without_empty(column))


def _is_string(held: pa.DataType) -> bool:
    return bool(pa.types.is_string(held) or pa.types.is_large_string(held) or pa.types.is_string_view(held))


def _without_empty(column: Column) -> Column:
    text = column.cast(pa.large_string())
    kept: Column = pc.if_else(pa.array(lengths(text) == 0), pa.scalar(None, pa.large_string()), text)
    return kept


def _joined(column: Column) -> Column:
    large = pa.chunked_array([column.cast(pa.large_string()).combine_chunks()], pa.large_string())
    return large.cast(pa.string()) if large.nbytes <= _MOST_BYTES_OF_STRING else large


def _check_storable(name: str, held: pa.DataType, source: str) -> None:
    try:
        pq.write_table(pa.table({name: pa.array([], held)}), io.BytesIO())
    except (pa.ArrowException, NotImplementedError) as error:
        raise ConfigError(
            f"{source}: the column {name!r} holds {held} values, which Parquet cannot keep; remove it"
        ) from error


def _check_encoding(table: pa.Table, source: str, at: At) -> None:
    for name in table.column_names:
        column = table.column(name)
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            row = _undecodable_row(column)
            if row is None:
                raise ConfigError(f"{source}: the column {name!r} holds damaged values; write it again") from error
            raise ConfigError(f"{source}, {at(row)}: {name!r} is not UTF-8; write the file as UTF-8") from error


def _undecodable_row(column: Column) -> int | None:
    """Return the first row whose bytes are not UTF-8; None where that is not the fault."""
    if not _is_string(column.type):
        return None
    for row, value in enumerate(column.cast(pa.large_binary())):
        try:
            (value.as_py() or b"").decode()
        except UnicodeDecodeError:
            return row
    return None


def _check_ids(ids: Column, source: str, at: At) -> None:
    sizes = lengths(ids)
    rules = (
        (sizes == -1, "there is no id", "give every sample one"),
        (sizes == 0, "the id is empty", "give every sample one"),
        (sizes > _LONGEST_ID, f"is longer than {_LONGEST_ID} bytes", "shorten it"),
        (np.asarray(pc.match_substring_regex(ids, _CONTROL)), "holds a control character", "remove it"),
    )
    for broken, what, helps in rules:
        if len(rows := np.flatnonzero(broken)):
            row = int(rows[0])
            subject = f"the id {_shown(ids, row)} " if sizes[row] > 0 else ""
            raise ConfigError(f"{source}, {at(row)}: {subject}{what}{_others(rows, at)}; {helps}")


def _check_texts(table: pa.Table, source: str, at: At) -> None:
    texts = table.column("text")
    sizes = lengths(texts)
    blank = np.asarray(pc.utf8_is_space(texts).fill_null(fill_value=False))
    if len(rows := np.flatnonzero((sizes <= 0) | blank)):
        row = int(rows[0])
        what = "has no text" if sizes[row] < 0 else "has an empty text"
        subject = f"the sample {_shown(table.column('id'), row)} {what}{_others(rows, at)}"
        raise ConfigError(f"{source}, {at(row)}: {subject}; give it one or leave it out")


def _others(rows: _Rows, at: At) -> str:
    """Return how many rows have the fault of the first, and where some of them are; nothing if it is the only one."""
    if len(rows) == 1:
        return ""
    others = and_more([at(int(row)) for row in rows[1:]], most=_MOST_NAMED)
    return f" (the first of {len(rows):,}; also {others})"


def _shown(ids: Column, row: int) -> str:
    return repr(str(ids[row])[:60])


def _without_twins(table: pa.Table, source: str, at: At) -> pa.Table:
    """Return the table without rows that repeat an earlier one; refuse an id that stands for two things."""
    codes = table.column("id").combine_chunks().dictionary_encode().indices.to_numpy()
    _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
    if len(firsts) == len(table):
        return table
    original = firsts[inverse]
    later = np.flatnonzero(original != np.arange(len(table)))
    for name in table.column_names[1:]:
        column = table.column(name)
        if differing := list(_differing(column, later, original[later])):
            (row, first), *others = differing
            shown = _shown(table.column("id"), row)
            more = f", the first of {len(differing):,} such rows" if others else ""
            raise ConfigError(
                f"{source}: the id {shown} stands in {at(first)} and {at(row)} with different {name!r}{more}; "
                f"give each sample its own id"
            )
    return table.take(np.sort(firsts))


def _differing(column: Column, rows: _Rows, firsts: _Rows) -> Iterator[tuple[int, int]]:
    """Yield each row whose value is not that of the earlier row; two NaN are the same value."""
    if column.take(rows).equals(column.take(firsts)):
        return
    for row, first in zip(rows.tolist(), firsts.tolist(), strict=True):
        one, other = column[row], column[first]
        if not one.equals(other) and str(one) != str(other):
            yield row, first
