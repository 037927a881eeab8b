"""Do intervals keep their promise? A thousand simulated studies of known truth for each of many kinds of study.

Nothing in the method was chosen by these numbers: they vary contestants, comparisons, bias, judges, ties and what
comparisons have in common, and the promise is the same for all.
"""

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import scipy.optimize

from pipeline.ranking import Ranking, RankingOptions, diagnose, rank

STUDIES = 1_000


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of study: `pairs` are drawn anew for each (None: all); the spreads are of effects we do not model."""

    contestants: int
    biases: tuple[float, ...] = (0.8,)
    repeats: int = 1
    both_orders: bool = True
    pairs: int | None = None
    groups: int = 1
    pair_spread: float = 0.0
    sample_spread: float = 0.0
    tie_odds: float = 0.0
    options: RankingOptions = RankingOptions(position=True)

    @property
    def truth(self) -> np.ndarray:
        return np.linspace(1.5, -1.5, self.contestants)


PLENTY = {
    "both orders, three times": Kind(contestants=10, repeats=3),
    "a strong preference for the second position": Kind(contestants=10, repeats=3, biases=(-1.5,)),
    "one order, five times": Kind(contestants=10, repeats=5, both_orders=False),
    "few contestants": Kind(contestants=4, repeats=10),
    "many contestants": Kind(contestants=40, pairs=400),
    "three judges": Kind(contestants=12, biases=(0.9, -0.4, 0.0)),
    "ties as Davidson has them": Kind(
        contestants=10, repeats=3, tie_odds=0.7, options=RankingOptions(position=True, ties="davidson")
    ),
    "ties as half a win": Kind(contestants=10, repeats=3, tie_odds=0.7),
    "pairs with a will of their own": Kind(contestants=10, repeats=3, pair_spread=0.7),
    "samples in thirty groups": Kind(contestants=6, groups=30, sample_spread=0.7),
    "samples in eight groups": Kind(contestants=6, groups=8, sample_spread=0.7),
    "no bias and none in the model": Kind(contestants=12, repeats=2, biases=(0.0,), options=RankingOptions()),
}
THIN = {
    "nine comparisons each": Kind(contestants=10, both_orders=False),
    "ten comparisons each of many": Kind(contestants=40, pairs=200, both_orders=False),
}


def chances(odds: np.ndarray, tie_odds: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the chances that the first wins and that it is a tie."""
    whole = np.exp(odds / 2) + np.exp(-odds / 2) + tie_odds
    return np.exp(odds / 2) / whole, tie_odds / whole


