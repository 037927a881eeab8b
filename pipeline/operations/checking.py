"""What is claimed of published rows: that they agree with the log, segment by segment, and that enough can be used."""

from collections.abc import Collection, Iterable

import msgspec

from pipeline.domain import STATUSES, Counts
from pipeline.ids import ExperimentName, SegmentId
from pipeline.operations.by_segment import Chosen, all_segments, rows_of, schemas_of
from pipeline.operations.workers.failures import apart
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.segments import SegmentState
from pipeline.tasks import task_named


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows of one segment are like, without the rows; `distinct` are their requests."""

    segment: SegmentState
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


class CheckedShare(msgspec.Struct, frozen=True, kw_only=True):
    """A share `of` so many requests of an experiment, held against the strictest threshold of its runs.

    A share of none is none, and nothing is held against it.
    """

    experiment: ExperimentName
    of: int
    rate: float | None
    threshold: float
    passed: bool


def finished_segments(worker: Worker) -> list[SegmentId]:
    """Return the names of all segments in the store that have reached their end."""
    every = (each for name in worker.experiment_names() for each in all_segments(worker, name))
    return [each.segment_id for each in every if each.is_finished]


def still_finished(worker: Worker, wanted: Collection[SegmentId]) -> list[SegmentId]:
    """Return those of the segments that are in the store and have reached their end."""
    names = [name for name in worker.experiment_names() if any(each.startswith(f"{name}--") for each in wanted)]
    every = (each for name in names for each in all_segments(worker, name))
    return [each.segment_id for each in every if each.segment_id in wanted and each.is_finished]


def look_at(chosen: Iterable[Chosen]) -> list[Seen]:
    """Read the rows of the segments once, and return what they are like."""
    return [_seen(some.run, each) for some in chosen for each in some.segments()]


def _seen(run: Run, each: SegmentState) -> Seen:
    rows = rows_of(run, each, columns=["status", "request_id"])
    counted = rows.column("status").value_counts().to_pylist()
    schema = task_named(run.config.task).SCHEMA
    return Seen(
        segment=each,
        statuses={row["values"]: row["counts"] for row in counted},
        distinct=len(rows.column("request_id").unique()),
        is_typed=all(found == schema for found in schemas_of(run, each)),
    )


def total(found: Iterable[Seen]) -> Counts:
    """Return how the requests of all these segments ended."""
    return sum((each.segment.counts for each in found), Counts())


def parse_rate(worker: Worker, name: ExperimentName) -> CheckedShare:
    """Return how many of the experiment's answers so far could be read."""
    runs = _opened(worker, name)
    counts = sum((run.state.counts for run in runs), Counts())
    answers = counts.ok + counts.unparsed
    rate = counts.ok / answers if answers else None
    least = max((run.newest.checks.parse_rate for run in runs), default=0.0)
    return CheckedShare(experiment=name, of=answers, rate=rate, threshold=least, passed=rate is None or rate >= least)


def refusal_rate(worker: Worker, name: ExperimentName) -> CheckedShare:
    """Return how many of the experiment's requests that have ended were refused; what a person cancelled is none."""
    runs = _opened(worker, name)
    counts = sum((run.state.counts for run in runs), Counts())
    asked = counts.ended - counts.cancelled
    rate = counts.refused / asked if asked else None
    most = min((run.newest.checks.refusal_rate for run in runs), default=1.0)
    return CheckedShare(experiment=name, of=asked, rate=rate, threshold=most, passed=rate is None or rate <= most)


def _opened(worker: Worker, name: ExperimentName) -> list[Run]:
    """Return the runs of the experiment that are planned, as far as their logs can be read."""
    runs = worker.runs(name)
    for run in runs:
        with apart(run):
            run.refresh()
    return [run for run in runs if run.state.plan is not None]
