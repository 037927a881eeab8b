"""The state of a run: what is known about it and its batches after the commits of its log (`folding`)."""

from collections import Counter
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from datetime import datetime
from functools import cached_property
from typing import Literal, Protocol

import msgspec
from msgspec.structs import asdict, replace

from pipeline.domain import Counts
from pipeline.events import End, Fault, InputStored, LineFault, RawPart, RowsPublished, RunPlanned, Segment, TurnPlanned
from pipeline.ids import BatchId, Digest, RunId

Phase = Literal[
    "planned", "prepared", "submitting", "uncertain", "submitted", "running", "ended", "stored", "published",
    "refused", "voided", "cancelled", "held",
]  # fmt: skip

NOT_SENT: frozenset[Phase] = frozenset({"planned", "prepared", "voided", "refused"})
AT_PROVIDER: frozenset[Phase] = frozenset({"submitted", "running"})
UNSETTLED: frozenset[Phase] = frozenset({"submitting", "uncertain", "held"})


class BatchDraft(msgspec.Struct, kw_only=True, gc=False):
    """What is known about one batch, for a fold that is at work on it.

    `place` says how many batches of the run were planned before it.
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
    place: int = 0
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
    parts: tuple[RawPart, ...] = ()
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

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do about it: its rows are durable and no input of it lies at the provider."""
        return self.phase == "published" and (self.cleaned or not (self.file_id or self.other_files))

    def finished(self) -> "BatchState":
        """Return this very batch as a value: from now on nobody can change it.

        It is not copied: to copy forty fields of 10,000 batches takes almost half as long as all of their fold.
        """
        self.__class__ = BatchState
        return self  # type: ignore[return-value]  # now it is one


class BatchState(BatchDraft, frozen=True, kw_only=True, gc=False):  # type: ignore[misc]  # what differs is who may set it
    """What is known about one batch."""

    def draft(self) -> BatchDraft:
        """Return a copy that can be changed."""
        return BatchDraft(**asdict(self))


class Pack(Protocol):
    """Batches that are done and packed away: what can be said without unpacking them, and themselves."""

    @property
    def names(self) -> frozenset[BatchId]:
        """What they are called."""
        ...

    @property
    def counts(self) -> Counts:
        """How their requests ended."""
        ...

    @property
    def ended(self) -> Mapping[int, int]:
        """How many requests of each segment that they are of ended in them."""
        ...

    @property
    def batches(self) -> Mapping[BatchId, BatchState]:
        """The batches; they are unpacked when somebody looks at them first."""
        ...


class Batches(Mapping[BatchId, BatchState]):
    """The batches of a run in the order of planning.

    Something may be left to do about those that are `active`; those that are `done` change only if the provider turns
    out to have more of them. Some of these are packed away: to look at one is to unpack them all.
    """

    def __init__(
        self,
        active: Mapping[BatchId, BatchState] | None = None,
        done: Mapping[BatchId, BatchState] | None = None,
        packs: tuple[Pack, ...] = (),
    ) -> None:
        self.active = active or {}
        self.done = done or {}
        self.packs = packs

    @cached_property
    def _all(self) -> dict[BatchId, BatchState]:
        found = {**self.done, **self.active}
        for pack in self.packs:
            found.update(pack.batches)
        return _in_order(found)

    def __getitem__(self, batch_id: BatchId) -> BatchState:
        return self.active.get(batch_id) or self.done.get(batch_id) or self._all[batch_id]

    def __contains__(self, batch_id: object) -> bool:
        return batch_id in self.active or self._is_done(batch_id)

    def _is_done(self, batch_id: object) -> bool:
        return batch_id in self.done or any(batch_id in pack.names for pack in self.packs)

    def __iter__(self) -> Iterator[BatchId]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self.active) + len(self.done) + sum(len(pack.names) for pack in self.packs)

    def values(self) -> ValuesView[BatchState]:
        """Return the batches themselves."""
        return self._all.values()

    def items(self) -> ItemsView[BatchId, BatchState]:
        """Return the batches with their names."""
        return self._all.items()

    @cached_property
    def counts(self) -> Counts:
        """How the requests of all of them ended."""
        looked_at = (batch.counts for some in (self.active, self.done) for batch in some.values())
        return Counts.sum_of([*looked_at, *(pack.counts for pack in self.packs)])

    def ended(self) -> Counter[int]:
        """Return how many requests ended in published batches, for each segment that some batch is of."""
        found = Counter[int]()
        for pack in self.packs:
            found.update(pack.ended)
        for batch in (*self.done.values(), *self.active.values()):
            found[batch.segment] += batch.counts.ended if batch.phase == "published" else 0
        return found

    def changed(self, batches: Mapping[BatchId, BatchState]) -> "Batches":
        """Return all of them, with these as they are now."""
        if (self.done or self.packs) and any(map(self._is_done, batches)):
            return Batches().changed(_in_order({**self._all, **batches}))
        active, done = dict(self.active), {}
        for batch_id, batch in batches.items():
            if batch.is_done:
                done[batch_id] = batch
                active.pop(batch_id, None)
            else:
                active[batch_id] = batch
        return Batches(active, {**self.done, **done} if done else self.done, self.packs)


def _in_order(batches: dict[BatchId, BatchState]) -> dict[BatchId, BatchState]:
    return dict(sorted(batches.items(), key=lambda item: item[1].place))


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one run after its commits so far.

    `version` is the frozen version of the experiment whose settings the run follows where they shape no request,
    `version_at` when the log named it.
    """

    run_id: RunId
    plan: RunPlanned | None = None
    version: Digest | None = None
    version_at: datetime | None = None
    turns: tuple[TurnPlanned, ...] = ()
    batches: Batches = Batches()
    commits: int = 0
    epoch: int = 0
    stale: int = 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Every segment of the run by its number: those of its plan, then those that went on from them."""
        planned = self.plan.segments if self.plan else ()
        return sum((turn.segments for turn in self.turns), planned)

    @property
    def counts(self) -> Counts:
        """How the run's requests ended."""
        return replace(self.batches.counts, planned=self.plan.requests if self.plan else 0)


def counts_of(state: RunState, requests: int) -> Counts:
    """Return how the requests of a run ended; those of one that nobody has opened yet are planned and open."""
    return state.counts if state.plan is not None else Counts(planned=requests)
