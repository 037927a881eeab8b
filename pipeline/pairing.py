"""Which samples are compared, and which of the two the judge sees first.

Pure arithmetic on positions in the samples table. Every eligible pair has a rank (groups one after the other, inside a
group in the order of the table); a seeded permutation of the ranks is a draw without replacement. The same seed
gives the same pairs on any machine, and a larger count only adds pairs at the end (order balanced may turn earlier ones
round). Whether the pairs link everyone, so that they can give a ranking, is seen here too. Texts are not known here.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.domain import Design, Order
from pipeline.errors import ConfigError
from pipeline.permutation import Ranks, coins, key_of, permuted
from pipeline.wording import counted

Positions = NDArray[np.int32]

_BLOCK = 1 << 16  # pairs made at once: the intermediate arrays stay in the processor's cache
_LINKED_AT_ONCE = 1 << 20
_MOST_PAIRS = 1 << 30  # twice as many ends must be countable in 32 bits
_FOR_DRAW, _FOR_COIN, _FOR_REVERSE = 1, 2, 3  # keys of one seed for different uses are unrelated


class Pairs(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Pairs as positions in the samples table, in the order the judge sees them going forward."""

    first: Positions
    second: Positions

    def __len__(self) -> int:
        return len(self.first)


NO_PAIRS = Pairs(first=np.empty(0, np.int32), second=np.empty(0, np.int32))


