"""Do the comparisons determine every score? Asked before anything is fitted, answered in words."""

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from pipeline.ranking.cells import Cells

_NAMED = 5


class Connectivity(msgspec.Struct, frozen=True, kw_only=True):
    """How contestants hang together.

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
    """Return how the comparisons hang together; a tie links both ways."""
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


def disconnected_reason(found: Connectivity, names: Sequence[str]) -> str:
    """Return the sentence for a design that falls apart."""
    sizes = np.bincount(found.islands)
    small = int(sizes.argmin())
    members = [name for name, island in zip(names, found.islands, strict=True) if island == small]
    return (
        f"the comparisons fall into {len(sizes)} parts that were never compared with one another "
        f"(one of them: {listed(members)}), so no common ranking exists: rank each part alone or add pairs between them"
    )


def separation_warnings(cells: Cells, found: Connectivity, names: Sequence[str]) -> list[str]:
    """Return a sentence for those who only won, those who only lost, and any other part that was never beaten back."""
    wins = np.bincount(cells.low, cells.score, len(names)) + np.bincount(
        cells.high, cells.total - cells.score, len(names)
    )
    losses = np.bincount(cells.low, cells.total - cells.score, len(names)) + np.bincount(
        cells.high, cells.score, len(names)
    )
    only_won = [name for name, lost in zip(names, losses, strict=True) if lost == 0]
    only_lost = [name for name, won in zip(names, wins, strict=True) if won == 0]
    said = []
    if only_won:
        said.append(f"{listed(only_won)} won every comparison: the data set no upper limit to the score")
    if only_lost:
        said.append(f"{listed(only_lost)} lost every comparison: the data set no lower limit to the score")
    if not said and not found.determined:
        outside = [name for name, free in zip(names, found.unbounded, strict=True) if free]
        said.append(f"{listed(outside)} won or lost every comparison with the others: the data set no limit to the gap")
    return said


def listed(names: Sequence[str]) -> str:
    """Return the names in a row, the first few if they are many."""
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
