"""CSV, JSONL and Parquet as samples: values as they are written, and what is wrong with a file in one sentence."""

import csv
import io
import json
import time
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.samples import Samples
from pipeline.storage.sources import read_samples
from tests.samples.reading import ONE, from_bytes, parquet, refused_bytes

IDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40).map(lambda text: f"{text}.")


@pytest.mark.parametrize("twice", ["id", "text", "more"])
def test_a_key_that_a_line_has_twice_is_refused(tmp_path: Path, twice: str) -> None:
    line = '{"id":"a","text":"x","more":"m","KEY":"other"}'.replace("KEY", twice)
    said = refused_bytes("s.jsonl", f'{{"id":"b","text":"y"}}\n{line}\n'.encode(), tmp_path)
    assert said == f", line 2: {twice!r} stands there twice; keep one of them"


def test_a_key_that_stands_elsewhere_in_its_line_too_is_none_twice(tmp_path: Path) -> None:
    line = json.dumps({"id": "a", "text": "x", "more": {"id": "c", "text": ["id"]}})
    assert from_bytes("s.jsonl", f'{line}\n{{"id":"b","text":"y"}}\n'.encode(), tmp_path).ids() == ["a", "b"]


def test_csv_values_are_taken_as_written(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbfid,text,quality\r\n007,"two\r\nlines, ""quoted""",1.50\r\n8,a\xe2\x80\xa8b,\r\n\r\n'
    made = from_bytes("essays.csv", data, tmp_path)
    assert (made.ids(), made.texts()) == (["007", "8"], ['two\r\nlines, "quoted"', "a\u2028b"])
    assert made.table.column("quality").to_pylist() == ["1.50", ""]


def test_csv_takes_long_texts_and_nul(tmp_path: Path) -> None:
    made = from_bytes("essays.csv", b"id,text\na," + b"x" * 300_000 + b"\nb,y\x00z\n", tmp_path)
    assert [len(text) for text in made.texts()] == [300_000, 3]


def test_csv_is_read_in_many_batches_without_losing_a_row(tmp_path: Path) -> None:
    count = 2 * 2**16
    data = "id,text\n" + "".join(f"s{n},t\n" for n in range(count))
    assert from_bytes("essays.csv", data.encode(), tmp_path).ids() == [f"s{n}" for n in range(count)]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b"id,text\na,b\nc,d,e\n", ", line 3: 3 values for 2 columns", id="ragged"),
        pytest.param(b'id,text\na,"b\nc"\nd\n', ", line 4: 1 value for 2 columns", id="ragged-after-newline"),
        pytest.param(b'id,text\na,"b\n', ", line 2: not valid CSV: unexpected end of data", id="open-quote"),
        pytest.param(b'id,text\na,"b"c\n', ", line 2: not valid CSV", id="after-quote"),
        pytest.param(b"id,text\na,b\rc,d\n", ", line 2: not valid CSV: a bare carriage return", id="bare-cr"),
        pytest.param(b"id,text\ra,b\rc,d\r", ": the lines end in carriage returns alone; save", id="old-lines"),
        pytest.param(b"id,text\na,b\nc,\xff\n", ", line 3: not UTF-8", id="B3"),
        pytest.param(b"id,text\na,\xed\xa0\x80\n", ", line 2: not UTF-8", id="B5"),
        pytest.param(b"", " has no header line", id="no-header"),
        pytest.param(
            b"id;text\na;b\n",
            ": the columns are separated by semicolons; separate them by commas, and quote values that hold commas",
            id="semicolons",
        ),
        pytest.param(b"id\ttext\na\tb\n", ": the columns are separated by tabs; separate them by commas", id="tabs"),
        pytest.param(
            b"id;text\na;b, c\n",
            ", line 1: the columns are separated by semicolons; separate them by commas",
            id="semicolon-comma",
        ),
        pytest.param(b'id,text\n\na,"b\nc"\nd,\n', ", line 5: the sample 'd' has an empty text", id="lines-before"),
        pytest.param(b"id,text,id\na,b,c\n", " has two columns named 'id'", id="two-ids"),
        pytest.param(b"id,text\na,\n", ", line 2: the sample 'a' has an empty text", id="B1"),
        pytest.param(b"id,text\na,b\na,c\n", ": the id 'a' stands in line 2 and line 3", id="B12"),
    ],
)
def test_a_bad_csv_is_refused_with_its_line(data: bytes, said: str, tmp_path: Path) -> None:
    assert refused_bytes("essays.csv", data, tmp_path).startswith(said)


