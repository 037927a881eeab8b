"""What is said about judges: planted faults are found, known numbers come out."""

from itertools import combinations

import evalica
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ranking import Ranking, RankingOptions, Unrankable, breakdowns, diagnose, rank
from pipeline.ranking.agreement import agreements, alpha, alphas, coincidences, kappas, verdicts
from pipeline.ranking.breakdowns import kendall
from pipeline.ranking.columns import read
from pipeline.ranking.cycles import cycles
from pipeline.ranking.influence import chance_of
from pipeline.ranking.makers import maker_of
from pipeline.ranking.steadiness import position_bias
from tests.ranking.studies import a_study, a_table


@pytest.mark.parametrize(("to_first", "to_second"), [(0, 0), (5, 0), (0, 18), (7, 7), (24, 8), (400, 300)])
def test_position_bias_is_the_exact_sign_test_on_changed_winners(to_first, to_second):
    found = position_bias(to_first, to_second)
    changed = to_first + to_second
    expected = scipy.stats.binomtest(to_first, changed).pvalue if changed else 1.0
    assert found.p_value == pytest.approx(expected)
    if to_first and to_second:
        assert found.bias == pytest.approx(np.log(to_first / to_second) / 2)
        assert found.bias is not None
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.bias < found.high
    else:
        assert found.low is None or found.high is None


@pytest.mark.parametrize("bias", [-0.8, 0.8])
def test_a_planted_position_bias_is_found_with_its_size(bias):
    found = diagnose(a_study(20, judges={"biased": bias}, seed=3)).judges[0].position
    assert found is not None
    assert found.p_value < 1e-4
    assert found.low is not None
    assert found.high is not None
    assert found.low < bias < found.high


def test_a_fair_judge_is_seldom_called_biased():
    called = 0
    for seed in range(60):
        found = diagnose(a_study(8, seed=seed)).judges[0].position
        called += found is not None and found.p_value < 0.05
    assert called <= 6


def test_both_orders_are_compared_pair_by_pair_and_judge_by_judge():
    rows = [
        ("a", "b", "first"), ("b", "a", "second"),  # keeps a
        ("a", "c", "first"), ("c", "a", "first"),  # whoever is first
        ("b", "c", "second"), ("c", "b", "second"),  # whoever is second
        ("a", "d", "tie"), ("d", "a", "first"),  # no majority in one order
        ("b", "d", "first"),  # one order only
    ]  # fmt: skip
    table = a_table(rows * 2, model=["m"] * 9 + ["n"] * 9, template=["t"] * 18)
    one, other = diagnose(table).judges
    assert (one.judge, other.judge, one.template) == ("m", "n", "t")
    assert one.consistency is not None
    assert (one.consistency.share, one.consistency.count, one.undecided) == (1 / 3, 3, 1)
    assert one.position is not None
    assert (one.position.to_first, one.position.to_second) == (1, 1)
    assert (one.first_wins, one.second_wins, one.ties) == (5, 3, 1)


def test_what_the_place_alone_decided_is_a_net_share_of_the_pairs_in_both_orders():
    rows = [
        ("a", "b", "first"), ("b", "a", "second"),  # keeps a
        ("a", "c", "first"), ("c", "a", "first"),
        ("b", "c", "first"), ("c", "b", "first"),
        ("a", "d", "second"), ("d", "a", "second"),
    ]  # fmt: skip
    judge, *_ = diagnose(a_table([*rows, ("a", "e", "first"), ("e", "a", "first")])).judges
    assert judge.swayed == 2 / 5
    judge, *_ = diagnose(a_table([("a", "b", "first"), ("b", "c", "first")])).judges
    assert judge.swayed is None


