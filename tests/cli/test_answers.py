"""`rank` and `report` as a person calls them: words and an exit code, whatever they are given."""

import hashlib
import json
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pipeline.ranking.tables import DIAGNOSTICS, RANKINGS
from pipeline.simulator import Simulator
from tests.cli.conftest import Called

Pairlog = Callable[..., Called]
HEADER = "first_id,second_id,winner_id,model"
SMALL = ["a,b,a,m", "b,c,b,m", "c,a,c,m", "a,c,a,m", "b,a,b,n", "c,b,c,n", "a,c,a,n", "a,b,a,n"]


def a_file(folder: Path, rows: list[str]) -> Path:
    file = folder / "pairs.csv"
    file.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "there are no comparisons to rank"),
        (["a,a,a,m"], "there is only one contestant, a"),
        (["a,b,tie,m", "b,a,tie,m"], "all 2 comparisons are ties"),
        (["a,b,,m", "b,a,NaN,m"], "none of the 2 comparisons could be read (2 unparsed)"),
        (["a,b,a,m", "b,a,b,m", "c,d,c,m", "d,c,d,m"], "the comparisons fall into 2 parts"),
        ([*SMALL, "lonely,a,,m"], "no readable comparison names lonely"),
        ([*SMALL, "lonely,a,nan,m"], "no readable comparison names lonely"),
    ],
)
@pytest.mark.parametrize("command", ["rank", "report"])
def test_what_cannot_be_answered_is_said_in_words_and_exits_with_1(pairlog: Pairlog, tmp_path, command, rows, words):
    called = pairlog(command, "--from", a_file(tmp_path, rows))
    assert called.code == 1
    assert words in called.last_line
    assert "Traceback" not in called.err


def test_json_is_one_document_also_where_there_is_no_ranking(pairlog: Pairlog, tmp_path):
    called = pairlog("rank", "--from", a_file(tmp_path, ["a,b,,m"]), "--json")
    assert called.code == 1
    assert json.loads(called.out) == {
        "experiment": "pairs",
        "contestants": [],
        "reason": "none of the 1 comparisons could be read (1 unparsed): nothing can be ranked",
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--regularisation", "nan"], "regularisation must be a number of at least 0"),
        (["--confidence", "nan"], "confidence must lie between 0.5 and 1"),
        (["--length"], "--length needs the texts"),
        (["--per", "template"], "there is only one template in pairs"),
        (["essays"], "say what to rank: an EXPERIMENT, or --from FILE.csv"),
    ],
)
def test_a_call_that_makes_no_sense_exits_with_2(pairlog: Pairlog, tmp_path, more, words):
    called = pairlog("rank", "--from", a_file(tmp_path, SMALL), *more)
    assert (called.code, called.out) == (2, "")
    assert words in called.err


def test_the_verdict_comes_first_and_tiers_are_set_apart(pairlog: Pairlog, tmp_path):
    rows = ["a,b,a,m", "b,a,a,m", "b,c,b,m", "c,b,b,m", "a,c,a,m", "c,a,a,m"] * 60 + [
        "a,b,b,m",
        "b,c,c,m",
        "a,c,c,m",
    ] * 9
    called = pairlog("rank", "--from", a_file(tmp_path, rows), "--cluster", "row")
    lines = called.err.splitlines()
    assert called.code == 0
    assert lines[0] == "a is best: every other contestant is proven weaker."
    assert sum(line.startswith("├") for line in lines) == 2
    assert "387 comparisons; 3 tiers that can be told apart" in called.err


@pytest.mark.parametrize(("per", "parts"), [("judge", ["m", "n"]), ("panel", ["majority", "model"])])
def test_parts_are_ranked_beside_the_whole(pairlog: Pairlog, tmp_path, per, parts):
    file = a_file(tmp_path, SMALL)
    called = pairlog("rank", "--from", file, "--per", per, "--json")
    document = json.loads(called.out)
    assert called.code == 0
    assert document["contestants"][0]["contestant"] == "a"
    assert sorted({row["value"] for row in document["parts"]}) == parts
    assert pairlog("rank", "--from", file, "--per", per, "--out", tmp_path / "out.parquet").code == 0
    written = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row for row in written if row["dimension"] != "all"] == document["parts"]
    shown = pairlog("rank", "--from", file, "--per", per).err
    assert all(part in shown for part in parts)


def test_effects_are_shown_with_their_intervals(pairlog: Pairlog, tmp_path):
    called = pairlog("rank", "--from", a_file(tmp_path, SMALL * 9), "--position", "--ties", "davidson")
    assert called.code == 0
    assert "first place: m: " in called.err


