"""Elo in many orders at once against one order at a time, and the random numbers behind it."""

import evalica
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ranking import draws
from pipeline.ranking.elo import INITIAL, elo, play
from pipeline.ranking.leverage import Rows
from tests.ranking.studies import random_rows


def some_rows(count: int = 300, *, per_cluster: int = 1) -> Rows:
    first, second, halves = random_rows(7, count, seed=8, ties=0.1)
    return Rows(first=first, second=second, halves=halves, cluster=np.arange(count) // per_cluster)


def test_every_order_ends_as_evalica_says():
    rows = some_rows()
    turns = np.stack([draws.permutation(1, turn, 300) for turn in range(3)], axis=1)
    fast = play(rows, turns, contestants=7)
    winner = np.array([evalica.Winner.Y, evalica.Winner.Draw, evalica.Winner.X], dtype=object)
    for turn in range(3):
        order = turns[:, turn]
        slow = evalica.elo(
            rows.first[order].tolist(), rows.second[order].tolist(), winner[rows.halves[order]].tolist(),
            index=pd.Index(range(7)),
        )  # fmt: skip
        assert fast[turn] == pytest.approx(slow.scores.loc[range(7)].to_numpy(), abs=1e-6)


def test_ratings_keep_their_mean_and_spread_more_when_resampled():
    found = elo(some_rows(per_cluster=3), contestants=7, orders=200, seed=5)
    assert found.mean.mean() == pytest.approx(INITIAL)
    assert found.resampled.mean(axis=1) == pytest.approx(np.full(200, INITIAL))
    assert np.all(found.resampled.std(axis=0) > 2 * found.spread)


def test_elo_is_repeatable():
    one, same, other = (elo(some_rows(), contestants=7, orders=5, seed=seed).mean for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@given(st.integers(0, 2**70), st.integers(0, 2**40), st.integers(0, 300))
def test_a_permutation_holds_every_number_once(seed, stream, count):
    assert sorted(draws.permutation(seed, stream, count)) == list(range(count))


def test_a_stream_begins_the_same_however_much_of_it_is_drawn():
    assert np.array_equal(draws.bits(3, 7, 10), draws.bits(3, 7, 1_000)[:10])


def test_seeds_and_streams_give_different_even_numbers():
    drawn = [draws.uniforms(seed, stream, 20_000) for seed in (0, 1) for stream in (0, 1)]
    for values in drawn:
        assert scipy.stats.kstest(values, "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(drawn) - np.eye(4)).max() < 0.04


@pytest.mark.parametrize("mean", [0.3, 1.0, 7.0, 29.9, 30.0, 400.0])
def test_poisson_numbers_have_the_distribution_they_should(mean):
    drawn = draws.Poisson(np.full(40_000, mean)).draw(2, 5)
    assert drawn.mean() == pytest.approx(mean, rel=0.03)
    assert drawn.var() == pytest.approx(mean, rel=0.05)
    for level in (0.05, 0.5, 0.95):
        edge = scipy.stats.poisson.ppf(level, mean)
        assert np.mean(drawn <= edge) == pytest.approx(scipy.stats.poisson.cdf(edge, mean), abs=0.015)


def test_a_mean_of_zero_draws_zero():
    assert draws.Poisson(np.zeros(5)).draw(0, 0).tolist() == [0.0] * 5
