"""Comparisons that were made elsewhere: a CSV or Parquet file of pairs and winners as a comparisons table."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from pipeline.errors import ConfigError

_SHAPES = (("first_id", "second_id", "winner_id"), ("ID1", "ID2", "better_id"))
_EXTRAS = (
    "pair_id", "group", "first_contestant", "second_contestant", "template", "provider", "model", "reasoning",
    "direction", "criterion",
)  # fmt: skip
_READ = frozenset((*_EXTRAS, "outcome", *(column for shape in _SHAPES for column in shape)))
_PARQUET = b"PAR1"
_LOOKED_AT = 4096
_OUTCOMES = ("first", "second", "tie")
_NO_ANSWER = ("", "na", "nan", "null", "none")


def comparisons_from(data: bytes, *, name: str) -> pa.Table:
    """Return the file's rows as comparisons; `name` is the file's, for messages.

    A winner that is empty (or NA) is unparsed, `tie` is a tie; anything that is neither of the two ids is refused. Rows
    that `results` wrote say in `outcome` that there was a tie. Where a sample is called by such a word, only an outcome
    tells what it means.
    """
    is_parquet = data.startswith(_PARQUET)
    plain = _unpacked(data, name) if is_parquet else _parsed(data, name)
    header = 0 if is_parquet else 1
    shape = next((shape for shape in _SHAPES if set(shape) <= set(plain.column_names)), None)
    if shape is None:
        raise ConfigError(
            f"{name} needs the columns first_id, second_id, winner_id (or ID1, ID2, better_id): "
            f"it has {', '.join(plain.column_names)}"
        )
    first, second, winner = (plain[column].combine_chunks() for column in shape)
    _demand_ids(first, column=shape[0], name=name, header=header)
    _demand_ids(second, column=shape[1], name=name, header=header)
    nothing = pa.array([""] * len(plain), pa.string())
    told = plain["outcome"].combine_chunks() if "outcome" in plain.column_names else nothing
    outcome = _outcomes(first, second, winner, told, name=name, column=shape[2], header=header)
    columns = {
        "first_id": first,
        "second_id": second,
        "status": pc.if_else(pc.is_valid(outcome), "ok", "unparsed"),
        "outcome": outcome,
        **{extra: plain[extra].combine_chunks() for extra in _EXTRAS if extra in plain.column_names},
    }
    return pa.table(columns)


def _unpacked(data: bytes, name: str) -> pa.Table:
    """Return the columns of a Parquet file that matter, as text; what is null is empty."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        _demand_each_once(file.schema_arrow.names, name=name)
        table = file.read(columns=[column for column in file.schema_arrow.names if column in _READ])
        return pa.table(
            {column: pc.fill_null(pc.cast(table[column], pa.string()), "") for column in table.column_names}
        )
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{name} is not a whole Parquet file of judged pairs; write or copy it again") from error


def _parsed(data: bytes, name: str) -> pa.Table:
    """Return every column as text."""
    if not data.strip():
        raise ConfigError(f"{name} is empty: it needs a header and one row per comparison")
    if b"\0" in data[:_LOOKED_AT]:
        raise ConfigError(f"{name} is not a text file; save it as CSV")
    try:
        header = pyarrow.csv.open_csv(pa.BufferReader(data)).schema.names
        _demand_each_once(header, name=name)
        types = dict.fromkeys(header, pa.string())
        return pyarrow.csv.read_csv(
            pa.BufferReader(data),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} cannot be read as CSV: {error}") from error


def _demand_each_once(columns: list[str], *, name: str) -> None:
    """Refuse two columns of one name: nobody knows which is meant."""
    twice = [column for column, count in Counter(columns).items() if count > 1 and column in _READ]
    if twice:
        raise ConfigError(f"{name} has the column {twice[0]} twice; rename or remove one of them")


def _demand_ids(ids: pa.Array, *, column: str, name: str, header: int) -> None:
    """Refuse a row without an id; a header line is row 1, as in a spreadsheet."""
    empty = pc.indices_nonzero(pc.equal(ids, ""))
    if len(empty):
        row = empty[0].as_py() + 1 + header
        raise ConfigError(f"{name}, row {row}: {column} is empty; every comparison names two samples")


def _outcomes(
    first: pa.Array, second: pa.Array, winner: pa.Array, told: pa.Array, *, name: str, column: str, header: int
) -> pa.Array:
    """Return first, second, tie or, where there is no answer, null; `told` is what the file says itself, if it does."""
    is_first, is_second = pc.equal(winner, first), pc.equal(winner, second)
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(winner))
    is_tie = pc.equal(lowered, "tie")
    silent = pc.is_in(lowered, value_set=pa.array(_NO_ANSWER))
    is_word = pc.and_(pc.or_(is_first, is_second), pc.or_(is_tie, silent))
    unclear = pc.indices_nonzero(pc.and_(is_word, pc.invert(pc.is_in(told, value_set=pa.array(_OUTCOMES)))))
    if len(unclear):
        row = unclear[0].as_py()
        raise ConfigError(
            f"{name}, row {row + 1 + header}: {column} is {winner[row].as_py()}, which may be the sample of that id or "
            f"mean that there is no winner; rename the sample, or add a column outcome with first, second or tie"
        )
    known = pc.or_(pc.or_(is_first, is_second), pc.or_(is_tie, silent))
    strange = pc.indices_nonzero(pc.invert(known))
    if len(strange):
        row = strange[0].as_py()
        ids = f"{first[row].as_py()}, {second[row].as_py()}"
        raise ConfigError(
            f"{name}, row {row + 1 + header}: {column} must be {ids}, tie or empty: {winner[row].as_py()}"
        )
    tied = pc.and_(pc.equal(told, "tie"), pc.or_(pc.equal(winner, ""), is_tie))
    rest = pc.if_else(is_tie, "tie", pa.scalar(None, pa.string()))
    return pc.if_else(tied, "tie", pc.if_else(is_first, "first", pc.if_else(is_second, "second", rest)))
