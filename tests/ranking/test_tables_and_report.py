"""Tables keep their schemas; the page holds what it must, escapes what it shows and asks for nothing."""

import re
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

from pipeline.domain import Counts
from pipeline.ranking import (
    Basis,
    Ranking,
    RankingOptions,
    breakdowns,
    diagnose,
    diagnostics_table,
    panel,
    rank,
    rankings_table,
)
from pipeline.ranking.report import report_html
from pipeline.ranking.report.judges import trust
from pipeline.ranking.report.picture import ranking_svg
from pipeline.ranking.report.style import CSS
from pipeline.ranking.tables import DIAGNOSTICS, RANKINGS
from tests.ranking.studies import a_study, a_table

NASTY = "</pre><script>alert('x')</script> & \"quoted\" <img src=x onerror=alert(1)>"


def a_rich_study() -> pa.Table:
    table = a_study(8, judges={"gpt-6-luna": 0.9, "claude-5": 0.0}, seed=2, ties=0.05, names=[NASTY, *"bcdefgh"])
    rows = table.to_pylist()
    rows[3] |= {"status": "unparsed", "outcome": None}
    full = pa.Table.from_pylist(rows, schema=table.schema)
    count = len(full)
    for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"):
        full = full.append_column(name, pa.array([7] * count, pa.int32()))
    return full.append_column("reason", pa.array(["two <b>answers</b>"] * count))


def a_page(table: pa.Table, options: RankingOptions | None = None, **more: Any) -> str:
    return report_html(
        table,
        rank(table, options),
        diagnose(table),
        experiment="essays & <more>",
        parts=breakdowns(table),
        panel=panel(table),
        unread=[NASTY],
        **more,
    )


