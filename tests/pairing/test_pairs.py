import itertools
import math
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Design, Order
from pipeline.errors import ConfigError
from pipeline.pairing import Cohesion, Pairs, cohesion, make_pairs, reverse_subset, unranked
from tests.effort import effort


def some_pairs(
    n: int,
    *,
    groups: Sequence[str | None] | None = None,
    design: Design = "all",
    count: int | None = None,
    share: float | None = None,
    seed: int = 0,
    order: Order = "given",
) -> Pairs:
    return make_pairs(n, groups=groups, design=design, count=count, share=share, seed=seed, order=order)


def listed(pairs: Pairs) -> list[tuple[int, int]]:
    return list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))


def regardless_of_order(pairs: Pairs) -> list[tuple[int, int]]:
    return [(min(pair), max(pair)) for pair in listed(pairs)]


def imbalance(pairs: Pairs, n: int) -> int:
    leads = np.bincount(pairs.first, minlength=n) - np.bincount(pairs.second, minlength=n)
    return int(np.abs(leads).max(initial=0))


def test_all_pairs_come_in_the_order_of_the_table():
    assert listed(some_pairs(20)) == list(itertools.combinations(range(20), 2))


@pytest.mark.parametrize("design", ["all", "random", "groups"])
@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_samples_make_no_pairs(n: int, design: Design):
    pairs = some_pairs(n, design=design, count=400 if design == "random" else None)
    assert len(pairs) == 0
    assert pairs.first.dtype == pairs.second.dtype == np.int32


def test_pairs_cannot_be_changed():
    pairs = some_pairs(3)
    with pytest.raises(ValueError, match="read-only"):
        pairs.first[0] = 2


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (0, [(0, 16), (3, 13), (14, 16), (7, 16), (2, 15), (8, 15)]),
        (1, [(4, 8), (2, 19), (17, 18), (2, 14), (17, 19), (7, 13)]),
        (123, [(6, 14), (7, 19), (17, 18), (4, 9), (11, 15), (2, 15)]),
    ],
)
def test_random_pairs_of_a_few_samples_are_the_same_on_any_machine(seed: int, expected: list[tuple[int, int]]):
    assert listed(some_pairs(20, design="random", count=6, seed=seed)) == expected


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (0, [(2493, 4110), (3781, 4471), (1291, 4734), (3613, 2531), (1961, 497)]),
        (123, [(4148, 322), (3805, 917), (4683, 1516), (3258, 1582), (3760, 2324)]),
    ],
)
def test_random_pairs_of_many_samples_are_the_same_on_any_machine(seed: int, expected: list[tuple[int, int]]):
    assert listed(some_pairs(5000, design="random", count=5, seed=seed, order="random")) == expected


