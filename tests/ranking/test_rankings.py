"""What a ranking says, and what bad input gets: words, never a number that means nothing."""

import math

import pyarrow as pa
import pytest

from pipeline.domain import STATUSES
from pipeline.errors import ConfigError
from pipeline.ranking import Ranking, RankingOptions, Standing, Unrankable, rank
from tests.ranking.studies import a_study, a_table

BEATEN = [("a", "b", "first"), ("b", "c", "first"), ("c", "a", "first"), ("a", "c", "first")]


def ranked(table: pa.Table, options: RankingOptions | None = None) -> Ranking:
    result = rank(table, options)
    assert isinstance(result, Ranking), result
    return result


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "there are no comparisons to rank"),
        ([("a", "a", "first")], "there is only one contestant, a: a ranking needs at least two"),
        ([("a", "b", "tie")], "the only comparison is a tie: nothing tells the 2 contestants apart"),
        (
            [("a", "b", "tie"), ("b", "a", "tie")],
            "all 2 comparisons are ties: nothing tells the 2 contestants apart",
        ),
        (
            [("a", "b", "unparsed"), ("b", "a", "refused")],
            "none of the 2 comparisons could be read (1 refused, 1 unparsed): nothing can be ranked",
        ),
        (
            [("a", "b", "first"), ("b", "a", "first"), ("c", "d", "first"), ("d", "c", "first")],
            (
                "the comparisons fall into 2 parts that were never compared with one another (one of them: a and b), "
                "so no common ranking exists: judge more pairs of the same samples as another experiment, and "
                "`pairlog rank ONE OTHER` takes both"
            ),
        ),
    ],
)
@pytest.mark.parametrize("method", ["bradley-terry", "elo", "win-rate"])
def test_what_cannot_be_ranked_is_said_in_words(rows, words, method):
    result = rank(a_table(rows), RankingOptions(method=method))
    assert isinstance(result, Unrankable)
    assert result.reason == words


def test_someone_who_only_won_is_ranked_with_a_warning_and_finite_numbers():
    table = a_table([*BEATEN, ("w", "a", "first"), ("b", "w", "second"), ("w", "c", "first")])
    result = ranked(table, RankingOptions(cluster="row"))
    assert result.warnings == (
        "w won every comparison: the data put no upper limit on the score",
        "a regularisation of 0.1 keeps such scores finite: how far out they lie is its doing, not the data's",
    )
    best = result.standings[0]
    assert (best.contestant, best.rank, best.bounded) == ("w", 1, False)
    assert all(one.bounded for one in result.standings[1:])
    assert all(abs(value) < 20 for one in result.standings for value in (one.score, one.low, one.high))


@pytest.mark.parametrize("interval", ["sandwich", "bootstrap"])
def test_three_wins_out_of_three_do_not_look_certain(interval):
    rows = [*a_round_robin(6), ("w", "c0", "first"), ("w", "c1", "first"), ("w", "c2", "first")]
    result = ranked(a_table(rows), RankingOptions(intervals=interval, rounds=200))
    best = next(one for one in result.standings if one.contestant == "w")
    assert best.standard_error > 0.9
    assert best.high - best.low > 3
    assert best.place_high > 1


def a_round_robin(contestants: int) -> list[tuple[str, str, str]]:
    return [
        (f"c{one}", f"c{other}", "first")
        for one in range(contestants)
        for other in range(contestants)
        if one != other
        for _ in range(3)
    ]


def test_someone_who_only_won_is_refused_where_regularisation_is_forbidden():
    result = rank(a_table([*BEATEN, ("w", "a", "first")]), RankingOptions(regularisation=0.0))
    assert isinstance(result, Unrankable)
    assert result.reason == (
        "w won every comparison: the data put no upper limit on the score: "
        "allow a regularisation above 0 or add comparisons"
    )


def test_two_halves_of_which_one_was_never_beaten_are_named():
    strong, weak = (
        [("a", "b", "first"), ("b", "a", "first")],
        [("x", "y", "first"), ("y", "x", "first"), ("y", "z", "tie")],
    )
    result = ranked(a_table([*strong, *weak, ("a", "x", "first"), ("b", "y", "first")]))
    assert result.warnings[0] == "a and b never lost to x, y and z: the data put no limit on the gap"
    assert {one.contestant for one in result.standings if not one.bounded} == {"a", "b"}


