"""The state of a run: what is known about it and its batches after the commits of its log (`folding`)."""

from datetime import datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from pipeline.domain import Counts
from pipeline.events import End, Fault, InputStored, LineFault, Part, RowsPublished, RunPlanned, Segment, TurnPlanned
from pipeline.ids import BatchId, RunId

Phase = Literal[
    "planned", "prepared", "submitting", "uncertain", "submitted", "running", "ended", "stored", "published",
    "refused", "voided", "cancelled", "held",
]  # fmt: skip

NOT_SENT: frozenset[Phase] = frozenset({"planned", "prepared", "voided", "refused"})
AT_PROVIDER: frozenset[Phase] = frozenset({"submitted", "running"})
UNSETTLED: frozenset[Phase] = frozenset({"submitting", "uncertain", "held"})


class BatchState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known about one batch.

    `since` says from when on it is uncertain, ended, voided or called as it is, by the clock of each machine that said
    so. `other_files` were uploaded for earlier attempts, or by writers that had been replaced meanwhile. `voided` are
    the keys of attempts that were given up, `superseded` the provider's ids of batches that turned up for such attempts
    after all, `spent` those of batches of ours that ended without answers. `awaits_files`: the provider calls it over
    and does not show its files yet. `unsent` is why the author of the last attempt did not ask for it, None if it did.
    """

    batch_id: BatchId
    segment: int
    send: int
    requests: int
    after: BatchId | None
    phase: Phase = "planned"
    input: InputStored | None = None
    attempt: int = 0
    batch_key: str | None = None
    writer: str | None = None
    opened_at: datetime | None = None
    first_opened_at: datetime | None = None
    uncertain_at: datetime | None = None
    file_id: str | None = None
    remote_id: str | None = None
    remote_status: str | None = None
    status_at: datetime | None = None
    awaits_files: bool = False
    submitted_at: datetime | None = None
    end: End | None = None
    ended_at: datetime | None = None
    remote_parts: dict[str, str] = {}
    remote_lines: dict[str, int] = {}
    proven: bool = True
    faults: tuple[LineFault, ...] = ()
    fault: Fault | None = None
    code: str | None = None
    needs_person: bool = False
    unsent: str | None = None
    not_before: datetime | None = None
    parts: tuple[Part, ...] = ()
    cancel_asked: bool = False
    counts: Counts = Counts()
    again: int = 0
    rows: RowsPublished | None = None
    note: str | None = None
    account: str | None = None
    other_files: tuple[str, ...] = ()
    voided: dict[int, str] = {}
    voided_at: datetime | None = None
    superseded: tuple[str, ...] = ()
    spent: tuple[str, ...] = ()
    since: dict[str, float] = {}
    cleaned: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """Every input that was ever uploaded for the batch, as far as it was told of."""
        return (*self.other_files, self.file_id) if self.file_id else self.other_files

    @property
    def rows_key(self) -> str | None:
        """Where the rows of the batch can be read, None while there are none."""
        return self.rows.key if self.rows is not None else None


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one run after its commits so far."""

    run_id: RunId
    plan: RunPlanned | None = None
    turns: tuple[TurnPlanned, ...] = ()
    batches: dict[BatchId, BatchState] = {}
    commits: int = 0
    epoch: int = 0
    stale: int = 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Every slice of the run by its number: those of its plan, then those that went on from them."""
        planned = self.plan.segments if self.plan else ()
        return sum((turn.segments for turn in self.turns), planned)

    @property
    def counts(self) -> Counts:
        """How the run's requests ended."""
        ended = Counts.sum_of([batch.counts for batch in self.batches.values()])
        return replace(ended, planned=self.plan.requests if self.plan else 0)


def counts_of(state: RunState, requests: int) -> Counts:
    """Return how the requests of a run ended; those of one that nobody has opened yet are planned and open."""
    return state.counts if state.plan is not None else Counts(planned=requests)