def test_repeats_vote_before_orders_are_compared():
    rows = [("a", "b", "first"), ("a", "b", "first"), ("a", "b", "second"), ("b", "a", "second")]
    found = diagnose(a_table(rows)).judges[0]
    assert found.consistency is not None
    assert (found.consistency.share, found.consistency.count) == (1.0, 1)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("a", "b", "first"), ("b", "a", "first")], "none of 1 pair"),
        ([("a", "b", "first"), ("b", "a", "first"), ("a", "c", "first"), ("c", "a", "second")], "only 50 % of 2 pairs"),
    ],
)
def test_an_unsteady_judge_is_warned_about(rows, words):
    table = a_table(rows, model=["m"] * len(rows))
    assert diagnose(table).warnings == (f"m kept its winner in {words} judged in both orders",)


def test_rates_count_every_row_and_are_warned_about():
    found = diagnose(a_table([("a", "b", "first"), ("b", "a", "refused"), ("a", "b", "unparsed")], model=["m"] * 3))
    assert found.judges[0].statuses == {"ok": 1, "refused": 1, "unparsed": 1}
    assert found.warnings == ("m gave a readable answer to only 1 of 3 requests",)


@pytest.mark.parametrize(
    ("endings", "warnings"),
    [
        (["first", "cancelled", "cancelled"], ()),
        (["first", "inapplicable", "inapplicable"], ()),
        (["cancelled", "cancelled", "cancelled"], ()),
        (["first", "refused", "cancelled"], ("m gave a readable answer to only 1 of 2 requests",)),
    ],
)
def test_a_judge_is_not_blamed_for_what_was_cancelled_or_did_not_apply(endings, warnings):
    table = a_table([("a", "b", ending) for ending in endings], model=["m"] * len(endings))
    assert diagnose(table).warnings == warnings


def test_how_often_the_longer_sample_wins_leaves_ties_and_equal_lengths_out():
    rows = [("a", "b", "second"), ("b", "c", "first"), ("a", "c", "first"), ("a", "b", "tie"), ("a", "b", "first")]
    found = diagnose(a_table(rows), lengths={"a": 10, "b": 20, "c": 10}).judges[0].longer_wins
    assert found is not None
    assert (found.share, found.count) == (2 / 3, 3)


def test_kappa_has_its_textbook_value():
    assert kappas(np.array([[[20.0, 5.0], [10.0, 15.0]]]))[0] == pytest.approx(0.4)
    assert np.isnan(kappas(np.array([[[9.0, 0.0], [0.0, 0.0]]]))[0])


some_verdicts = st.lists(st.lists(st.sampled_from([-1, 0, 1, 9]), min_size=3, max_size=3), min_size=2, max_size=30)


@given(some_verdicts)
def test_alpha_agrees_with_evalica(values):
    given_verdicts = np.array(values, dtype=np.int8)
    shared = given_verdicts[(given_verdicts != 9).sum(axis=1) >= 2]
    counts = np.stack([(shared == value).sum(axis=1) for value in (-1, 0, 1)], axis=1)
    (found,) = alphas(coincidences(counts, np.ones((1, len(counts)))))
    if np.count_nonzero(counts.sum(axis=0)) < 2:
        assert np.isnan(found)
    else:
        ratings = pd.DataFrame(np.where(shared == 9, np.nan, shared.astype(float)).T)
        assert found == pytest.approx(evalica.alpha(ratings).alpha, abs=1e-9)


@given(some_verdicts, st.lists(st.booleans(), min_size=30, max_size=30))
def test_agreement_does_not_depend_on_which_sample_has_the_lower_id(values, renamed):
    plain = np.array(values, dtype=np.int8)
    turn = np.array(renamed[: len(values)])[:, None] & (plain != 9)
    other = np.where(turn, -plain, plain)
    one, two = alpha(plain, seed=0), alpha(other, seed=0)
    assert (one and one.alpha) == pytest.approx(two and two.alpha)
    judges = ("x", "y", "z")
    before, after = agreements(plain, judges, seed=0), agreements(other, judges, seed=0)
    assert [a.kappa for a in before] == pytest.approx([a.kappa for a in after])