def a_study(kind: Kind, seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    every = np.stack(np.triu_indices(kind.contestants, 1))
    parts = []
    for group in range(kind.groups):
        pairs = every if kind.pairs is None else every[:, draw.choice(every.shape[1], kind.pairs, replace=False)]
        quality = kind.truth + draw.normal(0, kind.sample_spread, kind.contestants)
        own = draw.normal(0, kind.pair_spread, pairs.shape[1])
        swapped = draw.random(pairs.shape[1]) < 0.5
        for judge, bias in enumerate(kind.biases):
            for turned in [swapped, ~swapped][: 1 + kind.both_orders] * kind.repeats:
                first, second = np.where(turned, pairs[::-1], pairs)
                odds = quality[first] - quality[second] + np.where(turned, -own, own) + bias
                win, tie = chances(odds, kind.tie_odds)
                luck = draw.random(len(odds))
                outcome = np.where(luck < win, "first", np.where(luck < win + tie, "tie", "second"))
                parts.append((first, second, outcome, np.full(len(odds), judge), np.full(len(odds), group)))
    first, second, outcome, judges, groups = (np.concatenate(column) for column in zip(*parts, strict=True))
    samples = {
        side: [f"{who:02d}-{where}" for who, where in zip(named, groups, strict=True)]
        for side, named in (("first_id", first), ("second_id", second))
    }
    return pa.table(
        {
            **samples,
            "first_contestant": first.astype(str),
            "second_contestant": second.astype(str),
            "status": ["ok"] * len(outcome),
            "outcome": outcome,
            "model": judges.astype(str),
            "group": groups.astype(str),
        }
    )


def limit(kind: Kind) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores and biases that endless studies of the kind tend to under the model that is fitted."""
    size, judges = kind.contestants, len(kind.biases)
    if kind.options.ties == "davidson":
        return kind.truth, np.array(kind.biases)
    first, second = np.nonzero(~np.eye(size, dtype=bool))
    nodes, weights = np.polynomial.hermite_e.hermegauss(31)
    spread = np.hypot(kind.pair_spread, np.sqrt(2) * kind.sample_spread) * nodes
    gap = kind.truth[first] - kind.truth[second] + np.array(kind.biases)[:, None]
    win, tie = chances(gap[:, :, None] + spread, kind.tie_odds)
    seen = (win + tie / 2) @ weights / weights.sum()

    def loss(values: np.ndarray) -> float:
        odds = values[first] - values[second] + values[size:, None]
        return float(np.sum(np.logaddexp(0, odds) - seen * odds)) + 1e-9 * float(values @ values)

    found = scipy.optimize.minimize(loss, np.zeros(size + judges), method="BFGS", options={"gtol": 1e-6}).x
    return found[:size] - found[:size].mean(), found[size:]


class Kept(msgspec.Struct, kw_only=True):
    """How often intervals held the truth: of scores, of biases, of places."""

    scores: float = 0.0
    biases: float = 0.0
    places: float = 0.0


def kept_promises(kind: Kind, studies: int) -> Kept:
    scores, biases = limit(kind)
    kept = Kept()
    for seed in range(studies):
        result = rank(a_study(kind, seed), msgspec.structs.replace(kind.options, seed=seed))
        assert isinstance(result, Ranking)
        for one in result.standings:
            number = int(one.contestant)
            kept.scores += (one.low <= scores[number] <= one.high) / kind.contestants / studies
            kept.places += (one.place_low <= number + 1 <= one.place_high) / kind.contestants / studies
        for effect, bias in zip(result.effects, biases, strict=False):
            kept.biases += (effect.low <= bias <= effect.high) / len(biases) / studies
    return kept


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PLENTY)
def test_intervals_cover_the_truth_as_often_as_they_say(name):
    kind = PLENTY[name]
    kept = kept_promises(kind, STUDIES)
    assert 0.93 <= kept.scores <= 0.97, kept
    assert kept.places >= 0.95, kept
    assert kept.biases >= 0.93 or not kind.options.position, kept


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", THIN)
def test_intervals_of_thin_studies_are_too_wide_rather_than_too_narrow(name):
    kept = kept_promises(THIN[name], STUDIES)
    assert 0.95 <= kept.scores <= 0.995, kept
    assert kept.places >= 0.95, kept


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_resampled_intervals_cover_the_truth_too():
    options = RankingOptions(position=True, intervals="bootstrap", rounds=200)
    kept = kept_promises(Kind(contestants=10, repeats=3, options=options), 200)
    assert 0.925 <= kept.scores <= 0.975, kept


@pytest.mark.slow
@pytest.mark.parametrize("bias", [0.8, -0.8])
def test_a_planted_bias_is_found(bias):
    kind = Kind(contestants=10, repeats=3, biases=(bias,))
    tested = fitted = 0
    for seed in range(200):
        table = a_study(kind, seed)
        position = diagnose(table).judges[0].position
        assert position is not None
        tested += position.p_value < 0.05 and (position.to_first > position.to_second) == (bias > 0)
        result = rank(table, kind.options)
        assert isinstance(result, Ranking)
        (effect,) = result.effects
        fitted += effect.low * bias > 0 and effect.high * bias > 0
    assert tested > 140
    assert fitted > 180
