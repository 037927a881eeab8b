"""Samples and templates from files and URLs; whatever is wrong with them is one sentence."""

import csv
import io
import json
import os
import socket
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.samples import Samples
from pipeline.storage.sources import read_samples, read_text, shown

IDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40).map(lambda text: f"{text}.")


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


@pytest.mark.parametrize("twice", ["id", "text", "more"])
def test_a_key_that_a_line_has_twice_is_refused(tmp_path: Path, twice: str) -> None:
    line = '{"id":"a","text":"x","more":"m","KEY":"other"}'.replace("KEY", twice)
    said = refused_bytes("s.jsonl", f'{{"id":"b","text":"y"}}\n{line}\n'.encode(), tmp_path)
    assert said == f", line 2: {twice!r} stands there twice; keep one of them"


def test_a_key_that_stands_elsewhere_in_its_line_too_is_none_twice(tmp_path: Path) -> None:
    line = json.dumps({"id": "a", "text": "x", "more": {"id": "c", "text": ["id"]}})
    assert from_bytes("s.jsonl", f'{line}\n{{"id":"b","text":"y"}}\n'.encode(), tmp_path).ids() == ["a", "b"]


def test_a_file_whose_name_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "good.txt").write_text("x")
    try:
        Path(os.fsdecode(bytes(tmp_path / "texts") + b"/bad\xff.txt")).write_text("y")
    except OSError:
        pytest.skip("this file system has no such names")
    assert refusal("texts", str(tmp_path)).endswith("holds a file whose name is not UTF-8, 'bad?.txt'; rename it")


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True)


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
            " has no column 'id', only 'id;text'; separate the columns by commas, not by ';'",
            id="semicolons",
        ),
        pytest.param(
            b"id;text\na;b, c\n",
            ", line 2: the columns are separated by ';'; separate them by commas",
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
    data = b"".join(b'{"id":%d,"text":"x"}\n' % n for n in range(100_000))
    started = time.perf_counter()
    assert len(from_bytes("essays.jsonl", data, tmp_path)) == 100_000
    assert time.perf_counter() - started < 8


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


ONE = pa.table({"id": ["a"], "text": ["x"]})


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
        made = read_samples("essays.parquet", base=str(tmp_path))
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


def test_a_folder_of_texts_is_read_by_name_and_other_files_are_ignored(tmp_path: Path) -> None:
    for name in ("b [v2].txt", "a_vs_\u00e9.TXT", "10.txt", "_x.txt", "notes.md", ".hidden.txt"):
        (tmp_path / name).write_bytes(f"text of {name}\r\n".encode())
    (tmp_path / "more.txt").mkdir()
    made = read_samples(".", base=str(tmp_path))
    assert made.ids() == ["10", "_x", "a_vs_\u00e9", "b [v2]"]
    assert made.texts()[::2] == ["text of 10.txt\r\n", "text of a_vs_\u00e9.TXT\r\n"]


def test_a_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("x")
    (tmp_path / "wrong.txt").write_bytes(b"ab\xff")
    assert refusal(str(tmp_path), "/") == f"{tmp_path}/wrong.txt: byte 2 is not UTF-8; save the file as UTF-8"


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("x")
    assert "holds no .txt and no .parquet file; give .csv" in refusal(str(tmp_path), "/")


def test_a_folder_of_both_kinds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "a.parquet").write_bytes(parquet(ONE))
    assert "holds .txt and .parquet files; keep one kind" in refusal(str(tmp_path), "/")


def test_the_parts_of_a_parquet_folder_are_one_table(tmp_path: Path) -> None:
    (tmp_path / "part-1.parquet").write_bytes(parquet(pa.table({"id": ["b"], "text": ["x"]})))
    other = pa.table({"text": pa.array(["y"], pa.large_string()), "id": ["a"]})
    (tmp_path / "part-2.parquet").write_bytes(parquet(other))
    (tmp_path / "_SUCCESS").write_bytes(b"")
    assert read_samples(str(tmp_path), base="/").ids() == ["b", "a"]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"id": [1], "text": ["y"]}, "the column 'id' is int64, there string"),
        ({"id": ["b"], "text": ["y"], "m": [1]}, "the column 'm' is int64, there missing"),
        ({"id": ["b"]}, "the column 'text' is missing, there string"),
    ],
)
def test_b15_parts_with_other_columns_are_refused_with_the_difference(
    second: dict[str, list[object]], said: str, tmp_path: Path
) -> None:
    (tmp_path / "1.parquet").write_bytes(parquet(ONE))
    (tmp_path / "2.parquet").write_bytes(parquet(pa.table(second)))
    assert refusal(str(tmp_path), "/").startswith(f"{tmp_path}/2.parquet differs from 1.parquet: {said}")


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("gone.csv", "gone.csv does not exist; check the path"),
        ("gone/", "gone does not exist"),
        ("essays.xlsx", "essays.xlsx has the ending '.xlsx', which is not known; save it as CSV"),
        ("essays.csv.gz", "has the ending '.gz', which is not known"),
        ("essay.txt", "has the ending '.txt', which is not known; give its folder"),
        ("essays", "has the ending '', which is not known"),
        ("/dev/null", "/dev/null is neither a file nor a folder"),
        ("nowhere://x/y.csv", "nowhere://x/y.csv has an unknown scheme; use a path, s3://"),
        ("a\x1b[31m\n.csv", "a\\x1b[31m\\n.csv' does not exist"),
        ("a\x00.csv", "a\\x00.csv' could not be read (ValueError)"),
        ("zip://a.csv::s3://bucket/b.zip", "is a chain of addresses"),
        ("http://example.com/a.csv", "would be read without encryption; use https"),
        ("http:///a.csv", "would be read without encryption; use https"),
        ("http://[2001:db8::1]/a.csv", "would be read without encryption; use https"),
        ("http://[::1]:9/a.csv", "http://[::1]:9/a.csv does not exist or cannot be reached"),
        ("http://[::1]:9/a.csv::file:///etc/passwd", "is a chain of addresses"),
        ("zip://a.csv::http://[::1]:9/b.zip", "is a chain of addresses"),
        ("http://127.0.0.2:9/a.csv", "http://127.0.0.2:9/a.csv does not exist or cannot be reached"),
        ("memory://gone/a.csv", "memory://gone/a.csv does not exist or cannot be reached; check the address"),
    ],
)
def test_what_cannot_be_read_is_named(location: str, said: str, tmp_path: Path) -> None:
    for name in ("essays.xlsx", "essays.csv.gz", "essay.txt", "essays"):
        (tmp_path / name).write_bytes(b"x")
    assert said in refusal(location, str(tmp_path))


