"""The batches of a run: in the order of planning, and what is done stays packed until somebody looks at it."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

from pipeline import planning
from pipeline.domain import Counts
from pipeline.events import (
    AnyEvent,
    BatchPlanned,
    Commit,
    FileUploaded,
    RemoteCleaned,
    RowsPublished,
    RunPlanned,
    Segment,
)
from pipeline.folding import fold
from pipeline.ids import BatchId, Digest, ExperimentName, RunId, batch_id
from pipeline.state import Batches, BatchState, RunState

RUN = RunId("e--t--p--m--r--forward")
NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
NAMES = [batch_id(number, 1) for number in range(4)]
PLAN = RunPlanned(
    experiment=ExperimentName("e"), experiment_digest=Digest("d"), run_digest=Digest("r"), requests=12, attempts=3,
    segments=tuple(Segment(start=3 * number, requests=3, bytes=9) for number in range(4)),
)  # fmt: skip
PLANNED = [BatchPlanned(batch_id=name, segment=number, send=1, requests=3) for number, name in enumerate(NAMES)]


def published(name: BatchId) -> RowsPublished:
    return RowsPublished(batch_id=name, key="k", digest=Digest("d"), counts=Counts(planned=3, ok=3))


def after(state: RunState, *events: AnyEvent) -> RunState:
    commit = Commit(commit_id="c", run_id=RUN, seq=state.commits, writer="w", at=NOW, prev=None, events=events)
    return fold(state, [commit])


class APack(msgspec.Struct, frozen=True):
    """Batches that are packed away, and how often somebody looked at them."""

    inside: Mapping[BatchId, BatchState]
    looks: list[int]

    @property
    def names(self) -> frozenset[BatchId]:
        return frozenset(self.inside)

    @property
    def counts(self) -> Counts:
        return Batches(done=self.inside).counts

    @property
    def ended(self) -> Mapping[int, int]:
        return Batches(done=self.inside).ended()

    @property
    def batches(self) -> Mapping[BatchId, BatchState]:
        self.looks.append(1)
        return self.inside


@pytest.fixture
def whole() -> RunState:
    """A run of four batches of which the first and the third are done."""
    return after(RunState(run_id=RUN), PLAN, *PLANNED, published(NAMES[0]), published(NAMES[2]))


@pytest.fixture
def pack(whole: RunState) -> APack:
    return APack(whole.batches.done, [])


@pytest.fixture
def packed(whole: RunState, pack: APack) -> RunState:
    """The same run, as a checkpoint gives it."""
    return replace(whole, batches=Batches(whole.batches.active, packs=(pack,)))


def test_what_is_done_is_known_apart_from_what_is_active(whole: RunState) -> None:
    assert list(whole.batches.done) == [NAMES[0], NAMES[2]]
    assert list(whole.batches.active) == [NAMES[1], NAMES[3]]
    assert list(whole.batches) == NAMES


def test_a_batch_whose_input_lies_at_the_provider_is_not_done() -> None:
    uploaded = FileUploaded(batch_id=NAMES[0], attempt=1, file_id="f")
    state = after(RunState(run_id=RUN), PLANNED[0], uploaded, published(NAMES[0]))
    assert list(state.batches.active) == NAMES[:1]
    assert list(after(state, RemoteCleaned(batch_id=NAMES[0])).batches.done) == NAMES[:1]


def test_what_a_round_asks_leaves_packed_what_is_packed(whole: RunState, packed: RunState, pack: APack) -> None:
    for state in (whole, packed):
        assert (state.counts, len(state.batches)) == (Counts(planned=12, ok=6), 4)
        assert [batch.batch_id for batch in planning.due(state, NOW).prepare] == [NAMES[1], NAMES[3]]
        assert (planning.is_complete(state), planning.moves_by_itself(state)) == (False, True)
        assert (planning.unasked(state), planning.unfollowed(state), planning.to_clean(state)) == ([], [], [])
        assert (NAMES[0] in state.batches, NAMES[1] in state.batches, "s009-1" in state.batches) == (True, True, False)
    assert pack.looks == []


def test_what_goes_on_leaves_packed_what_is_packed(whole: RunState, packed: RunState, pack: APack) -> None:
    events = (PLANNED[0], published(NAMES[3]), replace(PLANNED[3], batch_id=batch_id(3, 2), after=NAMES[3]))
    state = after(packed, *events)
    assert (pack.looks, list(state.batches.done)) == ([], [NAMES[3]])
    assert state == after(whole, *events)


def test_what_turns_up_late_for_a_packed_batch_makes_it_active_in_its_place(whole: RunState, packed: RunState) -> None:
    late = FileUploaded(batch_id=NAMES[2], attempt=1, file_id="late")
    state = after(packed, late)
    assert list(state.batches.active) == NAMES[1:]
    assert planning.to_clean(state) == [state.batches[NAMES[2]]]
    assert list(state.batches) == NAMES
    assert state == after(whole, late)


def test_a_state_is_the_same_value_packed_or_not(whole: RunState, packed: RunState) -> None:
    assert packed == whole
    assert packed != after(whole, published(NAMES[1]))
    assert [packed.batches[name].place for name in packed.batches] == [0, 1, 2, 3]
    assert packed.batches.get(BatchId("s009-1")) is None
