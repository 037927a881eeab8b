"""The two partition definitions, both filled by sensors: experiments by name, segments by the log.

A cell of a segment asset is a segment of a run. Ranges of segments follow the order in which they were added.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import dagster as dg
import msgspec

experiments = dg.DynamicPartitionsDefinition(name="experiments")
segments = dg.DynamicPartitionsDefinition(name="segments")

_START = "dagster/asset_partition_range_start"
_END = "dagster/asset_partition_range_end"


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring partitions that one Dagster run takes together."""

    keys: tuple[str, ...]

    @property
    def tags(self) -> dict[str, str]:
        """What tells a Dagster run its partitions."""
        return {_START: self.keys[0], _END: self.keys[-1]}


def blocks(order: Sequence[str], wanted: Collection[str], *, longest: int) -> list[Block]:
    """Return the wanted partitions as blocks without a gap in the order, none longer than `longest`, largest first."""
    found: list[list[str]] = [[]]
    for key in order:
        if key in wanted and len(found[-1]) < longest:
            found[-1].append(key)
        elif found[-1]:
            found.append([key] if key in wanted else [])
    made = [Block(keys=tuple(keys)) for keys in found if keys]
    return sorted(made, key=lambda block: -len(block.keys))


def covered(order: Sequence[str], tags: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the partitions that Dagster runs with these tags are at."""
    places = {key: place for place, key in enumerate(order)}
    taken: set[str] = set()
    for each in tags:
        first = each.get(_START) or each.get("dagster/partition")
        last = each.get(_END) or first
        if first in places and last in places:
            taken.update(order[places[first] : places[last] + 1])
    return taken