def unbounded(rows: list[tuple[str, str, str]]) -> set[str]:
    return {one.contestant for one in ranked(a_table(rows)).standings if not one.bounded}


CHAIN = [("a", "b", "first"), ("b", "c", "first"), ("a", "c", "first")]
EQUALS = [("a", "b", "first"), ("b", "a", "first"), ("x", "y", "first"), ("y", "x", "first"), ("a", "x", "first")]


@pytest.mark.parametrize(
    ("rows", "free"),
    [
        (CHAIN, {"a", "c"}),
        ([*CHAIN, ("c", "d", "first")], {"a", "d"}),
        ([("a", "b", "first")], {"a", "b"}),
        (EQUALS, {"a", "b", "x", "y"}),
        ([*EQUALS, ("y", "z", "tie")], {"a", "b"}),
        ([*BEATEN, ("w", "a", "first")], {"w"}),
        ([*BEATEN, ("w", "a", "first"), ("c", "v", "first")], {"w", "v"}),
    ],
)
def test_only_those_are_unbounded_who_only_won_or_only_lost_alone_or_together(rows, free):
    assert unbounded(rows) == free
    turned = {"first": "second", "second": "first", "tie": "tie"}
    assert unbounded([(one, other, turned[won]) for one, other, won in rows]) == free


def both(one: str, other: str) -> list[tuple[str, str, str]]:
    return [(one, other, "first"), (one, other, "second")]


UNDER_A_WINNER = [
    *(("w", "a", "first"), ("w", "x", "first"), ("a", "x", "first"), ("b", "y", "first")),
    *both("a", "b"),
    *both("x", "y"),
]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            UNDER_A_WINNER,
            [
                "w won every comparison: the data put no upper limit on the score",
                "a and b never lost to x and y: the data put no limit on the gap",
            ],
        ),
        (
            CHAIN,
            [
                "a won every comparison: the data put no upper limit on the score",
                "c lost every comparison: the data put no lower limit on the score",
            ],
        ),
        (
            [
                *both("a", "b"),
                *both("c", "d"),
                *both("e", "f"),
                ("a", "c", "first"),
                ("d", "e", "first"),
                ("a", "e", "first"),
            ],
            ["a and b never lost to c and d; c and d never lost to e and f: the data put no limit on the gaps"],
        ),
        (
            [(f"c{one}", f"c{other}", "first") for one in range(8) for other in range(one + 1, 8)],
            [
                "c0 won every comparison: the data put no upper limit on the score",
                "c7 lost every comparison: the data put no lower limit on the score",
                (
                    "c1 never lost to c2; c2 never lost to c3; c3 never lost to c4; 2 more such gaps: "
                    "the data put no limit on the gaps"
                ),
            ],
        ),
    ],
)
def test_every_gap_that_the_data_leave_open_is_said(rows, said):
    assert list(ranked(a_table(rows)).warnings)[: len(said) + 1] == [
        *said,
        "a regularisation of 0.1 keeps such scores finite: how far out they lie is its doing, not the data's",
    ]


def test_very_many_gaps_are_counted():
    rows = [(f"c{at:03d}", f"c{at + 1:03d}", "first") for at in range(399)]
    assert (
        "398 sets of contestants never lost to those below them: the data put no limit on the gaps"
        in ranked(a_table(rows)).warnings
    )


ONE_ORDER = [("a", "b", "first"), ("b", "c", "first"), ("c", "a", "first"), ("a", "d", "first"), ("d", "c", "first")]


def test_a_preference_for_a_position_that_explains_everything_is_kept_finite_and_said():
    result = ranked(a_table(ONE_ORDER), RankingOptions(position=True))
    assert result.regularisation == 0.1
    assert any("have no limit" in sentence for sentence in result.warnings)
    values = [value for one in result.standings for value in (one.score, one.low, one.high)]
    assert all(abs(value) < 50 for value in [*values, result.effects[0].value])


def test_a_preference_for_a_position_that_explains_everything_is_refused_where_regularisation_is_forbidden():
    result = rank(a_table(ONE_ORDER), RankingOptions(position=True, regularisation=0.0))
    assert isinstance(result, Unrankable)
    assert result.reason.endswith("have no limit: allow a regularisation above 0 or add comparisons")


