import math

import numpy as np
import pytest

from pipeline.permutation import coins, key_of, mixed, permuted

WORD = (1 << 64) - 1


def slowly_mixed(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


def slowly_permuted(position: int, size: int, keys: list[int]) -> int:
    rows = math.isqrt(size - 1) + 1
    columns = -(-size // rows)
    while True:
        left, right = divmod(position, columns)
        for number, key in enumerate(keys):
            if number % 2 == 0:
                left = (left + ((slowly_mixed((right + key) & WORD) >> 32) * rows >> 32)) % rows
            else:
                right = (right + ((slowly_mixed((left + key) & WORD) >> 32) * columns >> 32)) % columns
        position = left * columns + right
        if position < size:
            return position


def chi_square_per_degree(counts: np.ndarray) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum() / (counts.size - 1))


def test_the_mixer_is_the_published_one():
    # the first outputs of splitmix64 seeded with 0 and with 1234567
    golden = 0x9E3779B97F4A7C15
    first = mixed(np.array([golden, (1234567 + golden) & WORD], np.uint64))
    assert first.tolist() == [0xE220A8397B1DCDAF, 6457827717110365317]


def test_keys_are_the_same_on_any_machine():
    assert [key_of(0, 0), key_of(0, 1), key_of(123, 1)] == [
        16294208416658607535,
        7960286522194355700,
        12250962086384596667,
    ]


def test_any_whole_number_is_a_seed():
    assert key_of(-1, 3) == key_of(2**64 - 1, 3) == 527077646590785223


@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_every_position_is_hit_exactly_once(seed: int):
    for size in [*range(1, 301), 4095, 4096, 4097, 65_537]:
        assert np.array_equal(np.sort(permuted(np.arange(size), size, key_of(seed, 1))), np.arange(size)), size


@pytest.mark.parametrize(("size", "rounds"), [(3, 16), (190, 16), (4096, 16), (4097, 4), (12_497_500, 4), (2**60, 4)])
def test_the_fast_permutation_agrees_with_the_slow_one(size: int, rounds: int):
    keys = [key_of(77, number) for number in range(rounds)]
    positions = np.unique(np.linspace(0, size - 1, 50).astype(np.int64).clip(0, size - 1))
    expected = [slowly_permuted(position, size, keys) for position in positions.tolist()]
    assert permuted(positions, size, 77).tolist() == expected


def test_the_permutation_of_a_huge_range_is_the_same_on_any_machine():
    assert permuted(np.arange(3), 2**60, key_of(9, 1)).tolist() == [
        130703147507728548,
        1058741219513048430,
        793987324573273195,
    ]


def test_any_part_of_a_draw_can_be_made_alone():
    whole = permuted(np.arange(5000), 12_497_500, 5)
    assert np.array_equal(permuted(np.arange(1200, 1300), 12_497_500, 5), whole[1200:1300])


@pytest.mark.parametrize("size", [2, 5, 20])
def test_the_first_two_drawn_of_a_few_are_uniform_over_the_seeds(size: int):
    counts = np.zeros((size, size))
    for seed in range(3500):
        one, other = permuted(np.arange(2), size, key_of(seed, 1))
        counts[one, other] += 1
    assert not counts.diagonal().any()
    freedom = size * (size - 1) - 1
    assert chi_square_per_degree(counts[~np.eye(size, dtype=bool)]) < 1 + 4 * math.sqrt(2 / freedom)


@pytest.mark.parametrize("seed", [0, 1, 123])
def test_a_draw_from_many_is_spread_evenly_and_without_order(seed: int):
    size, cells = 12_497_500, 500
    drawn = permuted(np.arange(100_000), size, key_of(seed, 1))
    bound = 1 + 4 * math.sqrt(2 / (cells - 1))
    assert chi_square_per_degree(np.bincount(drawn * cells // size, minlength=cells)) < bound
    steps = (drawn[1:] - drawn[:-1]) % size
    assert chi_square_per_degree(np.bincount(steps * cells // size, minlength=cells)) < bound


def test_coins_are_fair_and_do_not_follow_their_neighbours():
    thrown = coins(np.arange(100_000), key_of(4, 2))
    assert abs(thrown.mean() - 0.5) < 4 * 0.5 / math.sqrt(100_000)
    assert abs((thrown[1:] ^ thrown[:-1]).mean() - 0.5) < 4 * 0.5 / math.sqrt(100_000)


def test_coins_are_the_same_on_any_machine():
    expected = [0, 1, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 0, 0, 1]
    assert coins(np.arange(16), key_of(0, 2)).astype(int).tolist() == expected
