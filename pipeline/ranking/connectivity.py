"""Do the comparisons determine every score? Asked before anything is fitted, answered in words."""

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from pipeline.ranking.cells import Cells
from pipeline.wording import and_more, counted

_NAMED = 5
_GAPS = 3
_MOST_PARTS = 300  # above, which part stands next below which takes longer than the answer is worth


class Connectivity(msgspec.Struct, frozen=True, kw_only=True):
    """How comparisons link the contestants.

    `islands` number those who were compared with one another, however indirectly; `ladder` the parts in which everybody
    also beat everybody, likewise; `above` holds the pairs of parts of which the first beat the second, and never lost.
    """

    islands: npt.NDArray[np.int32]
    ladder: npt.NDArray[np.int32]
    above: npt.NDArray[np.int32]

    @property
    def connected(self) -> bool:
        """Whether any two contestants are linked by comparisons."""
        return int(self.islands.max(initial=0)) == 0

    @property
    def determined(self) -> bool:
        """Whether every score has a finite best value."""
        return int(self.ladder.max(initial=0)) == 0

    @property
    def unbounded(self) -> npt.NDArray[np.bool_]:
        """Which contestants lie in a part that only won or only lost against the rest.

        A part that is larger than every other is what the rest is measured by, and does not count as such.
        """
        sizes = np.bincount(self.ladder)
        beat, beaten = (np.bincount(self.above[:, side], minlength=len(sizes)) > 0 for side in (0, 1))
        free = ~(beat & beaten)
        largest = np.flatnonzero(sizes == sizes.max())
        if len(largest) == 1:
            free[largest] = False
        return np.asarray(free[self.ladder])


def examine(cells: Cells) -> Connectivity:
    """Return how the comparisons link contestants; a tie links both ways."""
    beat = cells.score > 0
    lost = cells.score < cells.total
    winners = np.concatenate([cells.low[beat], cells.high[lost]])
    losers = np.concatenate([cells.high[beat], cells.low[lost]])
    shape = (cells.contestants, cells.contestants)
    graph = sparse.csr_array((np.ones(len(winners), dtype=np.int8), (winners, losers)), shape=shape)
    _, islands = csgraph.connected_components(graph, directed=False)
    _, ladder = csgraph.connected_components(graph, directed=True, connection="strong")
    parts = np.stack([ladder[winners], ladder[losers]], axis=1)
    above = np.unique(parts[parts[:, 0] != parts[:, 1]], axis=0)
    return Connectivity(islands=islands, ladder=ladder, above=above)


def disconnected_reason(found: Connectivity, names: Sequence[str], *, is_nested: bool) -> str:
    """Return the sentence for a design that falls apart, and what helps; `is_nested`: nobody stands in two groups."""
    sizes = np.bincount(found.islands)
    small = int(sizes.argmin())
    members = [name for name, island in zip(names, found.islands, strict=True) if island == small]
    helps = (
        "`--per group` ranks each group alone"
        if is_nested
        else "judge more pairs of the same samples as another experiment, and `pairlog rank ONE OTHER` takes both"
    )
    return (
        f"the comparisons fall into {len(sizes)} parts that were never compared with one another "
        f"(one of them: {_named(members)}), so no common ranking exists: {helps}"
    )


def separation_warnings(found: Connectivity, names: Sequence[str]) -> list[str]:
    """Return a sentence for those who only won, one for those who only lost, and one for all other gaps."""
    if found.determined:
        return []
    members = _members(found, names)
    alone = np.bincount(found.ladder) == 1
    beat, beaten = (np.bincount(found.above[:, side], minlength=len(members)) > 0 for side in (0, 1))
    said = []
    for which, verb, end in ((alone & ~beaten, "won", "upper"), (alone & ~beat, "lost", "lower")):
        who = sorted(members[part][0] for part in np.flatnonzero(which))
        if who:
            said.append(f"{_named(who)} {verb} every comparison: the data put no {end} limit on the score")
    free = ~(alone & ~(beat & beaten))
    rest = found.above[free[found.above].all(axis=1)]
    return [*said, _gaps(rest, members)] if len(rest) else said


def _members(found: Connectivity, names: Sequence[str]) -> list[list[str]]:
    """Return who belongs to each part."""
    members: list[list[str]] = [[] for _ in range(int(found.ladder.max(initial=-1)) + 1)]
    for name, part in zip(names, found.ladder.tolist(), strict=True):
        members[part].append(name)
    return members


def _gaps(above: npt.NDArray[np.int32], members: Sequence[Sequence[str]]) -> str:
    """Return the sentence about parts that never lost to others: the highest few by name, the rest by number."""
    parts, places = np.unique(above, return_inverse=True)
    if len(parts) > _MOST_PARTS:
        return f"{len(parts)} sets of contestants never lost to those below them: the data put no limit on the gaps"
    gaps = [(parts[one], parts[other]) for one, other in _next_below(places.reshape(above.shape), len(parts))]
    shown = [f"{_named(members[one])} never lost to {_named(members[other])}" for one, other in gaps[:_GAPS]]
    if len(gaps) > _GAPS:
        shown.append(counted(len(gaps) - _GAPS, "more such gap"))
    return f"{'; '.join(shown)}: the data put no limit on the {'gap' if len(gaps) == 1 else 'gaps'}"


def _next_below(above: npt.NDArray[np.intp], parts: int) -> list[tuple[int, int]]:
    """Return the pairs that no third part stands between, the highest first."""
    direct = np.zeros((parts, parts), dtype=bool)
    direct[above[:, 0], above[:, 1]] = True
    reached = direct
    for _ in range(parts.bit_length()):
        reached = reached | (reached @ reached)
    depth = reached.sum(axis=0)
    near = np.argwhere(direct & ~(reached @ reached)).tolist()
    return sorted(((one, other) for one, other in near), key=lambda gap: (depth[gap[0]], depth[gap[1]], gap))


def _named(names: Sequence[str]) -> str:
    return and_more(names, most=_NAMED)
