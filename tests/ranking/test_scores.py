"""The fast fit against libraries and against slow, obvious versions."""

import choix
import evalica
import numpy as np
import pandas as pd
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ranking import Ranking, RankingOptions, rank
from pipeline.ranking.cells import Strata, sum_up
from pipeline.ranking.newton import Model, fit
from tests.ranking.studies import a_study, a_table, random_rows


def by_evalica(first, second, halves, contestants: int) -> np.ndarray:
    winners = [(evalica.Winner.Y, evalica.Winner.Draw, evalica.Winner.X)[points] for points in halves]
    index = pd.Index(range(contestants))
    found = evalica.bradley_terry(first.tolist(), second.tolist(), winners, index=index, tolerance=1e-14, limit=10_000)
    scores = np.log(found.scores.loc[range(contestants)].to_numpy())
    return np.asarray(scores - scores.mean())


def by_minimising(first, second, halves, contestants: int, *, davidson: bool, position: bool) -> np.ndarray:
    """Scores, then the position's effect, then log nu, by a general optimiser on the raw rows."""

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        odds = values[first] - values[second] + (values[contestants] if position else 0.0)
        nu = values[-1] if davidson else -np.inf
        ways = np.stack([-odds / 2, np.full(len(odds), nu), odds / 2])
        whole = np.logaddexp.reduce(ways)
        lost, tied, won = np.exp(ways - whole)
        if davidson:
            found = float(np.sum(whole - np.choose(halves, ways)))
        else:
            found = float(np.sum(whole - (halves - 1) / 2 * odds))
        pull = (won - lost) / 2 - (halves - 1) / 2
        slope = 1e-9 * values
        np.add.at(slope, first, pull)
        np.add.at(slope, second, -pull)
        if position:
            slope[contestants] += pull.sum()
        if davidson:
            slope[-1] += np.sum(tied - (halves == 1))
        return found + 0.5e-9 * float(values @ values), slope

    size = contestants + position + davidson
    found = scipy.optimize.minimize(loss, np.zeros(size), jac=True, method="BFGS", options={"gtol": 1e-8})
    assert np.abs(found.jac).max() < 1e-4
    values = found.x
    values[:contestants] -= values[:contestants].mean()
    return values


def test_scores_agree_with_choix_on_a_round_robin():
    table = a_study(20, seed=3)
    result = rank(table)
    assert isinstance(result, Ranking)
    number = {f"c{at:02d}": at for at in range(20)}
    sides = {"first": ("first_id", "second_id"), "second": ("second_id", "first_id")}
    data = [(number[row[won]], number[row[lost]]) for row in table.to_pylist() for won, lost in [sides[row["outcome"]]]]
    expected = choix.opt_pairwise(20, data, alpha=0.0, tol=1e-12)
    expected -= expected.mean()
    scores = {one.contestant: one.score for one in result.standings}
    assert max(abs(scores[name] - expected[at]) for name, at in number.items()) < 1e-6


def test_a_clean_round_robin_gives_the_true_order():
    names = [f"S{at:02d}" for at in range(20)]
    rows = [(one, other, "first") for at, one in enumerate(names) for other in names[at + 1 :]]
    upsets = {("S00", "S01"), ("S05", "S06"), ("S09", "S11"), ("S18", "S19")}
    table = a_table([(one, other, "second" if (one, other) in upsets else won) for one, other, won in rows])
    result = rank(table)
    assert isinstance(result, Ranking)
    found = [one.contestant for one in result.standings]
    out_of_order = sum(
        found.index(one) > found.index(other) for at, one in enumerate(names) for other in names[at + 1 :]
    )
    assert 1 - 2 * out_of_order / 190 >= 0.95


@pytest.mark.parametrize(("contestants", "count", "ties"), [(5, 200, 0.0), (30, 3_000, 0.1), (450, 30_000, 0.02)])
def test_scores_agree_with_evalica(contestants, count, ties):
    first, second, halves = random_rows(contestants, count, seed=1, ties=ties)
    found = fit(sum_up(first, second, halves, contestants=contestants), Model())
    assert np.abs(found.scores - by_evalica(first, second, halves, contestants)).max() < 1e-8


def test_regularised_scores_agree_with_choix():
    first, second, halves = random_rows(8, 40, seed=2)
    data = [(int(a), int(b)) if won else (int(b), int(a)) for a, b, won in zip(first, second, halves == 2, strict=True)]
    expected = choix.opt_pairwise(8, data, alpha=0.35, tol=1e-12)
    found = fit(sum_up(first, second, halves, contestants=8), Model(ridge=0.7))
    assert np.abs(found.scores - expected).max() < 1e-6


@pytest.mark.parametrize("davidson", [False, True])
def test_ties_by_half_a_win_and_by_davidson_agree_with_a_general_optimiser(davidson):
    first, second, halves = random_rows(6, 800, seed=4, ties=0.2)
    expected = by_minimising(first, second, halves, 6, davidson=davidson, position=False)
    found = fit(sum_up(first, second, halves, contestants=6), Model(ties="davidson" if davidson else "half"))
    assert np.abs(np.append(found.scores, found.effects) - expected).max() < 1e-6


@pytest.mark.parametrize("davidson", [False, True])
def test_a_position_effect_agrees_with_a_general_optimiser(davidson):
    first, second, halves = random_rows(6, 800, seed=5, ties=0.1, bias=0.6)
    strata = Strata(names=("first",), codes=np.zeros(800, dtype=np.int64), values=np.ones((1, 1)))
    cells = sum_up(first, second, halves, contestants=6, strata=strata)
    found = fit(cells, Model(ties="davidson" if davidson else "half"))
    expected = by_minimising(first, second, halves, 6, davidson=davidson, position=True)
    assert np.abs(np.append(found.scores, found.effects) - expected).max() < 1e-6