def test_agreement_is_found_between_alike_judges_and_not_between_strangers():
    table = a_study(10, judges={"one": 0.0, "two": 0.0, "coin": 0.0}, sharpness={"one": 6, "two": 6, "coin": 0}, seed=2)
    data = read(table)
    found = {(two.one, two.other): two for two in agreements(verdicts(data), data.judge.labels, seed=0)}
    alike, strangers = found["openai/one", "openai/two"], found["openai/coin", "openai/one"]
    assert alike.low is not None
    assert alike.low > 0.5
    assert strangers.low is not None
    assert strangers.high is not None
    assert strangers.low < 0.1
    assert strangers.high < 0.5
    assert alike.raw > strangers.raw


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from(["first", "second", "tie"])).filter(
            lambda row: row[0] != row[1]
        ),
        min_size=1,
        max_size=40,
    ),
    st.booleans(),
)
def test_circles_are_those_a_loop_finds(rows, thin):
    chain = [(f"x{at:02d}", f"x{at + 1:02d}", "first") for at in range(40 if thin else 0)]
    data = read(a_table([*((f"c{one}", f"c{other}", won) for one, other, won in rows), *chain]))
    votes = np.zeros((6, 6))
    for one, other, won in rows:
        change = {"first": 1, "second": -1, "tie": 0}[won]
        votes[one, other] += change
        votes[other, one] -= change
    triads = circles = 0
    for a, b, c in combinations(range(6), 3):
        sides = [np.sign(votes[a, b]), np.sign(votes[b, c]), np.sign(votes[c, a])]
        triads += 0 not in sides
        circles += abs(sum(sides)) == 3
    found = cycles(data, judge="j")
    assert (found.triads, found.cycles) == (triads, circles)


@pytest.mark.parametrize(
    ("name", "maker"),
    [
        ("openai/gpt-6-luna", "OpenAI"), ("o3-mini", "OpenAI"), ("anthropic/claude-haiku-5-5 (low)", "Anthropic"),
        ("gemini/gemini-3.8-flash", "Google"), ("together/Qwen/Qwen3-235B-A22B-fp8-tput", "Alibaba"),
        ("together/meta-llama/Llama-4", "Meta"), ("DeepSeek-R1-Distill-Llama-70B", "DeepSeek"), ("essay-17", None),
        ("photo1", None), ("S01", None),
    ],
)  # fmt: skip
def test_makers_are_told_by_their_names(name, maker):
    assert maker_of(name) == maker


def test_a_judge_who_prefers_its_own_maker_is_found():
    rows, models = [], []
    for number in range(120):
        for model, own in (("gpt-6", 0.8), ("claude-5", 0.5), ("gemini-3", 0.5)):
            win = (number * 37 % 100) / 100 < own
            rows.append((f"{number}x", f"{number}y", "first" if win else "second"))
            models.append(model)
    count = len(rows)
    table = a_table(rows, model=models, first_contestant=["gpt-5"] * count, second_contestant=["llama-4"] * count)
    (found,) = diagnose(table).self_preferences
    assert (found.judge, found.maker, found.comparisons) == ("gpt-6", "OpenAI", 120)
    assert found.difference == pytest.approx(0.3, abs=0.02)
    assert found.low is not None
    assert found.low > 0.2


def test_removing_the_comparisons_named_takes_the_first_place_away():
    table = a_study(8, seed=11)
    before = rank(table)
    held = diagnose(table).influence
    assert isinstance(before, Ranking)
    assert held is not None
    assert held.needed is not None
    assert held.leader == before.standings[0].contestant
    assert len(held.rows) == held.needed
    left = table.to_pylist()
    for named in held.rows:
        outcome = "first" if named.winner == named.first else "second"
        gone = next(
            row
            for row in left
            if (row["first_id"], row["second_id"], row["outcome"]) == (named.first, named.second, outcome)
        )
        left.remove(gone)
    after = rank(pa.Table.from_pylist(left, schema=table.schema))
    assert isinstance(after, Ranking)
    assert after.standings[0].contestant != held.leader


def test_a_pair_that_breaks_the_scale_is_the_worst_residual():
    table = a_study(8, repeats=6, seed=1)
    odd = a_table([("c07", "c00", "first")] * 12, model=["gpt-6-luna"] * 12, provider=["openai"] * 12,
                  template=["default"] * 12, direction=["forward"] * 12)  # fmt: skip
    worst = diagnose(pa.concat_tables([table, odd])).residuals[0]
    assert {worst.one, worst.other} == {"c00", "c07"}
    assert worst.chance < 1e-4
    assert worst.usual == pytest.approx(worst.chance * 28)