class _Groups(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The samples, group by group: where each group starts among the members and among the ranks."""

    members: Positions
    sizes: Ranks
    starts: Ranks
    first_ranks: Ranks
    pairs: int


def make_pairs(
    n: int,
    *,
    groups: Sequence[str | None] | None,
    design: Design,
    count: int | None,
    share: float | None,
    seed: int,
    order: Order,
) -> Pairs:
    """Return the pairs of `n` samples; where samples have groups, only pairs inside one group.

    Raises:
        ConfigError: if the design cannot be carried out on these samples.

    """
    if design != "random" and (count is not None or share is not None):
        raise ConfigError(f"pairs: count and share go with design random, not with {design}; leave them out")
    if n < 2:
        return _frozen(np.empty(0, np.int32), np.empty(0, np.int32))
    grouped = _grouped(n, groups, required=design == "groups")
    wanted = _wanted(grouped.pairs, count, share) if design == "random" else grouped.pairs
    if wanted > _MOST_PAIRS:
        raise ConfigError(
            f"pairs: {wanted} pairs of {n} samples are more than {_MOST_PAIRS}; use design random with a count"
        )
    return _built(grouped, wanted, shuffle=design == "random", seed=seed, order=order)


def reverse_subset(n_pairs: int, *, share: float, seed: int) -> Ranks:
    """Return which pairs the reverse run repeats, ascending: `share` of them, rounded to the nearest number."""
    count = round(_exact(share, "reverse_share") * n_pairs)
    if count == n_pairs:
        return np.arange(n_pairs, dtype=np.int64)
    chosen = permuted(np.arange(count, dtype=np.int64), n_pairs, key_of(seed, _FOR_REVERSE))
    return np.sort(chosen)


Outlook = Literal["whole", "some unpaired", "by group", "apart"]


class Cohesion(msgspec.Struct, frozen=True, kw_only=True):
    """How far pairs link those who are to be ranked.

    `parts` are never compared with one another; `least` is how many there were if every possible pair was made: more
    than one where no contestant stands in two groups. `unpaired` samples and `unranked` contestants are in no pair;
    `self_pairs` compare two samples of one contestant.
    """

    parts: int
    least: int
    unpaired: int
    unranked: int
    contestants: int
    possible: int
    self_pairs: int

    @property
    def outlook(self) -> Outlook:
        """What ranking can come of the pairs.

        One of all; one of all, though samples of some contestants meet nobody; one of each group alone; none of all,
        where further pairs would link more.
        """
        if self.parts > self.least or self.unranked:
            return "apart"
        if self.least > 1:
            return "by group"
        return "some unpaired" if self.unpaired else "whole"

    @property
    def enough(self) -> int:
        """How many random pairs link everyone in nineteen draws of twenty (Erdős and Rényi, 1959)."""
        size = max(self.contestants, 2)
        return min(math.ceil(size / 2 * (math.log(size) + 3)), self.possible)


def cohesion(pairs: Pairs, *, contestants: Sequence[str], groups: Sequence[str | None] | None = None) -> Cohesion:
    """Return how far the pairs link the contestants; one name and one group for each sample."""
    grouped = _grouped(len(contestants), groups, required=False)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(contestants))}
    codes = np.fromiter((numbers[name] for name in contestants), np.int32, len(contestants))
    paired = np.zeros(len(codes), np.bool_)
    paired[pairs.first] = paired[pairs.second] = True
    leaders = np.repeat(grouped.members[grouped.starts], grouped.sizes)
    pairable = np.zeros(len(codes), np.bool_)
    pairable[grouped.members] = np.repeat(grouped.sizes > 1, grouped.sizes)
    possible = _labels(codes, Pairs(first=leaders, second=grouped.members), len(numbers))
    actual = _labels(codes, pairs, len(numbers))
    return Cohesion(
        parts=len(np.unique(actual[codes[paired]])),
        least=len(np.unique(possible[codes[pairable]])),
        unpaired=int((~paired).sum()),
        unranked=len(numbers) - len(np.unique(codes[paired])),
        contestants=len(numbers),
        possible=grouped.pairs,
        self_pairs=int(np.count_nonzero(codes[pairs.first] == codes[pairs.second])),
    )


def _labels(codes: Positions, pairs: Pairs, size: int) -> Positions:
    """Return for each contestant the number of the part it is in; some pairs at a time, for there may be very many."""
    from scipy import sparse  # noqa: PLC0415 - slow to import, and most commands make no pairs
    from scipy.sparse import csgraph  # noqa: PLC0415 - as above

    labels = np.arange(size, dtype=np.int32)
    for begin in range(0, len(pairs), _LINKED_AT_ONCE):
        ends = [labels[codes[side[begin : begin + _LINKED_AT_ONCE]]] for side in (pairs.first, pairs.second)]
        graph = sparse.coo_array((np.ones(len(ends[0]), np.int8), (ends[0], ends[1])), shape=(size, size))
        count, merged = csgraph.connected_components(graph, directed=False)
        labels = merged[labels]
        if count == 1:
            break
    return labels


def unranked(ranks: Ranks, sizes: Ranks | int) -> tuple[Ranks, Ranks]:
    """Return the members `i < j` of the pairs with these ranks: (0, 1), (0, 2) … (1, 2) … among `sizes` members."""
    back = sizes * (sizes - 1) // 2 - 1 - ranks
    high = ((1.0 + np.sqrt(8.0 * back + 1.0)) / 2.0).astype(np.int64)
    # Below 2^60 the root of a square comes out whole; one just below a whole number may be rounded up to it.
    high -= high * (high - 1) // 2 > back
    low = back - high * (high - 1) // 2
    return sizes - 1 - high, sizes - 1 - low


def _grouped(n: int, groups: Sequence[str | None] | None, *, required: bool) -> _Groups:
    names = [None] * n if groups is None else list(groups)
    assert len(names) == n, "every sample has a group or None"
    without = names.count(None)
    if without == n and required:
        raise ConfigError("pairs.design is groups, but no sample has a group; add the column group, or use design all")
    if 0 < without < n:
        raise ConfigError(
            f"samples: {without} of {n} have no group (the first is number {names.index(None) + 1}) while others "
            "have one; give every sample a group, or none"
        )
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    codes = np.fromiter((numbers[name] for name in names), np.int32, n)
    sizes = np.bincount(codes).astype(np.int64)
    pairs = sizes * (sizes - 1) // 2
    return _Groups(
        members=np.argsort(codes, kind="stable").astype(np.int32),
        sizes=sizes,
        starts=np.cumsum(sizes) - sizes,
        first_ranks=np.cumsum(pairs) - pairs,
        pairs=int(pairs.sum()),
    )


def _wanted(existing: int, count: int | None, share: float | None) -> int:
    if (count is None) == (share is None):
        raise ConfigError("pairs.design is random, which needs either count or share; give one of them")
    if share is not None:
        return min(existing, max(1, math.floor(_exact(share, "pairs.share") * existing)))
    assert count is not None
    if count < 1:
        raise ConfigError(f"pairs.count is {count}; it must be at least 1")
    if count > existing:
        exist = "exists" if existing == 1 else "exist"
        raise ConfigError(
            f"pairs.count is {count}, but only {counted(existing, 'pair')} {exist}; lower it, or use design all"
        )
    return count


def _exact(share: float, field: str) -> Fraction:
    """Return the share as it was written, so that 0.29 of 100 is 29."""
    if not 0 < share <= 1:
        raise ConfigError(f"{field} is {share}; it must be above 0 and at most 1")
    return Fraction(str(share))


def _built(grouped: _Groups, wanted: int, *, shuffle: bool, seed: int, order: Order) -> Pairs:
    first, second = np.empty(wanted, np.int32), np.empty(wanted, np.int32)
    swapped = _swaps(order, seed)
    for begin in range(0, wanted, _BLOCK):
        ranks = np.arange(begin, min(begin + _BLOCK, wanted), dtype=np.int64)
        numbers = ranks
        if shuffle:
            ranks = permuted(numbers, grouped.pairs, key_of(seed, _FOR_DRAW))
        one, other = _members(grouped, ranks)
        swap = swapped(numbers, ranks)
        first[begin : begin + len(ranks)] = np.where(swap, other, one)
        second[begin : begin + len(ranks)] = np.where(swap, one, other)
    if order == "balanced":
        _balance(first, second)
    return _frozen(first, second)


def _frozen(first: Positions, second: Positions) -> Pairs:
    first.setflags(write=False)
    second.setflags(write=False)
    return Pairs(first=first, second=second)


def _members(grouped: _Groups, ranks: Ranks) -> tuple[Positions, Positions]:
    if len(grouped.sizes) == 1:
        low, high = unranked(ranks, int(grouped.sizes[0]))
        return grouped.members[low], grouped.members[high]
    group = np.searchsorted(grouped.first_ranks, ranks, side="right") - 1
    low, high = unranked(ranks - grouped.first_ranks[group], grouped.sizes[group])
    return grouped.members[grouped.starts[group] + low], grouped.members[grouped.starts[group] + high]


def _swaps(order: Order, seed: int) -> Callable[[Ranks, Ranks], NDArray[np.bool_]]:
    """Return what tells, from the pairs' numbers and ranks, which of them show the later sample first."""
    coin_key = key_of(seed, _FOR_COIN)
    match order:
        case "random" | "balanced":
            return lambda _, ranks: coins(ranks, coin_key)
        case "alternate":
            return lambda numbers, _: numbers % 2 == 1
        case "given":
            return lambda numbers, _: np.zeros(len(numbers), np.bool_)


def _balance(first: Positions, second: Positions) -> None:
    """Swap pairs in place until each sample is first as often as second, give or take one.

    The pairs of a sample are linked two by two, in their order; what is linked forms trails. A trail that is followed
    in one direction enters and leaves each sample equally often; only the one unlinked pair of a sample is left over.
    The first pair of a trail stays as it is and decides the direction.
    """
    swap = np.zeros(len(first), np.uint8)
    _follow_trails(_links(first, second).data, swap.data)
    chosen = np.flatnonzero(swap)
    first[chosen], second[chosen] = second[chosen], first[chosen]


def _links(first: Positions, second: Positions) -> Positions:
    """Return for each end of a pair (2k is the first of pair k, 2k + 1 the second) the end it is linked to, or -1.

    A loop over buffers: it is faster than sorting the ends, and takes a third of the memory.
    """
    links = np.full(2 * len(first), -1, np.int32)
    linked = links.data
    waiting = [-1] * (1 + int(max(first.max(initial=-1), second.max(initial=-1))))
    for pair, samples in enumerate(zip(first.data, second.data, strict=True)):
        for end, sample in enumerate(samples, 2 * pair):
            other = waiting[sample]
            waiting[sample] = end if other < 0 else -1
            if other >= 0:
                linked[end], linked[other] = other, end
    return links


def _follow_trails(links: "memoryview[int]", swap: "memoryview[int]") -> None:
    """Set `swap` where a trail runs through a pair from its second end to its first."""
    done = bytearray(len(swap))
    for pair in range(len(swap)):
        if done[pair]:
            continue
        done[pair] = 1
        for begin in (2 * pair, 2 * pair + 1):
            end = links[begin ^ 1]
            while end >= 0 and not done[end >> 1]:
                done[end >> 1], swap[end >> 1] = 1, (end ^ begin) & 1
                end = links[end ^ 1]
