"""What `rank` and `report` leave behind: files, pages that say how they were made, tables in the store."""

import csv
import hashlib
import json
import re
from importlib.metadata import version
from pathlib import Path

import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pipeline.ranking.tables import DIAGNOSTICS, RANKINGS
from pipeline.simulator import Simulator
from tests.cli.conftest import ONE_JUDGE, SMALL, Pairlog, a_file
from tests.conftest import ExperimentFile


def test_rankings_and_reports_are_written_where_a_url_says(pairlog: Pairlog, tmp_path):
    file, memory = a_file(tmp_path, SMALL), fsspec.filesystem("memory")
    for kind in ("parquet", "csv", "json"):
        assert pairlog("rank", "--from", file, "--out", f"memory://answers/ranking.{kind}").code == 0
    assert pairlog("report", "--from", file, "--out", "memory://answers/report.html").code == 0
    with memory.open("answers/ranking.parquet") as opened:
        ranks = pq.read_table(opened)["rank"].to_pylist()
    assert [row["rank"] for row in json.loads(memory.cat("answers/ranking.json"))["contestants"]] == ranks
    assert len(memory.cat("answers/ranking.csv").splitlines()) == len(ranks) + 1
    assert memory.cat("answers/report.html").startswith(b"<!doctype html>")


def test_names_that_a_spreadsheet_would_compute_are_neutralised(pairlog: Pairlog, tmp_path):
    file = a_file(tmp_path, [row.replace("a", "=cmd()").replace("b", "@b") for row in SMALL])
    assert pairlog("rank", "--from", file, "--out", tmp_path / "new" / "ranking.csv").code == 0
    with (tmp_path / "new" / "ranking.csv").open(newline="", encoding="utf-8") as opened:
        assert {row["contestant"] for row in csv.DictReader(opened)} == {"'=cmd()", "'@b", "c"}


@pytest.mark.parametrize("command", ["rank", "report"])
@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("pairs.csv/x", "cannot be written (File exists); name a file in a folder that you may write to"),
        ("nowhere://x/y", "nothing can be written there; use a path, s3:// or gs://"),
        ("http://127.0.0.1:9/y", "nothing can be written there; use a path, s3:// or gs://"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_refused_with_a_remedy(pairlog: Pairlog, tmp_path, command, out, words):
    out = f"{out}.{'json' if command == 'rank' else 'html'}"
    called = pairlog(command, "--from", a_file(tmp_path, SMALL), "--out", out)
    assert called.code == 2
    assert f"--out {out}: {words}" in called.err


def made(page: Path) -> dict[str, str]:
    """How the page says it was made."""
    text = page.read_text(encoding="utf-8").partition("How this page was made</h2>")[2]
    return dict(re.findall(r'<th scope="row">([^<]*)</th><td>([^<]*)</td>', text.partition("</table>")[0]))


def test_the_page_of_a_file_says_which_file_it_was_and_how_it_was_ranked(pairlog: Pairlog, tmp_path):
    file = a_file(tmp_path, ONE_JUDGE)
    asked = ["--ties", "davidson", "--position", "--intervals", "bootstrap", "--seed", "7", "--regularisation", "0.5"]
    assert pairlog("report", "--from", file, "--out", tmp_path / "page.html", *asked).code == 0
    assert made(tmp_path / "page.html") == {
        "ranked": "by contestant",
        "method": "bradley-terry",
        "ties": "davidson",
        "position bias in the model": "yes",
        "length in the model": "no",
        "regularisation": "0.5",
        "interval": "bootstrap, 95 %, 1,000 rounds",
        "clusters": "8, by row",
        "seed": "7",
        "pairlog": version("pairlog"),
        "file": "pairs.csv",
        "SHA-256 of the file": hashlib.sha256(file.read_bytes()).hexdigest(),
    }


def test_the_page_says_how_it_was_made_also_where_there_is_no_ranking(pairlog: Pairlog, tmp_path):
    assert pairlog("report", "--from", a_file(tmp_path, ["a,b,,m"]), "--seed", "7").code == 1
    found = made(Path("report.html"))
    assert (found["seed"], found["regularisation"]) == ("7", "none unless it is needed")
    assert len(found["SHA-256 of the file"]) == 64


def test_the_page_of_an_experiment_says_whether_length_was_in_the_model(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path
):
    assert pairlog("run", experiment_file(), "--interval", "0").code == 0
    for more, answer in (([], "no"), (["--length"], "yes")):
        assert pairlog("report", "essays", "--out", tmp_path / "page.html", *more).code == 0
        found = made(tmp_path / "page.html")
        assert (found["length in the model"], found["pairlog"]) == (answer, version("pairlog"))
        assert {"experiment", "samples", "pairs", "rows"} < set(found)


def test_the_tables_of_a_study_that_grows_tell_which_answer_is_newest(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path
):
    for more in ("", "directions: [forward, reverse]"):
        assert pairlog("run", experiment_file(more=more), "--interval", "0").code == 0
        assert pairlog("report", "essays").code == 0
    for table in ("rankings", "diagnostics"):
        paths = (tmp_path / ".pairlog" / table).rglob("*.parquet")
        files = {path.stem: pq.read_table(path, partitioning=None) for path in paths}
        assert sorted({row["rows"] for found in files.values() for row in found.to_pylist()}) == [15, 30]
        assert all(set(found["rows_digest"].to_pylist()) == {named} for named, found in files.items())
        every = f"'{tmp_path}/.pairlog/{table}/**/*.parquet'"
        newest = "rank() over (partition by experiment order by rows desc, rows_digest) = 1"
        read = duckdb.execute(f"SELECT * FROM {every} QUALIFY {newest}").df()
        (whole,) = (found for found in files.values() if found["rows"][0].as_py() == 30)
        assert len(read) == len(whole)
        assert set(read["rows"]) == {30}


def test_the_tables_of_two_experiments_are_one_dataset_to_every_reader(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path
):
    for name in ("essays", "poems"):
        assert pairlog("run", experiment_file(name=name), "--interval", "0").code == 0
        assert pairlog("report", name).code == 0
    for table, schema in (("rankings", RANKINGS), ("diagnostics", DIAGNOSTICS)):
        folder = tmp_path / ".pairlog" / table
        found = {
            "pyarrow": ds.dataset(folder, partitioning="hive").to_table().to_pandas(),
            "pandas": pd.read_parquet(folder),
            "duckdb": duckdb.execute(f"SELECT * FROM '{folder}/**/*.parquet'").df(),
            "polars": pl.read_parquet(folder).to_pandas(),
        }
        for reader, rows in found.items():
            assert set(rows.columns) == set(schema.names), reader
            assert set(rows["experiment"]) == {"essays", "poems"}, reader
            assert len(rows) == len(found["pyarrow"]), reader
        stored = ds.dataset(folder, partitioning="hive").schema
        assert all(stored.field(field.name).equals(field, check_metadata=True) for field in list(schema)[1:])


@pytest.mark.parametrize("name", ["page.pdf", "page", "page.md"])
def test_a_report_is_written_as_a_page_only(pairlog: Pairlog, tmp_path, name):
    called = pairlog("report", "--from", a_file(tmp_path, SMALL), "--out", tmp_path / name)
    assert called.code == 2
    assert "the ending says the format; use .html or .htm" in called.err
    assert not (tmp_path / name).exists()