def test_scores_that_only_rounding_sets_apart_are_one_number():
    ring = [(f"c{one}", f"c{(one + step) % 7}", "first") for one in range(7) for step in (1, 2, 3)]
    assert {one.score for one in ranked(a_table(ring)).standings} == {ranked(a_table(ring)).standings[0].score}


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
@pytest.mark.parametrize("method", ["bradley-terry", "elo", "win-rate"])
def test_a_failed_row_changes_no_score(status, method):
    options = RankingOptions(method=method, rounds=20)
    plain = ranked(a_table(BEATEN), options)
    failed = ranked(a_table([*BEATEN, ("a", "b", status), ("c", "b", status)]), options)
    assert failed.standings == plain.standings
    assert failed.excluded == {status: 2}


def test_an_outcome_beside_a_failed_status_does_not_count():
    table = a_table([*BEATEN, ("b", "a", "first")])
    statuses = pa.array([*["ok"] * 4, "truncated"])
    spoiled = table.set_column(table.column_names.index("status"), "status", statuses)
    assert ranked(spoiled).standings == ranked(a_table(BEATEN)).standings


def test_an_ok_row_without_an_outcome_is_left_out_and_counted():
    table = a_table([*BEATEN, ("a", "b", "ok")])
    assert ranked(table).excluded == {"ok without an outcome": 1}


def test_someone_nobody_compared_is_named_and_not_ranked():
    result = ranked(a_table([*BEATEN, ("lonely", "a", "errored")]), RankingOptions(cluster="row"))
    assert result.unranked == ("lonely",)
    assert result.warnings == ("no readable comparison names lonely",)
    assert "lonely" not in [one.contestant for one in result.standings]


def test_a_missing_column_is_named():
    with pytest.raises(
        ConfigError, match="the comparisons have no column outcome: they have first_id, second_id, status"
    ):
        rank(a_table(BEATEN).drop_columns("outcome"))


@pytest.mark.parametrize(
    "fields",
    [
        {"regularisation": math.nan},
        {"regularisation": -1.0},
        {"confidence": 1.0},
        {"confidence": math.nan},
        {"rounds": 1},
    ],
)
def test_options_that_mean_nothing_are_refused(fields):
    with pytest.raises(ConfigError, match=rf"{next(iter(fields))} is \S+; give .*at least"):
        RankingOptions(**fields)


@pytest.mark.parametrize(
    ("method", "fields", "words"),
    [
        ("elo", {"position": True}, "--position: leave it out"),
        ("win-rate", {"ties": "davidson"}, "--ties davidson: leave it out"),
        ("win-rate", {"intervals": "bootstrap"}, "--intervals bootstrap: leave it out"),
        ("elo", {"regularisation": 0.0}, "--regularisation: leave it out"),
        ("elo", {"position": True, "regularisation": 3.0}, "--position and --regularisation: leave them out"),
    ],
)
def test_options_that_the_method_has_no_use_for_are_refused(method, fields, words):
    with pytest.raises(ConfigError, match=f"--method {method} has no use for {words}, or take --method bradley-terry"):
        RankingOptions(method=method, **fields)


@pytest.mark.parametrize("method", ["elo", "win-rate"])
def test_lengths_that_the_method_has_no_use_for_are_refused(method):
    with pytest.raises(ConfigError, match=f"--method {method} has no use for --length: leave it out"):
        rank(a_table(BEATEN), RankingOptions(method=method), lengths={"a": 3.0, "b": 2.0, "c": 2.0})


@pytest.mark.parametrize("length", [math.nan, -1.0, math.inf])
def test_a_length_that_is_no_number_is_refused_in_words(length):
    result = rank(a_table(BEATEN), lengths={"a": 3.0, "b": length, "c": 2.0})
    assert isinstance(result, Unrankable)
    assert result.reason.startswith("the length of sample b is not a number of at least 0")


def test_an_unknown_length_is_refused_in_words():
    result = rank(a_table(BEATEN), lengths={"a": 3.0})
    assert isinstance(result, Unrankable)
    assert result.reason == "the length of sample b is not known: give the samples that were compared"


@pytest.mark.parametrize("interval", ["sandwich", "bootstrap"])
def test_a_judge_who_always_names_the_first_leaves_no_score_certain(interval):
    """Both orders of a pair cancel out: no two pairs differ, and yet nothing is known of anybody."""
    names = ["a", "b", "c", "d", "e", "f"]
    rows = [(one, other, "first") for one in names for other in names if one != other]
    result = ranked(a_table(rows), RankingOptions(intervals=interval, rounds=100))
    assert result.cluster_kind == "pair"
    assert [one.rank for one in result.standings] == [1] * 6
    independent = ranked(a_table(rows), RankingOptions(cluster="row"))
    for one, free in zip(result.standings, independent.standings, strict=True):
        assert one.high - one.low == pytest.approx(free.high - free.low, rel=0.2)
    (said,) = result.warnings
    assert said == (
        "the answers about 6 contestants cancel out inside every pair: their intervals are as wide as independent "
        "comparisons would be"
    )


