"""Samples and templates from files, folders and URLs; what cannot be read is named, and no credential is shown."""

import os
import socket
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from pipeline.errors import ConfigError
from pipeline.samples import Samples
from pipeline.storage.sources import read_samples, read_text, shown
from tests.samples.reading import ONE, parquet, refusal


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