def test_jsonl_is_split_at_newlines_only_and_numbers_become_text(tmp_path: Path) -> None:
    lines = '\ufeff{"id": 7, "text": "a\u2028\x85b", "group": 3, "m": [1]}\r\n\n{"id": "007", "text": "c", "k": 2.5}'
    made = from_bytes("essays.jsonl", lines.encode(), tmp_path)
    assert (made.ids(), made.texts(), made.groups()) == (["7", "007"], ["a\u2028\x85b", "c"], ["3", None])
    assert made.table.select(["m", "k"]).to_pylist() == [{"m": [1], "k": None}, {"m": None, "k": 2.5}]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b'{"id":1.5,"text":"x"}', ", line 1: 'id' is 1.5; write text or a whole number", id="float"),
        pytest.param(b'{"id":true,"text":"x"}', ", line 1: 'id' is true; write text or", id="bool"),
        pytest.param(b'{"id":null,"text":"x"}', ", line 1: there is no id", id="null"),
        pytest.param(b'{"id":"a","text":7}', ", line 1: 'text' is 7; write text", id="number-text"),
        pytest.param(b'{"id":"a","text":null}', ", line 1: the sample 'a' has no text", id="B14-null"),
        pytest.param(
            b'{"id":"a","text":"b"}\r{"id":"c","text":"d"}\r', ", line 1: the lines end in carriage", id="old-lines"
        ),
        pytest.param(b'{"id":"a","text":NaN}', ", line 1: not valid JSON", id="B14-nan"),
        pytest.param(b'{"id":"a"}', " has no column 'text', only 'id'", id="no-text"),
        pytest.param(b'{"id":"a","text":"x"}\n{"id":"b","te', ", line 2: not valid JSON", id="cut"),
        pytest.param(b'\n["a"]', ", line 2: not an object", id="list"),
        pytest.param(b'{"id":"a","text":"\\ud800"}', ", line 1: not valid JSON", id="B5"),
        pytest.param(b'{"id":"a","text":"\\ud800x"}', ", line 1: not valid JSON", id="B5-inside"),
        pytest.param(b'{"id":"a","text":"\xff"}', ", line 1: not UTF-8", id="B3"),
        pytest.param(
            b"".join(b'{"id":%d,"text":"x","k%d":1}\n' % (n, n) for n in range(2000)),
            ", line 999: more than 1000 different keys",
            id="many-keys",
        ),
        pytest.param(b"[" * 100_000, ", line 1: not valid JSON", id="deep"),
        pytest.param(
            b'{"id":"a","text":"x","m":1}\n{"id":"b","text":"x","m":"y"}', ": the values of 'm' are not", id="mixed"
        ),
        pytest.param(b'{"id":"a","text":"x","m":1' + b"0" * 40 + b"}", ": the values of 'm' are not", id="huge"),
    ],
)
def test_a_bad_jsonl_is_refused_with_its_line(data: bytes, said: str, tmp_path: Path) -> None:
    assert refused_bytes("essays.jsonl", data, tmp_path).startswith(said)


def test_a_long_jsonl_takes_time_in_proportion(tmp_path: Path) -> None:
    def work(lines: int) -> float:
        data = b"".join(b'{"id":%d,"text":"x"}\n' % n for n in range(lines))
        started = time.process_time()
        assert len(from_bytes("essays.jsonl", data, tmp_path)) == lines
        return time.process_time() - started

    work(1_000)  # the first pays for what is loaded
    assert work(200_000) < 80 * work(10_000)