def test_a_long_chain_is_solved_exactly():
    contestants = 1_500
    wins = 2 + np.arange(contestants - 1) % 5
    first = np.repeat(np.arange(contestants - 1, dtype=np.int32), wins + 2)
    halves = np.concatenate([[2] * count + [0] * 2 for count in wins]).astype(np.int8)
    found = fit(sum_up(first, first + np.int32(1), halves, contestants=contestants), Model())
    assert np.abs(-np.diff(found.scores) - np.log(wins / 2)).max() < 1e-7


def test_extreme_scores_are_reached_without_overshooting():
    first, second = np.array([0, 0, 1, 1], dtype=np.int32), np.array([1, 1, 2, 2], dtype=np.int32)
    often = np.array([100_000, 1, 100_000, 1])
    halves = np.array([2, 0, 2, 0], dtype=np.int8)
    cells = sum_up(np.repeat(first, often), np.repeat(second, often), np.repeat(halves, often), contestants=3)
    assert np.abs(np.diff(fit(cells, Model()).scores) + np.log(100_000)).max() < 1e-7


comparisons = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2), st.integers(0, 2)).filter(
        lambda row: row[0] != row[1]
    ),
    min_size=1,
    max_size=60,
)


@given(comparisons, st.booleans())
def test_cells_count_what_a_loop_counts(rows, wide):
    contestants = 600 if wide else 5
    first, second, halves, codes = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
    strata = Strata(names=("x",), codes=codes, values=np.array([[1.0], [2.0], [4.0]]))
    cells = sum_up(first, second, halves.astype(np.int8), contestants=contestants, strata=strata)
    slow: dict[tuple[int, int, float], list[float]] = {}
    for one, other, points, code in rows:
        turned = one > other
        key = (min(one, other), max(one, other), (-1.0 if turned else 1.0) * 2.0**code)
        entry = slow.setdefault(key, [0.0, 0.0, 0.0])
        entry[0] += (2 - points if turned else points) / 2
        entry[1] += points == 1
        entry[2] += 1
    columns = (cells.low, cells.high, cells.extra[:, 0], cells.score, cells.ties, cells.total)
    fast = {
        (int(low), int(high), float(extra)): [float(score), float(tied), float(total)]
        for low, high, extra, score, tied, total in zip(*columns, strict=True)
    }
    assert fast == slow
    assert cells.low.tolist() == np.repeat(np.arange(contestants), np.diff(cells.starts)).tolist()


@given(st.randoms(use_true_random=False))
def test_neither_row_order_nor_sides_change_a_ranking(random):
    rows = [(row["first_id"], row["second_id"], row["outcome"]) for row in a_study(5, seed=9, ties=0.1).to_pylist()]
    turned = {"first": "second", "second": "first", "tie": "tie"}
    mixed = [(b, a, turned[won]) if random.random() < 0.5 else (a, b, won) for a, b, won in rows]
    random.shuffle(mixed)
    one, other = rank(a_table(rows)), rank(a_table(mixed))
    assert isinstance(one, Ranking)
    assert isinstance(other, Ranking)
    assert [s.contestant for s in one.standings] == [s.contestant for s in other.standings]
    for before, after in zip(one.standings, other.standings, strict=True):
        assert (before.score, before.low, before.high) == pytest.approx((after.score, after.low, after.high), abs=1e-9)


def test_a_judge_who_likes_the_first_place_is_modelled():
    result = rank(a_study(14, judges={"biased": 0.8}, seed=1, repeats=4), RankingOptions(position=True))
    assert isinstance(result, Ranking)
    (effect,) = result.effects
    assert effect.name == "first position: openai/biased"
    assert effect.low < 0.8 < effect.high
    assert effect.low > 0.3


def test_length_is_left_out_where_contestants_are_the_samples():
    table = a_study(6, seed=2)
    lengths = {f"c{at:02d}": 100.0 * (at + 1) for at in range(6)}
    with_length, without = rank(table, lengths=lengths), rank(table)
    assert isinstance(with_length, Ranking)
    assert isinstance(without, Ranking)
    assert with_length.effects == ()
    assert with_length.warnings == ("length (per doubling) cannot be told from the scores and was left out",)
    assert [s.score for s in with_length.standings] == pytest.approx([s.score for s in without.standings])


def test_a_preference_for_length_is_found_where_contestants_have_several_samples():
    draw = np.random.default_rng(0)
    lengths: dict[str, float] = {}
    rows, contestants = [], []
    for number in range(4_000):
        one, other = draw.choice(4, 2, replace=False)
        sizes = draw.integers(50, 1_000, 2)
        odds = 0.5 * (one - other) + 0.7 * np.log2((sizes[0] + 1) / (sizes[1] + 1))
        first, second = f"{number}a", f"{number}b"
        lengths |= {first: float(sizes[0]), second: float(sizes[1])}
        rows.append((first, second, "first" if draw.random() < 1 / (1 + np.exp(-odds)) else "second"))
        contestants.append((f"m{one}", f"m{other}"))
    table = a_table(
        rows, first_contestant=[one for one, _ in contestants], second_contestant=[other for _, other in contestants]
    )
    result = rank(table, lengths=lengths)
    assert isinstance(result, Ranking)
    (effect,) = result.effects
    assert effect.low < 0.7 < effect.high
    assert [one.contestant for one in result.standings] == ["m3", "m2", "m1", "m0"]