class Reader(HTMLParser):
    """Collects tags and text, and checks that every tag is closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "wbr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


BASIS = Basis(rows=7)


def test_rankings_have_the_documented_schema_also_when_there_are_none():
    table = a_study(5)
    made = rankings_table(rank(table), breakdowns(table), experiment="e", basis=BASIS)
    assert made.schema.equals(RANKINGS, check_metadata=True)
    assert made.num_rows == 5
    assert set(made["experiment"].to_pylist()) == {"e"}
    empty = rankings_table(rank(a_table([])), basis=BASIS)
    assert empty.schema.equals(RANKINGS)
    assert empty.num_rows == 0


def test_rankings_hold_the_whole_and_every_part():
    table = a_study(5, judges={"x": 0.0, "y": 0.0})
    made = rankings_table(rank(table), breakdowns(table), basis=BASIS).to_pylist()
    assert {(row["dimension"], row["value"]) for row in made} == {
        ("all", ""), ("judge", "openai/x"), ("judge", "openai/y"),
    }  # fmt: skip


def test_diagnostics_have_the_documented_schema_and_one_row_a_measure():
    made = diagnostics_table(diagnose(a_rich_study(), lengths={NASTY: 3, "b": 9}), experiment="e", basis=BASIS)
    assert made.schema.equals(DIAGNOSTICS, check_metadata=True)
    assert {(row["rows"], row["rows_digest"]) for row in made.to_pylist()} == {(7, None)}
    rows = made.to_pylist()
    keys = [(row["judge"], row["template"], row["metric"], row["other"]) for row in rows]
    assert len(set(keys)) == len(keys)
    assert {row["metric"] for row in rows} == {
        "status_rate", "tie_rate", "first_share", "reverse_consistency", "longer_wins", "position_bias",
        "raw_agreement", "cohen_kappa", "krippendorff_alpha", "cycle_rate", "comparisons_holding_the_leader",
    }  # fmt: skip


def test_every_column_is_described():
    assert all(field.metadata[b"description"] for schema in (RANKINGS, DIAGNOSTICS) for field in schema)


def test_the_page_is_well_formed_and_holds_every_section():
    reader = Reader(a_page(a_rich_study(), provenance={"pairlog": "9.9"}))
    assert reader.open == []
    titles = re.findall(r"<h2 id=\"([^\"]*)\">(.*?)</h2>", a_page(a_rich_study()))
    assert [title for _, title in titles] == [
        "Ranking", "Who beat whom", "Judges", "Do the judges agree?", "The judges as one panel", "Part by part",
        "Does one scale fit?", "What first place depends on", "Tokens", "Where every request went",
        "What was left out, and why", "How this page was made", "Words on this page",
    ]  # fmt: skip
    links = [found["href"] for tag, found in reader.tags if tag == "a"]
    assert links == [f"#{name}" for name, _ in titles]
    assert "9.9" in reader.text


def test_the_headline_says_who_is_best_and_how_sure_that_is():
    sure = a_page(a_study(4, repeats=400, seed=1))
    assert "<h1>c00 is best: every other contestant is proven weaker.</h1>" in sure
    assert "<h1>c00 comes first, but c01, c02 and c03 cannot be told apart from it.</h1>" in a_page(a_study(4, seed=2))
    four = a_page(a_study(5, seed=2))
    assert "<h1>c00 comes first, but c01, c02, c03 and c04 cannot be told apart from it.</h1>" in four
    shared = a_page(a_study(4, seed=1))
    assert "<h1>c00 and c01 share first place: c02 and c03 cannot be told apart from them.</h1>" in shared


def test_a_page_about_judges_who_tell_nobody_apart_names_no_order():
    page = a_page(by_template(("one", "t", "first"), ("two", "t", "first")))
    assert "<h1>All 8 contestants share first place: nobody is better.</h1>" in page
    assert "one of 8 who share first place, would no longer be first" in page
    assert "Krippendorff’s α is not known, because every verdict is the same, raw agreement 100 %" in page
    assert "the answers about 8 contestants cancel out inside every pair" in page


def test_the_headline_of_an_unfinished_study_says_so():
    counts = {"run-1": Counts(planned=30, ok=12, unparsed=1)}
    page = a_page(a_study(4, seed=1), conservation=counts)
    assert "<title>essays &amp; &lt;more&gt;: ranking and judges (provisional)</title>" in page
    assert "<b>Provisional.</b> 13 of 30 requests have ended." in page
    assert "<h1>So far, c0" in page
    assert "So far, there is no ranking: " in a_page(a_table([]), conservation=counts)
    assert "rovisional" not in a_page(a_study(4, seed=1), conservation={"run-1": Counts(planned=12, ok=12)})


def test_the_page_says_whether_the_judges_can_be_trusted():
    page = a_page(a_study(12, judges={"one": 1.5, "two": 1.5}, seed=1))
    assert "All of them favour the first position." in page
    one_way = a_table([("a", "b", "first"), ("b", "c", "first"), ("c", "a", "first")])
    assert "No pair was judged in both orders" in a_page(one_way)


def by_template(*leanings: tuple[str, str, str | None]) -> pa.Table:
    """Every pair of eight in both orders, by judges and templates that always take one place (None: the better one)."""
    names = "abcdefgh"
    rows = [
        (first, second, place or ("first" if first < second else "second"), model, template)
        for model, template, place in leanings
        for first in names
        for second in names
        if first != second
    ]
    return a_table([row[:3] for row in rows], model=[row[3] for row in rows], template=[row[4] for row in rows])


@pytest.mark.parametrize(
    ("leanings", "said"),
    [
        (
            [("m", "t1", "first"), ("m", "t2", "second")],
            "It favours the first position with template t1 and the second position with template t2.",
        ),
        ([("m", "t1", "first"), ("m", "t2", None)], "It favours the first position with template t1."),
        ([("m", "t1", "first"), ("m", "t2", "first")], "It favours the first position."),
        (
            [("m", "t1", "first"), ("m", "t2", "second"), ("n", "t1", "second"), ("n", "t2", "second")],
            "m with template t1 favours the first position. m with template t2 and n favour the second position.",
        ),
        ([("m", "t1", "second"), ("n", "t1", None)], "m favours the second position."),
        ([("m", "t1", None)], "No preference for a position is seen."),
    ],
)
def test_the_opening_says_by_template_which_place_a_judge_favours(leanings, said):
    assert f" {said}" in trust(diagnose(by_template(*leanings)))


def test_a_matrix_of_many_is_shown_by_colour_and_of_very_many_in_part():
    names = [f"n{at}" for at in range(90)]
    ring = [(names[at], names[(at + 1) % 90], won) for at in range(90) for won in ("first", "second")]
    page = a_page(a_table(ring))
    assert '<table class="matrix dense">' in page
    assert "The first 70 of 90 contestants are shown." in page


def test_whatever_a_judge_or_a_sample_says_is_text():
    page = a_page(a_rich_study())
    reader = Reader(page)
    assert not {"script", "img"} & {tag for tag, _ in reader.tags}
    assert NASTY in "".join(reader.text)
    assert "two <b>answers</b>" in "".join(reader.text)
    assert "<script" not in page
    assert "<img" not in page


def test_the_page_asks_for_nothing_and_runs_nothing():
    reader = Reader(a_page(a_rich_study()))
    for tag, attributes in reader.tags:
        assert tag not in {"script", "link", "iframe", "object", "img"}
        assert not {"src", "srcset"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"url\(|@import", a_page(a_study(4)))
    policies = [found["content"] for tag, found in reader.tags if tag == "meta" and "http-equiv" in found]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


OKABE_ITO = {"#0072b2", "#d55e00", "#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7"}


def test_every_colour_is_one_that_colour_blind_readers_tell_apart():
    """Pictures and pages use two hues of Okabe and Ito's palette; everything else is grey, or nearly."""
    named = set(re.findall(r"--(?:blue|orange):(#[0-9a-f]{6})", CSS))
    tints = {f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in shades(a_page(a_study(12)))}
    drawn = set(re.findall(r"#[0-9a-f]{6}", ranking_svg(ranked(a_study(4)))))
    assert named == {"#0072b2", "#d55e00", "#56b4e9", "#e69f00"}
    assert tints == {"#0072b2", "#d55e00"}
    rest = (set(re.findall(r"#[0-9a-f]{6}", CSS)) | drawn) - OKABE_ITO
    assert max(spread(colour) for colour in rest) <= 32