@pytest.mark.parametrize(
    ("score", "total", "expected", "chance"),
    [
        (1, 4, 0.0026, 0.0104),  # one upset in four: a z-score would be 9.7
        (3, 4, 0.9974, 0.0104),
        (0, 0, 0.5, 1.0),
        (2, 4, 0.5, 1.0),
        (4, 4, 0.5, 2 * 0.5 * 0.5**4),
        (3.5, 4, 0.5, 2 * 0.5**4),  # a tie counts half: between four wins and three
    ],
)
def test_how_far_a_result_strays_is_told_by_its_exact_chance(score, total, expected, chance):
    found = chance_of(np.array([score]), np.array([total]), np.array([expected]))
    assert found.tolist() == pytest.approx([chance], rel=0.01)


def test_a_study_that_follows_the_scores_has_no_pair_that_is_oddly_explained():
    odd = [diagnose(a_study(12, repeats=2, seed=seed)).residuals[0].usual < 0.05 for seed in range(40)]
    assert sum(odd) <= 4


def test_calibration_counts_every_comparison_once():
    table = a_study(9, seed=5)
    assert sum(step.comparisons for step in diagnose(table).calibration) == len(table)


@pytest.mark.parametrize("rows", [[], [("a", "b", "unparsed")], [("a", "a", "first")], [("a", "b", "tie")]])
def test_nothing_to_diagnose_is_no_error(rows):
    found = diagnose(a_table(rows))
    assert found.influence is None
    assert found.residuals == ()
    assert found.alpha is None


def test_parts_are_ranked_alone_and_compared_with_the_whole():
    table = a_study(8, judges={"sharp": 0.0, "coin": 0.0}, sharpness={"sharp": 2.0, "coin": 0.0}, seed=3, repeats=2)
    parts = {part.value: part for part in breakdowns(table)}
    assert {part.dimension for part in parts.values()} == {"judge"}
    sharp, coin = parts["openai/sharp"], parts["openai/coin"]
    assert sharp.comparisons == coin.comparisons == len(table) // 2
    assert sharp.tau is not None
    assert coin.tau is not None
    assert sharp.tau > coin.tau
    assert isinstance(sharp.result, Ranking)
    assert sharp.result.standings == ranked_rows(table, "sharp").standings


@pytest.mark.parametrize("asked", [{"intervals": "bootstrap"}, {"method": "elo"}, {"method": "win-rate"}])
def test_parts_are_compared_with_the_whole_as_it_was_asked_for(asked):
    study = a_study(12, judges={"one": 0.0, "other": 0.0}, seed=4)
    table, options = study.filter(np.random.default_rng(4).random(len(study)) < 0.4), RankingOptions(rounds=50, **asked)
    whole = rank(table, options)
    assert isinstance(whole, Ranking)
    parts = breakdowns(table, options)
    assert len(parts) == 2
    for part in parts:
        assert isinstance(part.result, Ranking)
        assert part.result.options == options
        assert part.tau == kendall(part.result, whole)


def ranked_rows(table: pa.Table, model: str) -> Ranking:
    rows = [row for row in table.to_pylist() if row["model"] == model]
    result = rank(pa.Table.from_pylist(rows, schema=table.schema))
    assert isinstance(result, Ranking)
    return result


def test_a_part_that_cannot_be_ranked_says_why():
    table = a_table(
        [("a", "b", "first"), ("b", "a", "first"), ("a", "b", "tie")], group=["x", "x", "y"], pair_id=["1", "2", "3"]
    )
    reasons = {part.value: part.result for part in breakdowns(table)}
    assert isinstance(reasons["x"], Ranking)
    assert isinstance(reasons["y"], Unrankable)
    assert reasons["y"].reason.endswith("nothing tells the 2 contestants apart")
