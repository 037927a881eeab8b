"""Places, tiers, and how much of the spread of scores is real."""

import numpy as np
import pytest

from pipeline.ranking import Ranking, RankingOptions, rank
from pipeline.ranking.places import places, reliability
from pipeline.ranking.uncertainty import Covariance
from tests.ranking.studies import a_study


def a_covariance(*variances: float) -> Covariance:
    values = np.array(variances)
    return Covariance(scores=values, effects=np.zeros(0), full=None, clusters=10_000, exact=True)


@pytest.mark.parametrize(
    ("scores", "error", "ranks", "lows", "highs", "tiers"),
    [
        ([3.0, 2.0, 1.0], 0.01, [1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3]),
        ([3.0, 2.0, 1.0], 10.0, [1, 2, 3], [1, 1, 1], [3, 3, 3], [1, 1, 1]),
        ([1.0, 3.0, 2.9], 0.1, [3, 1, 2], [3, 1, 1], [3, 2, 2], [2, 1, 1]),
        ([1.0, 1.0, 0.0], 0.01, [1, 1, 3], [1, 1, 3], [2, 2, 3], [1, 1, 2]),
    ],
)
def test_places_leave_out_only_what_is_proven(scores, error, ranks, lows, highs, tiers):
    found = places(np.array(scores), a_covariance(*[error**2] * 3), confidence=0.95)
    assert found.rank.tolist() == ranks
    assert found.low.tolist() == lows
    assert found.high.tolist() == highs
    assert found.tier.tolist() == tiers


def test_everyone_below_a_tier_is_proven_weaker_than_its_best():
    """Whoever was hardly compared may be as good as the best, and no tier ends above such a one."""
    scores, errors = np.array([3.0, 2.0, 0.5, 0.0, -9.0]), [0.01, 0.01, 4.0, 0.01, 0.01]
    found = places(scores, a_covariance(*[error**2 for error in errors]), confidence=0.95)
    assert found.low.tolist() == [1, 2, 1, 3, 4]
    assert found.tier.tolist() == [1, 1, 1, 2, 3]


def test_of_equals_the_surest_tells_who_is_weaker():
    """Two share first place: what the surer of them proves holds, whoever was read first."""
    scores, errors = np.array([3.0, 3.0, 0.0, -1.0]), [4.0, 0.01, 0.01, 0.01]
    found = places(scores, a_covariance(*[error**2 for error in errors]), confidence=0.95)
    assert found.tier.tolist() == [1, 1, 2, 3]
    assert found.rivals.tolist() == [False, False, False, False]


def test_a_tier_does_not_part_equals():
    scores, errors = np.array([3.0, 1.0, 1.0, -9.0]), [0.5, 0.01, 2.0, 0.01]
    found = places(scores, a_covariance(*[error**2 for error in errors]), confidence=0.95)
    assert found.tier.tolist() == [1, 1, 1, 2]
    assert found.rivals.tolist() == [False, False, True, False]


def test_rivals_are_those_the_first_is_not_proven_better_than():
    """Somebody else may be proven better than a rival: that does not tell it from the first."""
    scores, errors = np.array([3.0, 2.0, 0.0, -9.0]), [1.0, 0.01, 0.01, 0.01]
    found = places(scores, a_covariance(*[error**2 for error in errors]), confidence=0.999)
    assert found.low.tolist() == [1, 1, 2, 4]
    assert found.rivals.tolist() == [False, True, True, False]
    assert found.tier.tolist() == [1, 1, 1, 2]


def test_reliability_is_the_share_of_variance_that_is_not_error():
    found = reliability(np.array([-1.0, 0.0, 1.0]), np.full(3, 0.2))
    assert found is not None
    assert (found.reliability, found.separation) == pytest.approx((0.8, 2.0))
    assert reliability(np.array([-1.0, 1.0]), np.full(2, 0.2)) is None


def test_the_headline_names_whom_the_first_tier_runs_down_to():
    for seed in range(20):
        result = rank(a_study(12, repeats=2, seed=seed), RankingOptions(cluster="row"))
        assert isinstance(result, Ranking)
        last = [*result.leaders, *result.rivals][-1]
        assert result.tiers[0][-1] == last or result.standings[len(result.tiers[0]) - 1].score == _score(result, last)


def _score(result: Ranking, name: str) -> float:
    return next(one.score for one in result.standings if one.contestant == name)
