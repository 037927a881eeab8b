"""Intervals: the fast covariance against loops, the bootstrap against the formula."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from pipeline.ranking import Ranking, RankingOptions, rank, uncertainty
from pipeline.ranking.bootstrap import bias_corrected, bootstrap
from pipeline.ranking.cells import Strata, sum_up
from pipeline.ranking.laplacian import Laplacian, inverse
from pipeline.ranking.leverage import Rows, left_out, pulls_at
from pipeline.ranking.newton import Fit, Model, curve, fit
from pipeline.ranking.uncertainty import Covariance, sandwich
from tests.ranking.studies import a_study, a_table, random_rows


def a_fit(contestants: int, count: int, *, davidson: bool = False, strata: bool = False, per_cluster: int = 3):
    first, second, halves = random_rows(contestants, count, seed=6, ties=0.15, bias=0.3)
    kinds = Strata(names=("a", "b"), codes=np.arange(count) % 2, values=np.eye(2)) if strata else None
    rows = Rows(first=first, second=second, halves=halves, cluster=np.arange(count) // per_cluster, strata=kinds)
    cells = sum_up(first, second, halves, contestants=contestants, strata=kinds)
    model = Model(ties="davidson" if davidson else "half")
    return rows, cells, model, fit(cells, model)


HELD = 0.999  # of a cluster's own weight is taken off: one that alone decides a score would leave nothing


def slow_covariance(rows: Rows, model: Model, found: Fit) -> np.ndarray:
    """The jackknife over clusters: one Newton step from the fit on all the others, curvature by differences."""
    size = len(found.scores)
    values = np.concatenate([found.scores, found.effects])

    def slope(row: np.integer[Any], at: np.ndarray) -> np.ndarray:
        one, other = rows.first[row], rows.second[row]
        extra = rows.strata.values[rows.strata.codes[row]] if rows.strata else np.zeros(0)
        odds = at[one] - at[other] + extra @ at[size : size + len(extra)]
        made = np.zeros(len(at))
        if model.ties == "davidson":
            weights = np.exp([odds / 2, -odds / 2, at[-1]])
            win, _, tie = weights / weights.sum()
            expected = win + tie / 2
            made[-1] = (rows.halves[row] == 1) - tie
        else:
            expected = 1 / (1 + np.exp(-odds))
        rest = rows.halves[row] / 2 - expected
        made[one], made[other] = rest, -rest
        made[size : size + len(extra)] = rest * extra
        return made

    def curvature(kept: np.ndarray, step: float = 1e-5) -> np.ndarray:
        made = np.zeros((len(values), len(values)))
        for at in range(len(values)):
            shift = np.zeros(len(values))
            shift[at] = step
            made[:, at] = sum(slope(row, values - shift) - slope(row, values + shift) for row in kept) / (2 * step)
        return made

    clusters = int(rows.cluster.max()) + 1
    own = [np.flatnonzero(rows.cluster == number) for number in range(clusters)]
    whole = curvature(np.arange(len(rows.halves)))
    moved = [
        np.linalg.pinv(whole - HELD * curvature(some), rcond=1e-8)
        @ np.sum([slope(row, values) for row in some], axis=0)
        for some in own
    ]
    return np.asarray(np.sum([np.outer(step, step) for step in moved], axis=0) * (clusters - 1) / clusters)


@pytest.mark.parametrize(("davidson", "strata"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_sandwich_is_the_jackknife_over_clusters(davidson, strata):
    rows, cells, model, found = a_fit(5, 150, davidson=davidson, strata=strata)
    fast = sandwich(rows, curve(cells, model, found.scores, found.effects), found, model)
    slow = slow_covariance(rows, model, found)
    assert fast.full is not None
    assert fast.full == pytest.approx(slow[:5, :5], rel=1e-6, abs=1e-9)
    assert fast.effects == pytest.approx(np.diag(slow)[5:], rel=1e-6)


def test_the_blockwise_diagonal_is_the_diagonal_of_the_full_covariance():
    rows, cells, model, found = a_fit(30, 900, strata=True)
    view = curve(cells, model, found.scores, found.effects)
    full = sandwich(rows, view, found, model)
    bread = uncertainty._bread(view)
    freed = left_out(pulls_at(rows, found, model), lambda places: bread[places[:, :, None], places[:, None, :]])
    ratio = np.concatenate([full.scores, full.effects]) / uncertainty._diagonal_of_product(bread, freed)
    assert ratio == pytest.approx(np.full(32, 299 / 300))


def test_above_the_limit_only_the_diagonal_is_used_and_said():
    contestants = uncertainty.EXACT_LIMIT + 50
    draw = np.random.default_rng(0)
    one = np.tile(np.arange(contestants, dtype=np.int32), 12)
    other = ((one + draw.integers(1, contestants, len(one))) % contestants).astype(np.int32)
    halves = np.where(draw.random(len(one)) < 0.5, 2, 0).astype(np.int8)
    cells = sum_up(one, other, halves, contestants=contestants)
    model = Model(ridge=0.1)
    found = fit(cells, model)
    rows = Rows(first=one, second=other, halves=halves, cluster=np.arange(len(one)))
    covariance = sandwich(rows, curve(cells, model, found.scores, found.effects), found, model)
    assert not covariance.exact
    assert np.all(np.isfinite(covariance.scores))
    assert np.median(np.sqrt(covariance.scores)) == pytest.approx(np.sqrt(4 / 24), rel=0.2)


@pytest.mark.parametrize("size", [1, 2, 512, 513, 1_300])
def test_an_inverse_in_place_is_an_inverse(size: int) -> None:
    draw = np.random.default_rng(1).standard_normal((size, size))
    matrix = draw @ draw.T + size * np.eye(size)
    assert np.abs(inverse(matrix.copy()) @ matrix - np.eye(size)).max() < 1e-10


def test_a_graph_whose_weights_are_not_positive_has_its_inverse_too() -> None:
    one, other = np.array([0, 1, 2], dtype=np.int32), np.array([1, 2, 0], dtype=np.int32)
    cells = sum_up(one, other, np.array([2, 2, 2], dtype=np.int8), contestants=3)
    graph = Laplacian(cells=cells, weights=np.array([1.0, 2.0, -0.9]), ridge=0.0)
    with pytest.raises(np.linalg.LinAlgError):
        inverse(graph.dense())
    assert graph.inverse() @ graph.dense() == pytest.approx(np.eye(3))


@pytest.mark.parametrize("contestants", [3, 1_024, 2_500])
def test_a_symmetric_product_by_halves_has_the_diagonal_of_the_whole(contestants: int) -> None:
    draw = np.random.default_rng(2)
    pulls = sparse.csr_array(sparse.random_array((4_000, contestants), density=2 / contestants, rng=draw))
    bread = draw.standard_normal((contestants, contestants))
    bread += bread.T
    whole = np.diag(bread @ (pulls.T @ pulls).toarray() @ bread)
    assert uncertainty._diagonal_of_product(bread, pulls) == pytest.approx(whole, rel=1e-9)


def test_repeating_every_comparison_inside_its_cluster_proves_nothing():
    table = a_study(8, seed=4)
    once, twice = (
        rank(table),
        rank(a_table([(r["first_id"], r["second_id"], r["outcome"]) for r in table.to_pylist()] * 2)),
    )
    assert isinstance(once, Ranking)
    assert isinstance(twice, Ranking)
    assert [s.standard_error for s in twice.standings] == pytest.approx(
        [s.standard_error for s in once.standings], rel=1e-6
    )
    naive = rank(table, RankingOptions(cluster="row"))
    assert isinstance(naive, Ranking)
    assert naive.clusters == 2 * once.clusters


def test_groups_are_the_clusters_where_there_are_many():
    rows = [("a", "b", "first"), ("b", "a", "first"), ("a", "b", "second")] * 10
    table = a_table(rows, pair_id=[str(at) for at in range(30)], group=[f"g{at % 25}" for at in range(30)])
    result = rank(table)
    assert isinstance(result, Ranking)
    assert (result.cluster_kind, result.clusters) == ("group", 25)


def test_few_clusters_that_name_many_contestants_are_not_widened_as_if_each_named_two():
    table = a_study(12, seed=7, repeats=4)
    grouped = table.append_column("group", pa.array([f"g{at % 24}" for at in range(len(table))]))
    by_group, by_row = (rank(grouped, RankingOptions(cluster=kind)) for kind in ("group", "row"))
    assert isinstance(by_group, Ranking)
    assert isinstance(by_row, Ranking)
    ratio = np.array([s.standard_error for s in by_group.standings]) / [s.standard_error for s in by_row.standings]
    assert np.median(ratio) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("davidson", [False, True])
def test_the_bootstrap_spreads_as_the_sandwich_says(davidson):
    rows, cells, model, found = a_fit(6, 1_200, davidson=davidson, strata=True, per_cluster=2)
    covariance = sandwich(rows, curve(cells, model, found.scores, found.effects), found, model)
    drawn = bootstrap(rows, cells, found, model, rounds=400, seed=3)
    errors = np.sqrt(np.concatenate([covariance.scores, covariance.effects]))
    assert drawn.std(axis=0) / errors == pytest.approx(1.0, abs=0.15)
    assert np.abs(drawn.mean(axis=0) - np.concatenate([found.scores, found.effects])).max() < 0.1


def test_the_bootstrap_is_repeatable_and_depends_on_the_seed():
    rows, cells, model, found = a_fit(4, 120)
    one, same, other = (bootstrap(rows, cells, found, model, rounds=5, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_bias_corrected_intervals_are_plain_percentiles_where_there_is_no_bias():
    drawn = np.linspace(-1, 1, 2_001)[:, None]
    low, high = bias_corrected(drawn, np.zeros(1), confidence=0.95)
    assert (low[0], high[0]) == pytest.approx((-0.95, 0.95), abs=2e-3)
    low, high = bias_corrected(drawn, np.full(1, -0.2), confidence=0.95)
    assert high[0] < 0.9
    assert low[0] < -0.97


def test_without_the_full_covariance_differences_add_variances():
    covariance = Covariance(scores=np.array([1.0, 2.0]), effects=np.zeros(0), full=None, clusters=9, exact=True)
    assert covariance.between(0).tolist() == [2.0, 3.0]


def test_groups_of_different_sizes_are_left_out_one_by_one():
    draw = np.random.default_rng(4)
    cluster = np.sort(draw.integers(0, 9, 120))
    first = ((cluster + draw.integers(0, 2 + cluster % 3)) % 6).astype(np.int32)
    second = ((first + 1 + draw.integers(0, 1 + cluster % 3)) % 6).astype(np.int32)
    halves = draw.choice(np.array([0, 1, 2], dtype=np.int8), 120)
    rows = Rows(first=first, second=second, halves=halves, cluster=np.unique(cluster, return_inverse=True)[1])
    cells = sum_up(first, second, halves, contestants=6)
    found = fit(cells, Model())
    fast = sandwich(rows, curve(cells, Model(), found.scores, found.effects), found, Model())
    assert fast.full == pytest.approx(slow_covariance(rows, Model(), found), rel=2e-3, abs=1e-4)


@pytest.mark.parametrize("method", ["sandwich", "bootstrap"])
def test_someone_named_by_one_pair_alone_is_not_thought_certain(method):
    table = a_study(6, seed=2)
    once = a_table([("x", "c00", "first"), ("c00", "x", "first"), ("x", "c00", "first")])
    result = rank(pa.concat_tables([table.select(once.column_names), once]), RankingOptions(intervals=method))
    assert isinstance(result, Ranking)
    new = next(one for one in result.standings if one.contestant == "x")
    assert new.high - new.low > 3


def test_resampled_studies_may_lose_all_their_ties():
    rows = [("a", "b", "tie"), *[(one, other, "first") for one in "abc" for other in "abc" if one != other]]
    result = rank(a_table(rows), RankingOptions(ties="davidson", intervals="bootstrap", rounds=100))
    assert isinstance(result, Ranking)
    bounds = [(one.low, one.high) for one in result.standings] + [(one.low, one.high) for one in result.effects]
    assert np.isfinite(np.array(bounds, dtype=float)).all()
