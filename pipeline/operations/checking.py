"""What is claimed of published rows, segment by segment: that they agree with the log, and that enough can be used."""

from collections.abc import Iterable, Sequence

import msgspec

from pipeline.domain import STATUSES, Checks, Counts
from pipeline.ids import SegmentId
from pipeline.operations.by_segment import Chosen, all_segments, rows_of, schemas_of
from pipeline.operations.run import Run
from pipeline.operations.worker import Worker
from pipeline.segments import SegmentState
from pipeline.tasks import task_named


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows of one segment are like, without the rows; `distinct` are their requests."""

    segment: SegmentState
    checks: Checks
    statuses: dict[str, int]
    distinct: int
    is_typed: bool

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self.statuses.values())

    @property
    def is_conserved(self) -> bool:
        """Whether every request has ended and the rows agree with the log status by status."""
        counts = self.segment.counts
        counted = {status: getattr(counts, status) for status in STATUSES if getattr(counts, status)}
        return self.statuses == counted and not counts.open and counts.planned == self.segment.requests

    @property
    def is_doubled(self) -> bool:
        """Whether a request has more than one row."""
        return self.distinct != self.rows


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A share `of` so many requests, held against the strictest threshold of the experiments that they are of.

    A share of none is none, and nothing is held against it.
    """

    of: int
    rate: float | None
    threshold: float
    passed: bool


def finished_segments(worker: Worker) -> list[SegmentId]:
    """Return the names of all segments in the store that have reached their end."""
    every = (each for name in worker.experiment_names() for each in all_segments(worker, name))
    return [each.segment_id for each in every if each.is_finished]


def look_at(chosen: Iterable[Chosen]) -> list[Seen]:
    """Read the rows of the segments once, and return what they are like."""
    return [_seen(some.run, each) for some in chosen for each in some.segments()]


def _seen(run: Run, each: SegmentState) -> Seen:
    rows = rows_of(run, each, columns=["status", "request_id"])
    counted = rows.column("status").value_counts().to_pylist()
    schema = task_named(run.config.task).SCHEMA
    return Seen(
        segment=each,
        checks=run.newest.checks,
        statuses={row["values"]: row["counts"] for row in counted},
        distinct=len(rows.column("request_id").unique()),
        is_typed=all(found == schema for found in schemas_of(run, each)),
    )


def total(found: Iterable[Seen]) -> Counts:
    """Return how the requests of all these segments ended."""
    return sum((each.segment.counts for each in found), Counts())


def parse_rate(found: Sequence[Seen]) -> Rate:
    """Return how many of the answers could be read."""
    counts = total(found)
    answers = counts.ok + counts.unparsed
    rate = counts.ok / answers if answers else None
    least = max((each.checks.parse_rate for each in found), default=0.0)
    return Rate(of=answers, rate=rate, threshold=least, passed=rate is None or rate >= least)


def refusal_rate(found: Sequence[Seen]) -> Rate:
    """Return how many of the requests that have ended were refused."""
    counts = total(found)
    rate = counts.refused / counts.ended if counts.ended else None
    most = min((each.checks.refusal_rate for each in found), default=1.0)
    return Rate(of=counts.ended, rate=rate, threshold=most, passed=rate is None or rate <= most)