def test_wins_losses_and_ties_are_counted_and_equal_scores_share_a_rank():
    result = ranked(
        a_table([("a", "b", "first"), ("b", "a", "first"), ("a", "b", "tie"), ("c", "a", "tie"), ("c", "b", "tie")])
    )
    seen = {one.contestant: (one.rank, one.wins, one.losses, one.ties) for one in result.standings}
    assert seen == {"a": (1, 1, 1, 2), "b": (1, 1, 1, 2), "c": (1, 0, 0, 2)}


@pytest.mark.parametrize(
    ("method", "interval"),
    [
        ("bradley-terry", "sandwich"),
        ("bradley-terry", "bootstrap"),
        ("elo", "sandwich"),
        ("elo", "bootstrap"),
        ("win-rate", "sandwich"),
    ],
)
def test_a_single_pair_judged_often_is_known_neither_exactly_nor_not_at_all(method, interval):
    rows = [("a", "b", "first")] * 60 + [("b", "a", "first")] * 40
    result = ranked(a_table(rows), RankingOptions(method=method, intervals=interval, rounds=300))
    best = result.standings[0]
    assert (best.contestant, result.cluster_kind) == ("a", "row")
    assert best.low < best.score < best.high
    assert any("too few pairs" in sentence for sentence in result.warnings)
    if method == "bradley-terry":
        assert best.score == pytest.approx(math.log(1.5) / 2)
        assert best.standard_error == pytest.approx(math.sqrt(1 / (100 * 0.24)) / 2, rel=0.05)
        assert best.high - best.low == pytest.approx(4 * best.standard_error, rel=0.15)


def test_two_wins_out_of_two_prove_little():
    rows = [("a", "b", "first"), ("a", "b", "first"), ("b", "c", "first"), ("c", "b", "first"), ("a", "c", "tie")]
    result = ranked(a_table(rows), RankingOptions(method="win-rate"))
    assert len(result.tiers) == 1


def test_equal_scores_are_listed_surest_first():
    sure = [("b", "c", "first"), ("b", "c", "second")] * 20
    result = ranked(a_table([("a", "c", "first"), ("a", "c", "second"), *sure]), RankingOptions(cluster="row"))
    assert [(one.contestant, one.rank) for one in result.standings] == [("c", 1), ("b", 1), ("a", 1)]


def test_contestants_are_ranked_unless_samples_are_asked_for():
    rows = [("1", "2", "first"), ("4", "3", "first"), ("2", "3", "second")]
    table = a_table(rows, first_contestant=["x", "y", "y"], second_contestant=["y", "x", "x"])
    assert {one.contestant for one in ranked(table).standings} == {"x", "y"}
    assert {one.contestant for one in ranked(table, RankingOptions(by="sample")).standings} == {"1", "2", "3", "4"}


def test_dictionary_columns_and_chunks_rank_like_plain_ones():
    table = a_study(5, seed=1)
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    encoded = chunked.set_column(chunked.column_names.index("model"), "model", chunked["model"].dictionary_encode())
    assert ranked(encoded).standings == ranked(table).standings


def test_win_rates_leave_quality_of_opponents_aside():
    result = ranked(a_table([*BEATEN, ("a", "b", "tie")]), RankingOptions(method="win-rate"))
    rates = {one.contestant: one.score for one in result.standings}
    assert rates == {"a": 2.5 / 4, "b": 1.5 / 3, "c": 1 / 3}
    assert all(0 <= one.low <= one.score <= one.high <= 1 for one in result.standings)


def test_tiers_name_everyone_once_best_first():
    result = ranked(a_study(8, repeats=12, seed=5))
    assert [name for tier in result.tiers for name in tier] == [one.contestant for one in result.standings]
    assert len(result.tiers) > 1


def test_a_standing_has_what_the_contract_prints():
    assert {"contestant", "rank", "score", "low", "high", "wins", "losses", "ties"} <= set(Standing.__struct_fields__)