@given(n=st.integers(2, 40), seed=st.integers(), data=st.data())
def test_random_pairs_are_drawn_without_replacement(n: int, seed: int, data: st.DataObject):
    count = data.draw(st.integers(1, n * (n - 1) // 2))
    drawn = regardless_of_order(some_pairs(n, design="random", count=count, seed=seed, order="random"))
    assert len(set(drawn)) == len(drawn) == count
    assert set(drawn) <= set(itertools.combinations(range(n), 2))


@pytest.mark.parametrize("order", ["given", "random", "alternate"])
@pytest.mark.parametrize("n", [30, 400])
def test_a_larger_count_leaves_the_earlier_pairs_alone(n: int, order: Order):
    few = some_pairs(n, design="random", count=100, seed=8, order=order)
    many = some_pairs(n, design="random", count=435, seed=8, order=order)
    assert listed(many)[:100] == listed(few)


def test_every_pair_is_drawn_equally_often_over_the_seeds():
    drawn = Counter(pair for seed in range(800) for pair in listed(some_pairs(8, design="random", count=7, seed=seed)))
    expected = 800 * 7 / 28
    chi_square = sum((drawn[pair] - expected) ** 2 / expected for pair in itertools.combinations(range(8), 2))
    assert chi_square / 27 < 1 + 4 * math.sqrt(2 / 27)


@pytest.mark.parametrize(
    ("share", "expected"), [(1.0, 4950), (0.29, 1435), (0.5, 2475), (0.0001, 1), (1e-12, 1), (0.999, 4945)]
)
def test_a_share_is_rounded_down_but_never_to_nothing(share: float, expected: int):
    assert len(some_pairs(100, design="random", share=share)) == expected


def test_a_share_means_what_was_written_and_not_its_binary_neighbour():
    groups = [f"group {number // 2}" for number in range(200)]
    assert len(some_pairs(200, groups=groups, design="random", share=0.29)) == 29


def test_pairs_never_cross_a_group():
    groups = ["b", "a", "b", "lonely", "a", "b"]
    for design in ("all", "groups"):
        assert listed(some_pairs(6, groups=groups, design=design)) == [(0, 2), (0, 5), (2, 5), (1, 4)]


@given(groups=st.lists(st.sampled_from("abcde"), min_size=2, max_size=40), seed=st.integers(0, 9))
def test_random_pairs_with_groups_are_all_pairs_inside_them_shuffled(groups: list[str], seed: int):
    inside = [pair for pair in itertools.combinations(range(len(groups)), 2) if groups[pair[0]] == groups[pair[1]]]
    drawn = some_pairs(len(groups), groups=groups, design="random", share=1.0, seed=seed, order="random")
    assert sorted(regardless_of_order(drawn)) == inside


def test_samples_that_are_each_alone_in_their_group_make_no_pairs():
    assert len(some_pairs(3, groups=["a", "b", "c"])) == 0
    assert len(some_pairs(3, groups=["a", "b", "c"], design="random", share=0.5)) == 0


def test_an_empty_column_of_groups_is_no_group():
    assert listed(some_pairs(3, groups=[None, None, None])) == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"design": "groups"}, "pairs.design is groups, but no sample has a group"),
        ({"design": "groups", "groups": [None] * 5}, "no sample has a group"),
        ({"groups": ["a", "a", None, "b", None]}, "2 of 5 have no group (the first is number 3)"),
        ({"design": "random", "count": 11}, "pairs.count is 11, but only 10 pairs exist"),
        ({"design": "random", "count": 2, "groups": list("aabcd")}, "pairs.count is 2, but only 1 pair exists; "),
        ({"design": "random", "count": 1, "groups": list("abcde")}, "pairs.count is 1, but only 0 pairs exist"),
        ({"design": "random", "count": 0}, "pairs.count is 0; it must be at least 1"),
        ({"design": "random", "count": -1}, "pairs.count is -1; it must be at least 1"),
        ({"design": "random"}, "needs either count or share"),
        ({"design": "random", "count": 1, "share": 0.5}, "needs either count or share"),
        ({"design": "random", "share": 0.0}, "pairs.share is 0.0; it must be above 0 and at most 1"),
        ({"design": "random", "share": 1.5}, "pairs.share is 1.5"),
        ({"design": "random", "share": math.nan}, "pairs.share is nan"),
        ({"design": "all", "count": 3}, "count and share go with design random, not with all"),
    ],
)
def test_a_design_that_cannot_be_carried_out_is_refused(settings: dict[str, Any], words: str):
    with pytest.raises(ConfigError) as refused:
        some_pairs(5, **settings)
    assert words in str(refused.value)


def test_more_pairs_than_can_be_counted_are_refused_before_they_are_made():
    with pytest.raises(ConfigError, match="4999950000 pairs of 100000 samples are more than 1073741824"):
        some_pairs(100_000)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 300])
