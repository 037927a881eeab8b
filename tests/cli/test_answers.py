"""`rank` and `report` as a person calls them: words and an exit code, whatever they are given."""

import csv
import hashlib
import json
import re
from collections.abc import Callable
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
from tests.cli.conftest import Called, Simulate
from tests.conftest import environment

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
        (["--regularisation", "nan"], "--regularisation nan: give a number of at least 0"),
        (["--confidence", "nan"], "--confidence nan: give a number of at least 0.5 and below 1"),
        (["--length"], "--length needs the texts"),
        (["--per", "template"], "there is only one template in pairs"),
        (["--interval", "bootstrap"], "No such option: --interval"),
        (["essays"], "essays and --from"),
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
    assert "387 comparisons; 3 tiers" in called.err


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


@pytest.mark.parametrize("how", ["sandwich", "bootstrap"])
@pytest.mark.parametrize("command", ["rank", "report"])
def test_intervals_are_made_as_asked(pairlog: Pairlog, tmp_path, command, how):
    called = pairlog(command, "--from", a_file(tmp_path, SMALL), "--intervals", how)
    assert called.code == 0, called.err


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
    file = a_file(tmp_path, SMALL)
    asked = ["--ties", "davidson", "--position", "--intervals", "bootstrap", "--seed", "7", "--regularisation", "0.5"]
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


APART = "pairs: {design: random, count: 3, seed: 1}"


@pytest.mark.parametrize("command", ["plan", "submit", "run"])
def test_pairs_that_fall_apart_are_told_of_before_anything_is_paid_for(
    pairlog: Pairlog, simulator: Simulator, experiment_file: Callable[..., Path], command
):
    called = pairlog(command, experiment_file(samples=8, more=APART))
    assert called.code == 0
    assert "warning: the 3 pairs fall into 2 parts that nothing links and 3 of 8 samples are in no pair" in called.err
    assert "a larger pairs.count helps, 21 as a rule" in called.err
    enough = pairlog(command, experiment_file(name="more", samples=8, more=APART.replace("3", "21")))
    assert "warning" not in enough.err


def test_plan_counts_parts_and_unpaired_samples(pairlog: Pairlog, experiment_file: Callable[..., Path]):
    document = json.loads(pairlog("plan", experiment_file(samples=8, more=APART), "--json").out)
    assert (document["parts"], document["unpaired"]) == (2, 3)
    document = json.loads(pairlog("plan", experiment_file(), "--json").out)
    assert (document["parts"], document["unpaired"]) == (1, 0)


def test_experiments_over_the_same_samples_are_ranked_together(
    pairlog: Pairlog, simulate: Simulate, experiment_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
):
    for variable, value in environment(simulate(tie_rate=0.3)).items():
        monkeypatch.setenv(variable, value)
    more = "ties: true\npairs: {design: random, count: COUNT, seed: 1}"
    assert pairlog("run", experiment_file(samples=8, more=more.replace("COUNT", "3")), "--interval", "0").code == 0
    alone = pairlog("rank", "essays")
    assert alone.code == 1
    assert "and `pairlog rank ONE OTHER` takes both" in alone.last_line
    file = experiment_file(name="other", samples=8, more=more.replace("COUNT", "22").replace("seed: 1", "seed: 2"))
    assert pairlog("run", file, "--interval", "0").code == 0
    both = pairlog("rank", "essays", "other", "--json")
    assert both.code == 0
    document = json.loads(both.out)
    assert (document["experiment"], document["comparisons"]) == ("essays + other", 25)
    assert len(document["contestants"]) == 8
    assert sum(each["ties"] for each in document["contestants"])
    for name in ("essays", "other"):
        assert pairlog("results", name, "--out", f"{name}.csv").code == 0
    first, second = (Path(f"{name}.csv").read_text(encoding="utf-8") for name in ("essays", "other"))
    Path("both.csv").write_text(first + second.partition("\n")[2], encoding="utf-8")
    imported = json.loads(pairlog("rank", "--from", "both.csv", "--json").out)
    assert imported["contestants"] == document["contestants"]


def test_an_id_that_stands_for_another_text_elsewhere_is_not_ranked_with_it(
    pairlog: Pairlog, simulator: Simulator, experiment_file: Callable[..., Path], tmp_path
):
    assert pairlog("submit", experiment_file()).code == 0
    file = experiment_file(name="other")
    samples = tmp_path / "samples.csv"
    samples.write_text(samples.read_text(encoding="utf-8").replace("number 3", "numeral 3"), encoding="utf-8")
    assert pairlog("submit", file).code == 0
    called = pairlog("rank", "essays", "other")
    assert called.code == 2
    assert (
        "essays and other cannot be ranked together: the sample 's3' does not have the same text in all" in called.err
    )


def test_groups_that_share_nobody_are_ranked_alone(
    pairlog: Pairlog, simulator: Simulator, experiment_file: Callable[..., Path], tmp_path
):
    file = experiment_file()
    rows = [f"s{number},Text {number}.,g{number % 2}" for number in range(8)]
    (tmp_path / "samples.csv").write_text("\n".join(["id,text,group", *rows]), encoding="utf-8")
    assert "note: no contestant is in two groups" in pairlog("run", file, "--interval", "0").err
    assert pairlog("rank", "essays").last_line.endswith("`--per group` ranks each group alone")
    called = pairlog("rank", "essays", "--per", "group", "--out", "groups.csv")
    assert called.code == 1
    assert "g0: 6 comparisons; first: s" in called.err
    assert "8 contestants in groups.csv" in called.err
    assert len(Path("groups.csv").read_text(encoding="utf-8").splitlines()) == 9