def test_parquet_columns_of_any_layout_are_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [7, 8],
            "text": pa.array(["x", "y"], pa.large_string()),
            "group": pa.array(["g", None]).dictionary_encode(),
            "kind": pa.array(["k", "l"]).dictionary_encode(),
            "note": ["n", None],
            "score": [0.5, 1.5],
        }
    )
    made = from_bytes("essays.parquet", parquet(table, row_group_size=1), tmp_path)
    assert (made.ids(), made.texts(), made.groups()) == (["7", "8"], ["x", "y"], ["g", None])
    assert (
        made.table.select(["kind", "note", "score"]).to_pylist() == table.select(["kind", "note", "score"]).to_pylist()
    )
    assert made.table.schema.field("note").type == pa.string()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(parquet(ONE)[:-20], " is not a whole Parquet file", id="B19-cut"),
        pytest.param(b"PAR1" + b"\0" * 100 + b"PAR1", " is not a whole Parquet file", id="B19-zeros"),
        pytest.param(b"id,text\n", " is not a whole Parquet file", id="B19-csv"),
        pytest.param(b"", " is not a whole Parquet file", id="B19-empty"),
        pytest.param(parquet(ONE.rename_columns(["id", "body"])), " has no column 'text'", id="no-text"),
        pytest.param(
            parquet(ONE.set_column(1, "text", pa.array([b"\xed\xa0\x80"]).view(pa.string()))),
            ", row 1: 'text' is not UTF-8",
            id="B5",
        ),
    ],
)
def test_a_bad_parquet_file_is_refused_by_name(data: bytes, said: str, tmp_path: Path) -> None:
    assert refused_bytes("essays.parquet", data, tmp_path).startswith(said)


@pytest.mark.parametrize("damage", range(4, 200, 13))
def test_b19_a_flipped_byte_never_lets_another_error_out(damage: int, tmp_path: Path) -> None:
    data = bytearray(parquet(ONE))
    data[-damage] ^= 0xFF
    (tmp_path / "essays.parquet").write_bytes(data)
    try:
        made: Samples | str = read_samples("essays.parquet", base=str(tmp_path))
    except ConfigError as error:
        made = str(error)
    assert isinstance(made, Samples) or "essays.parquet" in made


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_b20_a_small_file_that_unpacks_to_very_much_is_refused(compression: str, tmp_path: Path) -> None:
    rows = 4000
    bomb = pa.table({"id": [str(n) for n in range(rows)], "text": ["x" * 50_000] * rows})
    data = parquet(bomb, compression=compression)
    assert len(data) < 150_000
    assert refused_bytes("bomb.parquet", data, tmp_path, 2**30).startswith(" unpacks to more than 1000 times its")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("big.csv", b"id,text\n" + b"a,bbbbbbbb\n" * 200),
        ("big.jsonl", b'{"id":"a","text":"x"}\n' * 100),
        ("big.parquet", parquet(pa.table({"id": ["a"] * 900, "text": ["x"] * 900}))),
    ],
)
def test_b20_more_bytes_than_the_limit_are_refused(name: str, data: bytes, tmp_path: Path) -> None:
    assert " holds more than 2000 bytes of samples" in refused_bytes(name, data, tmp_path, 2000)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("none.csv", b"id,text\n"),
        ("none.jsonl", b""),
        ("none.parquet", parquet(ONE.slice(0, 0))),
    ],
)
def test_b16_a_file_without_rows_has_no_samples(name: str, data: bytes, tmp_path: Path) -> None:
    assert len(from_bytes(name, data, tmp_path)) == 0


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_blank_rows_of_a_spreadsheet_are_left_out_and_counted(tmp_path: Path, line_end: bytes) -> None:
    lines = [b"id,text,note", b"a,x,1", b",,", b"b,y,2", b"", b',"",', b",", b",,,,"]
    made = from_bytes("a.csv", line_end.join(lines) + line_end, tmp_path)
    assert (made.ids(), made.blank) == (["a", "b"], 4)
    whole = from_bytes("b.csv", line_end.join([lines[0], lines[1], lines[3]]), tmp_path)
    assert made.digest() == whole.digest()


@given(st.dictionaries(IDS, TEXTS, min_size=1, max_size=6))
def test_every_format_gives_back_odd_ids_and_texts(content: dict[str, str]) -> None:
    files = fsspec.filesystem("memory")
    rows = [{"id": each, "text": text} for each, text in content.items()]
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows([["id", "text"], *([*row.values()] for row in rows)])
    files.pipe("/odd/a.csv", written.getvalue().encode())
    files.pipe("/odd/a.jsonl", b"\n".join(json.dumps(row).encode() for row in rows))
    files.pipe("/odd/a.parquet", parquet(pa.Table.from_pylist(rows)))
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        made = read_samples(name, base="memory://odd")
        assert (made.ids(), made.texts()) == (list(content), list(content.values()))


@pytest.mark.parametrize("name", ["essays.xlsx", "essays.tsv", "essays.ods"])
def test_a_spreadsheets_own_file_is_to_be_saved_as_csv(name: str, tmp_path: Path) -> None:
    assert refused_bytes(name, b"PK", tmp_path).endswith("which is not known; save it as CSV")