@pytest.mark.parametrize(
    ("location", "base"),
    [
        ("memory://study/data/essays.csv", "/"),
        ("essays.csv", "memory://study/data"),
        ("data/essays.csv", "memory://study/"),
        ("../data/essays.csv", "memory://study/files"),
    ],
)
def test_a_url_and_a_path_relative_to_one_are_read(location: str, base: str, memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/study/data/essays.csv", b"id,text\na,x\n")
    assert read_samples(location, base=base).ids() == ["a"]


class _ServerByNumber(ThreadingHTTPServer):
    address_family = socket.AF_INET6


def test_samples_are_read_from_this_machine_under_its_longer_number(tmp_path: Path) -> None:
    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:  # Any: what the server hands over
            super().__init__(*arguments, directory=str(tmp_path))

        def log_message(self, *_: object) -> None:
            """Keep standard error for what went wrong."""

    (tmp_path / "a.csv").write_bytes(b"id,text\na,x\n")
    with _ServerByNumber(("::1", 0), Files) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        here = f"http://[::1]:{server.server_port}"
        assert read_samples(f"{here}/a.csv", base="/").ids() == read_samples("a.csv", base=here).ids() == ["a"]
        server.shutdown()


def test_every_format_is_read_from_a_url(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe({"/m/a.jsonl": b'{"id":"a","text":"x"}', "/m/a.parquet": parquet(ONE), "/m/t/a.txt": b"x"})
    found = [read_samples(name, base="memory://m").digest() for name in ("a.jsonl", "a.parquet", "t")]
    assert found == [Samples.of(ONE, source="one").digest()] * 3


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_blank_rows_of_a_spreadsheet_are_left_out_and_counted(tmp_path: Path, line_end: bytes) -> None:
    lines = [b"id,text,note", b"a,x,1", b",,", b"b,y,2", b"", b',"",', b",", b",,,,"]
    made = from_bytes("a.csv", line_end.join(lines) + line_end, tmp_path)
    assert (made.ids(), made.blank) == (["a", "b"], 4)
    whole = from_bytes("b.csv", line_end.join([lines[0], lines[1], lines[3]]), tmp_path)
    assert made.digest() == whole.digest()


def test_a_file_url_and_a_path_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,text\na,x\n")
    assert (
        read_samples(f"file://{tmp_path}/a.csv", base="/").digest()
        == read_samples("a.csv", base=f"file://{tmp_path}").digest()
    )


@pytest.mark.parametrize(
    "location",
    [
        "s3://AKIAKEY:topsecret@bucket/a.csv",
        "s3://AKIAKEY:top/secret@bucket/a.csv",
        "https://topsecret@host/a.csv",
        "https://user:topsecret@host:8080/a.csv?sig=topsecret",
        "nowhere://host/a.csv?sig=topsecret",
    ],
)
def test_credentials_in_a_url_are_never_printed(location: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_samples(location, base=str(tmp_path))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "secret" not in shown(location)


@pytest.mark.parametrize(
    "location", ["essays@2.csv", "s3://bucket/a@b.csv", "https://host:8080/a@b.csv", "http://[::1]:8080/a@b.csv"]
)
def test_an_at_sign_in_a_path_is_no_credential(location: str) -> None:
    assert shown(location) == location


def test_a_template_is_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes(b"\xef\xbb\xbfWhich? \xc3\xa9\r\n")
    assert read_text("mine.txt", base=str(tmp_path)) == "Which? \u00e9\r\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"a\xff", "byte 1 is not UTF-8"), (b"x" * (2**20 + 1), "has more than 1048576 bytes; shorten it")],
)
def test_a_template_that_is_not_a_small_text_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes(data)
    with pytest.raises(ConfigError, match=said):
        read_text("mine.txt", base=str(tmp_path))


@pytest.mark.parametrize(("name", "said"), [("gone.txt", "does not exist"), (".", "is a folder; give a file")])
def test_a_template_that_is_no_file_is_refused(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        read_text(name, base=str(tmp_path))


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


def test_an_empty_text_in_a_folder_is_named_as_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "essays"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    (folder / "b.txt").write_text("")
    with pytest.raises(ConfigError, match=r"essays, file b\.txt: the sample 'b' has an empty text"):
        read_samples("essays", base=str(tmp_path))


def test_a_path_from_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "essays.csv").write_text("id,text\na,one\n")
    assert read_samples("~/essays.csv", base="/nowhere").ids() == ["a"]