CIRCLE = ["a,b,a,m", "b,c,b,m", "c,a,c,m"]
STRONG = ["a,d,a,m", "b,d,b,m", "c,d,c,m"] * 40 + ["a,d,d,m", "b,d,d,m", "c,d,d,m"] * 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (CIRCLE, "a, b and c share first place: nobody is better."),
        ([*CIRCLE, *STRONG], "a, b and c share first place: every other contestant is proven weaker."),
        (
            [*CIRCLE, "a,d,a,m", "d,b,b,m", "c,d,c,m"],
            "a, b and c share first place: d cannot be told apart from them.",
        ),
        (["a,b,a,m", "b,c,b,m", "c,d,c,m", "d,e,d,m", "e,a,e,m"], "a, b, c and 2 more share first place:"),
    ],
)
def test_all_who_share_the_first_place_are_named(pairlog: Pairlog, tmp_path, rows, words):
    called = pairlog("rank", "--from", a_file(tmp_path, rows), "--cluster", "row")
    assert called.err.startswith(words)


def test_all_who_share_the_first_place_of_a_part_are_named(pairlog: Pairlog, tmp_path):
    rows = [*CIRCLE, *(row[:-1] + "n" for row in CIRCLE), "a,b,a,n"]
    called = pairlog("rank", "--from", a_file(tmp_path, rows), "--per", "judge")
    assert "m: 3 comparisons, τ" in called.err or "m: 3 comparisons; " in called.err
    assert "first: a, b and c\n" in called.err


def test_the_tables_of_a_study_that_grows_tell_which_answer_is_newest(
    pairlog: Pairlog, simulator: Simulator, experiment_file: Callable[..., Path], tmp_path
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
        read = duckdb.sql(f"SELECT * FROM {every} QUALIFY {newest}").df()
        (whole,) = (found for found in files.values() if found["rows"][0].as_py() == 30)
        assert len(read) == len(whole)
        assert set(read["rows"]) == {30}


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


def test_rank_says_how_many_rows_do_not_count_and_why(pairlog: Pairlog, tmp_path):
    called = pairlog("rank", "--from", a_file(tmp_path, [*SMALL, "a,a,a,m", "b,b,b,m", "a,b,,m"]))
    assert called.code == 0
    assert "note: 3 of 11 rows do not count: 1 unparsed, 2 contestant against itself\n" in called.err
    assert "do not count" not in pairlog("rank", "--from", a_file(tmp_path, SMALL)).err


def test_rank_says_in_one_line_that_the_judges_have_faults_and_where_to_look(
    pairlog: Pairlog, simulate: Simulate, experiment_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(simulate(bias=9.0)).items():
        monkeypatch.setenv(name, value)
    judges = "[{provider: openai, model: [gpt-6-luna, gpt-6-sol]}]"
    file = experiment_file(judges=judges, more="directions: [forward, reverse]", samples=8)
    assert pairlog("run", file, "--interval", "0").code == 0
    for call in (["rank", "essays"], ["rank", "essays", "--per", "judge"]):
        (line,) = [line for line in pairlog(*call).err.splitlines() if line.startswith("judges: ")]
        assert "openai/gpt-6-luna favours the first position" in line
        assert "(the first of 2 judges with a fault); `pairlog report essays` shows" in line


def test_rank_explains_the_mark_of_those_who_only_won_or_only_lost(pairlog: Pairlog, tmp_path):
    called = pairlog("rank", "--from", a_file(tmp_path, [*SMALL, "best,a,best,m", "best,b,best,n"]))
    assert "best *" in called.err
    assert "* only won or only lost" in called.err
    assert "only won or only lost" not in pairlog("rank", "--from", a_file(tmp_path, SMALL)).err


@pytest.mark.parametrize("name", ["page.pdf", "page", "page.md"])
def test_a_report_is_written_as_a_page_only(pairlog: Pairlog, tmp_path, name):
    called = pairlog("report", "--from", a_file(tmp_path, SMALL), "--out", tmp_path / name)
    assert called.code == 2
    assert "the ending says the format; use .html or .htm" in called.err
    assert not (tmp_path / name).exists()


def test_the_rows_that_results_wrote_are_ranked_alike_from_csv_and_parquet(
    pairlog: Pairlog, simulator: Simulator, experiment_file: Callable[..., Path], tmp_path: Path
) -> None:
    assert pairlog("run", experiment_file(more="directions: [forward, reverse]"), "--interval", "0").code == 0
    found = []
    for kind in ("csv", "parquet"):
        assert pairlog("results", "essays", "--out", tmp_path / f"rows.{kind}").code == 0
        found.append(json.loads(pairlog("rank", "--from", tmp_path / f"rows.{kind}", "--json").out))
    assert found[0] == found[1]
    assert found[0]["contestants"] == json.loads(pairlog("rank", "essays", "--json").out)["contestants"]
