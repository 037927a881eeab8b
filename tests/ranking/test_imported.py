"""Comparisons from a CSV that somebody else made."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ConfigError
from pipeline.ranking import Ranking, comparisons_from, rank


def outcomes(text: str) -> list[tuple[str, str | None]]:
    table = comparisons_from(text.encode(), name="pairs.csv")
    return list(zip(table["status"].to_pylist(), table["outcome"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    "header", ["first_id,second_id,winner_id", "ID1,ID2,better_id", "\ufefffirst_id,second_id,winner_id"]
)
def test_both_kinds_of_header_are_read(header):
    assert outcomes(f"{header}\na,b,a\na,b,b\n") == [("ok", "first"), ("ok", "second")]


@pytest.mark.parametrize(
    ("winner", "status", "outcome"),
    [
        ("tie", "ok", "tie"),
        ("TIE", "ok", "tie"),
        ("", "unparsed", None),
        ("NA", "unparsed", None),
        ("nan", "unparsed", None),
    ],
)
def test_ties_and_missing_answers_are_told_apart(winner, status, outcome):
    assert outcomes(f"first_id,second_id,winner_id\na,b,{winner}\n") == [(status, outcome)]


def test_an_id_is_kept_byte_for_byte_even_if_it_looks_like_a_number_or_like_nothing():
    data = b'ID1,ID2,better_id,outcome\n001,nan,nan,second\n"x\ny",1e3,1e3,second\n'
    table = comparisons_from(data, name="pairs.csv")
    assert table["first_id"].to_pylist() == ["001", "x\ny"]
    assert table["second_id"].to_pylist() == ["nan", "1e3"]
    assert table["outcome"].to_pylist() == ["second", "second"]


@pytest.mark.parametrize("word", ["tie", "Tie", "NA", "none", "nan"])
@pytest.mark.parametrize("row", ["{0},b,{0}", "a,{0},{0}"])
def test_a_winner_that_is_an_id_and_a_word_for_none_is_refused_with_its_row(word, row):
    data = f"ID1,ID2,better_id\na,b,a\n{row.format(word)}\n".encode()
    with pytest.raises(ConfigError, match=rf"pairs.csv, row 3: better_id is {word}, .*rename .* column outcome"):
        comparisons_from(data, name="pairs.csv")


def test_an_outcome_tells_what_a_winner_means_that_is_called_by_a_word():
    rows = ["tie,b,tie,first", "tie,b,tie,tie", "tie,b,,tie", "b,tie,tie,second", "NA,b,NA,first", "tie,b,b,second"]
    told = ["first", "tie", "tie", "second", "first", "second"]
    text = "\n".join(["first_id,second_id,winner_id,outcome", *rows, ""])
    assert outcomes(text) == [("ok", outcome) for outcome in told]
    assert outcomes("first_id,second_id,winner_id,outcome\ntie,b,,\n") == [("unparsed", None)]


def test_known_further_columns_are_carried_along():
    table = comparisons_from(b"ID1,ID2,better_id,model,note\na,b,a,m,x\n", name="pairs.csv")
    assert table["model"].to_pylist() == ["m"]
    assert "note" not in table.column_names


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "pairs.csv is empty"),
        (b"a,b\n1,2\n", "pairs.csv needs the columns first_id, second_id, winner_id .* it has a, b"),
        (b"PK\x03\x04\0\0", "pairs.csv is not a text file; save it as CSV"),
        (b"PAR1 and no more", "pairs.csv is not a whole Parquet file"),
        (b"ID1,ID2,better_id\na,b,c\n", "pairs.csv, row 2: better_id must be a, b, tie or empty: c"),
        (b"ID1,ID2,better_id\na,b,a\n,b,b\n", "pairs.csv, row 3: ID1 is empty"),
        (b"ID1,ID2,better_id\na,b\n", "pairs.csv cannot be read as CSV"),
        (b"ID1,ID2,better_id\n\xff,b,b\n", "pairs.csv cannot be read as CSV"),
    ],
)
def test_a_file_that_says_nothing_is_refused_with_its_name_and_row(data, words):
    with pytest.raises(ConfigError, match=words):
        comparisons_from(data, name="pairs.csv")


def test_an_imported_file_can_be_ranked():
    data = b"ID1,ID2,better_id\na,b,a\nb,c,b\nc,a,a\nc,b,c\nb,a,b\n"
    result = rank(comparisons_from(data, name="pairs.csv"))
    assert isinstance(result, Ranking)
    assert [one.contestant for one in result.standings] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "header", ["first_id,first_id,second_id,winner_id", "group,first_id,group,second_id,winner_id"]
)
def test_a_column_that_stands_twice_is_refused_by_name(header):
    twice = "group" if header.startswith("group") else "first_id"
    rows = f"{header}\n{','.join('a' * len(header.split(',')))}\n".encode()
    with pytest.raises(ConfigError, match=rf"pairs\.csv has the column {twice} twice; rename or remove one"):
        comparisons_from(rows, name="pairs.csv")


def test_a_column_that_stands_twice_in_a_parquet_file_is_refused_by_name():
    columns = ["first_id", "second_id", "second_id", "winner_id"]
    file = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 4, names=columns), file)
    with pytest.raises(ConfigError, match=r"pairs\.parquet has the column second_id twice"):
        comparisons_from(file.getvalue().to_pybytes(), name="pairs.parquet")


def test_columns_that_nobody_reads_may_have_one_name():
    table = comparisons_from(b"first_id,note,second_id,note,winner_id\na,x,b,y,a\n", name="pairs.csv")
    assert table["outcome"].to_pylist() == ["first"]