def test_a_study_is_provisional_until_every_request_has_ended(
    pairlog: Pairlog, simulator: Simulator, experiment_file: Callable[..., Path], tmp_path
):
    file = experiment_file(more="directions: [forward, reverse]")
    assert pairlog("submit", file).code == 0
    early = pairlog("rank", "essays")
    assert early.code == 1
    assert "provisional: 0 of 30 requests have ended" in early.err
    assert pairlog("report", "essays").code == 1
    assert "So far, there is no ranking" in Path("report.html").read_text(encoding="utf-8")
    assert pairlog("resume", "--interval", "0").code == 0
    called = pairlog("rank", "essays", "--json", "--length", "--by", "sample")
    document = json.loads(called.out)
    assert document["open"] == 0
    assert len(document["contestants"]) == 6
    assert "provisional" not in called.err
    assert pairlog("report", "essays", "--out", tmp_path / "page.html").code == 0
    assert "<b>Provisional.</b>" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def made(page: Path) -> dict[str, str]:
    """How the page says it was made."""
    text = page.read_text(encoding="utf-8").partition("How this page was made</h2>")[2]
    return dict(re.findall(r'<th scope="row">([^<]*)</th><td>([^<]*)</td>', text.partition("</table>")[0]))


def test_the_page_of_a_file_says_which_file_it_was_and_how_it_was_ranked(pairlog: Pairlog, tmp_path):
    file = a_file(tmp_path, SMALL)
    asked = ["--ties", "davidson", "--position", "--interval", "bootstrap", "--seed", "7", "--regularisation", "0.5"]
    assert pairlog("report", "--from", file, "--out", tmp_path / "page.html", *asked).code == 0
    assert made(tmp_path / "page.html") == {
        "ranked": "by contestant",
        "method": "bradley-terry",
        "ties": "davidson",
        "position bias in the model": "yes",
        "length in the model": "no",
        "regularisation": "0.5",
        "interval": "bootstrap, 95%, 1\u202f000 rounds",
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
    pairlog: Pairlog, simulator: Simulator, experiment_file: Callable[..., Path], tmp_path
):
    assert pairlog("run", experiment_file(), "--interval", "0").code == 0
    for more, answer in (([], "no"), (["--length"], "yes")):
        assert pairlog("report", "essays", "--out", tmp_path / "page.html", *more).code == 0
        found = made(tmp_path / "page.html")
        assert (found["length in the model"], found["pairlog"]) == (answer, version("pairlog"))
        assert {"experiment", "samples", "pairs", "rows"} < set(found)


def test_a_sample_that_no_pair_names_is_missed(
    pairlog: Pairlog, simulator: Simulator, experiment_file: Callable[..., Path]
):
    file = experiment_file(more="pairs: {design: random, count: 2, seed: 1}")
    assert pairlog("run", file, "--interval", "0").code == 0
    called = pairlog("rank", "essays")
    assert called.code == 1
    assert called.last_line.startswith(("left: no readable comparison names", "no ranking: the comparisons fall"))


def test_names_that_look_like_markup_are_shown_as_they_are(pairlog: Pairlog, tmp_path):
    odd = {"a": "essay [v2]", "b": "[/b]", "c": "[link=https://example.com]c"}
    rows = [",".join(odd.get(cell, cell) for cell in row.split(",")) for row in SMALL]
    called = pairlog("rank", "--from", a_file(tmp_path, rows))
    assert called.code == 0
    assert all(name in called.err for name in odd.values())


def test_the_tables_of_two_experiments_are_one_dataset_to_every_reader(
    pairlog: Pairlog, simulator: Simulator, experiment_file: Callable[..., Path], tmp_path
):
    for name in ("essays", "poems"):
        assert pairlog("run", experiment_file(name=name), "--interval", "0").code == 0
        assert pairlog("report", name).code == 0
    for table, schema in (("rankings", RANKINGS), ("diagnostics", DIAGNOSTICS)):
        folder = tmp_path / ".pairlog" / table
        found = {
            "pyarrow": ds.dataset(folder, partitioning="hive").to_table().to_pandas(),
            "pandas": pd.read_parquet(folder),
            "duckdb": duckdb.sql(f"SELECT * FROM '{folder}/**/*.parquet'").df(),
            "polars": pl.read_parquet(folder).to_pandas(),
        }
        for reader, rows in found.items():
            assert set(rows.columns) == set(schema.names), reader
            assert set(rows["experiment"]) == {"essays", "poems"}, reader
            assert len(rows) == len(found["pyarrow"]), reader
        stored = ds.dataset(folder, partitioning="hive").schema
        assert all(stored.field(field.name).equals(field, check_metadata=True) for field in list(schema)[1:])
