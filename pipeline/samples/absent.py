"""Samples that should have been judged and have no text: how many, whose and why; carried beside a table of rows."""

from collections.abc import Iterable

import msgspec
import pyarrow as pa

_KEY = b"pairlog.absent"


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant's texts that are not there: `reasons` say of how many of the `asked` what became."""

    contestant: str
    asked: int
    reasons: dict[str, int]

    @property
    def count(self) -> int:
        """How many texts are not there."""
        return sum(self.reasons.values())

    @property
    def why(self) -> str:
        """The reasons, each with its count."""
        return ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.reasons.items()))

    def __str__(self) -> str:
        return f"{self.contestant} has no text to judge for {self.count:,} of {self.asked:,} samples: {self.why}"


_decoder = msgspec.json.Decoder(tuple[Absent, ...])


def with_absent(rows: pa.Table, absent: Iterable[Absent]) -> pa.Table:
    """Return the rows with what was not there to be judged noted beside their schema."""
    return rows.replace_schema_metadata({**(rows.schema.metadata or {}), _KEY: msgspec.json.encode(tuple(absent))})


def absent_of(rows: pa.Table) -> tuple[Absent, ...]:
    """Return what is noted beside the rows."""
    return _decoder.decode((rows.schema.metadata or {}).get(_KEY, b"[]"))