def shades(page: str) -> set[tuple[int, ...]]:
    found = re.findall(r"background:rgba\((\d+),(\d+),(\d+),", page)
    return {tuple(int(part) for part in shade) for shade in found}


def spread(colour: str) -> int:
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return max(parts) - min(parts)


def ranked(table: pa.Table) -> Ranking:
    found = rank(table)
    assert isinstance(found, Ranking)
    return found


def test_every_contestant_stands_in_the_page_with_its_numbers():
    table = a_study(5, seed=4)
    result = rank(table)
    assert isinstance(result, Ranking)
    text = " ".join(Reader(a_page(table)).text)
    for one in result.standings:
        assert one.contestant in text
        assert f"{abs(one.score):.2f}" in text


def test_the_books_are_those_of_the_log_where_they_are_given():
    page = a_page(a_study(4), conservation={"run-1": Counts(planned=30, ok=24, expired=4)})
    row = re.search(r'<th scope="row"><span class="whole">run-1</span></th>(.*?)</tr>', page)
    assert row is not None
    assert re.findall(r"<td>(.*?)</td>", row[1]) == ["30", "24", "4", "2"]


@pytest.mark.parametrize("rows", [[], [("a", "b", "unparsed")], [("a", "b", "tie")], [("a", "a", "first")]])
def test_a_study_without_a_ranking_still_has_a_page(rows):
    page = a_page(a_table(rows))
    assert "<h1>There is no ranking: " in page
    assert Reader(page).open == []


@pytest.mark.parametrize("method", ["bradley-terry", "elo", "win-rate"])
@pytest.mark.parametrize("contestants", [2, 3, 120])
def test_pages_of_every_size_and_method_are_well_formed(method, contestants):
    names = [f"n{at}" for at in range(contestants)]
    ring = [(names[at], names[(at + 1) % contestants], won) for at in range(contestants) for won in ("first", "second")]
    page = a_page(a_table(ring), RankingOptions(method=method, rounds=10))
    assert Reader(page).open == []


BRADLEY_TERRY_ONLY = ("regularisation", "in the model", "sandwich", "Terry log-odds; the mean", "94 to 96 of 100")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (RankingOptions(method="elo", rounds=10), ["Elo points", "resampled clusters, 95 %", "10 random orders"]),
        (RankingOptions(method="win-rate"), ["The share of comparisons won", "Wilson, 95 %"]),
        (RankingOptions(position=True), ["position bias in the model", *BRADLEY_TERRY_ONLY]),
    ],
)
def test_a_page_tells_how_its_own_scores_were_made(options, said):
    page = "".join(Reader(a_page(a_rich_study(), options)).text)
    assert [words for words in said if words not in page] == []
    strange = [words for words in BRADLEY_TERRY_ONLY if words in page]
    assert strange == ([] if options.method != "bradley-terry" else list(BRADLEY_TERRY_ONLY))


def test_the_picture_has_an_axis_with_round_numbers_and_zero():
    drawn = ranking_svg(ranked(a_study(4)))
    ticks = [float(tick) for tick in re.findall(r'text-anchor="middle">([^<]+)<', drawn)]
    assert 0 in ticks
    assert ticks == sorted(set(ticks))
    assert len(ticks) >= 3