def test_ranks_of_a_few_samples_are_unranked_in_order(size: int):
    low, high = unranked(np.arange(size * (size - 1) // 2), size)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == list(itertools.combinations(range(size), 2))


def rank_of(low: int, high: int, size: int) -> int:
    return low * (2 * size - low - 1) // 2 + high - low - 1


@given(size=st.integers(2, 1_518_500_249), data=st.data())
def test_unranking_is_exact_up_to_the_largest_tables(size: int, data: st.DataObject):
    low = data.draw(st.integers(0, size - 2))
    for high in {low + 1, size - 1, data.draw(st.integers(low + 1, size - 1))}:
        found = unranked(np.array([rank_of(low, high, size)]), size)
        assert (int(found[0][0]), int(found[1][0])) == (low, high)


def test_unranking_is_exact_at_both_edges_of_rows_near_two_to_the_sixty():
    size = 1_518_500_249  # its pairs number just below 2^60
    lows = np.unique(np.linspace(0, size - 2, 20_000).astype(np.int64))
    for highs in (lows + 1, np.full_like(lows, size - 1)):
        ranks = lows * (2 * size - lows - 1) // 2 + highs - lows - 1
        found = unranked(ranks, size)
        assert np.array_equal(found[0], lows)
        assert np.array_equal(found[1], highs)


def test_given_order_shows_the_earlier_sample_first():
    pairs = some_pairs(50, design="random", count=300)
    assert (pairs.first < pairs.second).all()


def test_alternate_order_swaps_every_second_pair():
    given_order, alternate = listed(some_pairs(6)), listed(some_pairs(6, order="alternate"))
    assert alternate == [pair[::-1] if number % 2 else pair for number, pair in enumerate(given_order)]


def test_random_order_is_a_fair_coin_that_the_seed_decides():
    swapped = {seed: some_pairs(200, seed=seed, order="random").first for seed in (1, 2)}
    earlier_first = {seed: (first == some_pairs(200).first) for seed, first in swapped.items()}
    bound = 4 * 0.5 / math.sqrt(19_900)
    assert all(abs(kept.mean() - 0.5) < bound for kept in earlier_first.values())
    assert abs((earlier_first[1] ^ earlier_first[2]).mean() - 0.5) < bound


def test_the_coin_of_a_pair_does_not_depend_on_which_pairs_were_drawn():
    everything = set(listed(some_pairs(30, seed=4, order="random")))
    assert set(listed(some_pairs(30, design="random", count=200, seed=4, order="random"))) <= everything


@given(n=st.integers(2, 30), seed=st.integers(0, 1000), data=st.data())
def test_balanced_order_shows_each_sample_first_as_often_as_second(n: int, seed: int, data: st.DataObject):
    count = data.draw(st.integers(1, n * (n - 1) // 2))
    balanced = some_pairs(n, design="random", count=count, seed=seed, order="balanced")
    assert imbalance(balanced, n) <= 1
    assert regardless_of_order(balanced) == listed(some_pairs(n, design="random", count=count, seed=seed))


@given(groups=st.lists(st.sampled_from("abc"), min_size=2, max_size=30))
def test_balanced_order_holds_with_groups(groups: list[str]):
    balanced = some_pairs(len(groups), groups=groups, order="balanced")
    assert imbalance(balanced, len(groups)) <= 1
    assert regardless_of_order(balanced) == listed(some_pairs(len(groups), groups=groups))


def test_balanced_order_is_exact_where_every_sample_has_an_even_number_of_pairs():
    assert imbalance(some_pairs(21, order="balanced"), 21) == 0


def test_balanced_order_is_the_same_on_any_machine_and_decided_by_the_seed():
    balanced = listed(some_pairs(6, order="balanced", seed=5))
    assert balanced == [
        (0, 1), (2, 0), (0, 3), (4, 0), (5, 0), (1, 2), (3, 1), (1, 4), (1, 5), (2, 3),
        (4, 2), (2, 5), (3, 4), (5, 3), (4, 5),
    ]  # fmt: skip
    assert any(listed(some_pairs(6, order="balanced", seed=seed)) != balanced for seed in range(4))


@pytest.mark.parametrize(("n_pairs", "share", "expected"), [(190, 1.0, 190), (190, 0.5, 95), (7, 0.5, 4), (0, 0.5, 0)])
def test_the_reverse_run_repeats_its_share_of_the_pairs(n_pairs: int, share: float, expected: int):
    chosen = reverse_subset(n_pairs, share=share, seed=1)
    assert len(chosen) == expected
    assert np.array_equal(chosen, np.unique(chosen))
    assert ((chosen >= 0) & (chosen < n_pairs)).all()


def test_the_reversed_pairs_are_the_same_on_any_machine():
    assert reverse_subset(190, share=0.05, seed=7).tolist() == [5, 23, 28, 43, 46, 85, 141, 149, 167, 178]


def test_a_larger_share_reverses_the_same_pairs_and_more():
    small, large = (set(reverse_subset(1000, share=share, seed=3).tolist()) for share in (0.1, 0.6))
    assert small < large


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, math.nan])
def test_a_share_of_reversed_pairs_outside_its_range_is_refused(share: float):
    with pytest.raises(ConfigError, match="reverse_share is"):
        reverse_subset(10, share=share, seed=0)


def test_ten_thousand_of_twelve_million_pairs_take_milliseconds():
    some_pairs(5000, design="random", count=10, order="random")
    with effort() as spent:
        some_pairs(5000, design="random", count=10_000, order="random")
    assert spent.million_steps < 2


def test_all_pairs_of_five_thousand_samples_take_little_time_and_memory():
    tracemalloc.start()
    with effort() as spent:
        pairs = some_pairs(5000, order="random")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(pairs) == 12_497_500
    assert peak < 150_000_000
    assert spent.million_steps < 75


def test_a_million_pairs_are_balanced_in_a_few_seconds():
    with effort() as spent:
        pairs = some_pairs(5000, design="random", count=1_000_000, order="balanced")
    assert spent.million_steps < 120
    assert imbalance(pairs, 5000) <= 1


def obvious_parts(pairs: Pairs, names: list[str]) -> int:
    """How many sets of names are left once the two of every pair were put together, counting only names in pairs."""
    parts: list[set[str]] = []
    for first, second in listed(pairs):
        both = {names[first], names[second]}
        linked = [part for part in parts if part & both]
        parts = [part for part in parts if not part & both] + [both.union(*linked)]
    return len(parts)


@given(st.integers(2, 12), st.integers(1, 14), st.integers(0, 50), st.integers(1, 12), st.integers(1, 4))
def test_cohesion_agrees_with_putting_pairs_together_one_by_one(n: int, count: int, seed: int, names: int, groups: int):
    where = [f"g{number % groups}" for number in range(n)]
    possible = some_pairs(n, groups=list(where))
    if not len(possible):
        return
    pairs = some_pairs(n, groups=list(where), design="random", count=min(count, len(possible)), seed=seed)
    contestants = [f"c{number % names}" for number in range(n)]
    found = cohesion(pairs, contestants=contestants, groups=list(where))
    named = {end for pair in listed(pairs) for end in pair}
    assert found.parts == obvious_parts(pairs, contestants)
    assert found.least == obvious_parts(possible, contestants)
    assert found.unpaired == n - len(named)
    assert found.unranked == len(set(contestants)) - len({contestants[end] for end in named})
    assert cohesion(possible, contestants=contestants, groups=list(where)).parts == found.least


def test_as_many_pairs_as_are_enough_link_everyone_in_most_draws():
    names = [f"s{number}" for number in range(40)]
    enough = cohesion(some_pairs(40), contestants=names).enough
    draws = [
        cohesion(some_pairs(40, design="random", count=enough, seed=seed), contestants=names) for seed in range(200)
    ]
    assert enough < 40 * 39 / 2 / 4
    assert sum(found.outlook == "whole" for found in draws) >= 180


@pytest.mark.parametrize(
    ("parts", "least", "unranked", "unpaired", "expected"),
    [
        (1, 1, 0, 0, "whole"),
        (1, 1, 0, 3, "some unpaired"),
        (1, 1, 1, 1, "apart"),
        (2, 1, 0, 0, "apart"),
        (3, 3, 0, 0, "by group"),
        (3, 3, 0, 2, "by group"),
        (3, 3, 1, 1, "apart"),
        (4, 3, 0, 0, "apart"),
    ],
)
def test_what_ranking_can_come_of_pairs_is_known_before_they_are_judged(
    parts: int, least: int, unranked: int, unpaired: int, expected: str
) -> None:
    found = Cohesion(
        parts=parts, least=least, unranked=unranked, unpaired=unpaired, contestants=10, possible=45, self_pairs=0
    )
    assert found.outlook == expected
