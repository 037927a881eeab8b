"""What `rank` and `report` say about a file of judged pairs, and how they refuse one that cannot be ranked."""

import json
import re
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.operations.reading.imported import ranked_in_file
from pipeline.ranking import RankingOptions
from tests.cli.conftest import ONE_JUDGE, SMALL, Pairlog, a_file


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "there are no comparisons to rank: pairs.csv has a heading and no rows"),
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
        "open": 0,
        "parts": [],
    }


def test_json_has_the_parts_also_where_the_whole_has_no_ranking(pairlog: Pairlog, tmp_path):
    rows = ["a,b,a,m", "b,a,b,m", "a,b,a,m", "c,d,c,n", "d,c,d,n", "c,d,c,n"]
    called = pairlog("rank", "--from", a_file(tmp_path, rows), "--per", "judge", "--json")
    document = json.loads(called.out)
    assert (called.code, document["contestants"]) == (1, [])
    assert "fall into 2 parts" in document["reason"]
    assert {row["contestant"] for row in document["parts"]} == set("abcd")


def test_who_is_in_no_readable_comparison_is_named_once(pairlog: Pairlog, tmp_path):
    called = pairlog("rank", "--from", a_file(tmp_path, [*SMALL, "lonely,a,,m"]))
    assert called.err.count("no readable comparison") == 1
    page = tmp_path / "page.html"
    assert pairlog("report", "--from", a_file(tmp_path, [*SMALL, "lonely,a,,m"]), "--out", page).code == 1
    assert page.read_text(encoding="utf-8").count("no readable comparison names lonely") == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--regularisation", "nan"], "regularisation is nan; give a number of at least 0"),
        (["--confidence", "nan"], "confidence is nan; give a number of at least 0.5 and below 1"),
        (["--length"], "--length needs the texts"),
        (["--per", "template"], "there is only one template in pairs"),
        (["--interval", "bootstrap"], "No such option: --interval"),
        (["--method", "elo", "--position"], "--method elo has no use for --position: leave it out"),
        (["--method", "win-rate", "--ties", "davidson"], "--method win-rate has no use for --ties davidson"),
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


@pytest.mark.parametrize(("per", "parts"), [("judge", ["m", "n"]), ("panel", ["majority", "weighted"])])
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


def test_parts_that_nobody_asked_for_are_not_made(tmp_path):
    file, options = a_file(tmp_path, SMALL), RankingOptions(intervals="bootstrap", rounds=100)
    ranked_in_file(file, options, title="pairs")  # what is loaded at first use counts in neither
    spent = []
    for per in (None, "judge"):
        begin = time.process_time()
        ranked_in_file(file, options, title="pairs", per=per)
        spent.append(time.process_time() - begin)
    assert spent[0] < spent[1] / 2


def test_effects_are_shown_with_their_intervals(pairlog: Pairlog, tmp_path):
    called = pairlog("rank", "--from", a_file(tmp_path, SMALL * 9), "--position", "--ties", "davidson")
    assert called.code == 0
    assert re.search(r"^first position: m: \+\d\.\d\d \(\+\d\.\d\d … \+\d\.\d\d\)$", called.err, re.MULTILINE)


def test_intervals_are_made_as_asked(pairlog: Pairlog, tmp_path: Path) -> None:
    file = a_file(tmp_path, ONE_JUDGE)
    lows = {}
    for how, said in (("sandwich", "sandwich, 95 %"), ("bootstrap", "bootstrap, 95 %, 1,000 rounds")):
        ranked = pairlog("rank", "--from", file, "--intervals", how, "--json")
        lows[how] = [each["low"] for each in json.loads(ranked.out)["contestants"]]
        assert pairlog("report", "--from", file, "--intervals", how, "--out", "page.html").code == 0
        assert f"<td>{said}</td>" in Path("page.html").read_text(encoding="utf-8")
    assert lows["sandwich"] != lows["bootstrap"]


def test_names_that_look_like_markup_are_shown_as_they_are(pairlog: Pairlog, tmp_path):
    odd = {"a": "essay [v2]", "b": "[/b]", "c": "[link=https://example.com]c"}
    rows = [",".join(odd.get(cell, cell) for cell in row.split(",")) for row in SMALL]
    called = pairlog("rank", "--from", a_file(tmp_path, rows))
    assert called.code == 0
    assert all(name in called.err for name in odd.values())


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
        (
            ["a,b,a,m", "b,c,b,m", "c,d,c,m", "d,e,d,m", "e,a,e,m"],
            "All 5 contestants share first place: nobody is better.",
        ),
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


def test_rank_says_how_many_rows_do_not_count_and_why(pairlog: Pairlog, tmp_path):
    called = pairlog("rank", "--from", a_file(tmp_path, [*SMALL, "a,a,a,m", "b,b,b,m", "a,b,,m"]))
    assert called.code == 0
    assert "note: 3 of 11 rows do not count: 1 unparsed, 2 contestant against itself\n" in called.err
    assert "do not count" not in pairlog("rank", "--from", a_file(tmp_path, SMALL)).err


def test_rank_explains_the_mark_of_those_who_only_won_or_only_lost(pairlog: Pairlog, tmp_path):
    called = pairlog("rank", "--from", a_file(tmp_path, [*SMALL, "best,a,best,m", "best,b,best,n"]))
    assert "best *" in called.err
    assert "* only won or only lost" in called.err
    assert "only won or only lost" not in pairlog("rank", "--from", a_file(tmp_path, SMALL)).err
