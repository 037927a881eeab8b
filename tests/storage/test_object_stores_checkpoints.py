"""Checkpoints: a cache that is right or ignored."""

import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pipeline import planning
from pipeline.clock import FixedClock
from pipeline.domain import Counts
from pipeline.errors import CorruptObjectError, StoreError
from pipeline.events import (
    Adopted,
    AnyEvent,
    AttemptOpened,
    BatchPlanned,
    CancelAsked,
    Ended,
    FileUploaded,
    Held,
    InputStored,
    OutputsStored,
    RawPart,
    Refused,
    RemoteCleaned,
    RowsPublished,
    RunPlanned,
    Segment,
    StatusChanged,
    Submitted,
    Uncertain,
    Voided,
)
from pipeline.folding import fold
from pipeline.ids import BatchId, Digest, ExperimentName, RunId
from pipeline.state import RunState
from pipeline.storage import checkpoints, keys
from pipeline.storage.checkpoints import Checkpoint, decode, encode
from pipeline.storage.log import RunLog, current_state, read_commits, state_as_of
from pipeline.storage.memory import MemoryStore

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd
from pipeline.storage.states import current_states

RUN = RunId("e--t--p--m--r--forward")
DIGEST = Digest("0" * 64)
MOMENT = datetime(2026, 11, 16, 9, tzinfo=UTC)


def a_log(store: MemoryStore, *, run_id: RunId = RUN, seed: int = 0) -> RunLog:
    return RunLog(store, run_id, clock=FixedClock(MOMENT, seed=seed), writer="w")


def _facts(batch_id: BatchId, attempt: int) -> list[AnyEvent]:
    part = RawPart(name="output", key="outputs/k", digest=DIGEST, bytes=3)
    return [
        BatchPlanned(batch_id=batch_id, segment=1, send=1, requests=3),
        InputStored(batch_id=batch_id, key="requests/k", digest=DIGEST, bytes=3, requests=3),
        AttemptOpened(batch_id=batch_id, attempt=attempt, batch_key="k"),
        FileUploaded(batch_id=batch_id, attempt=attempt, file_id="f"),
        Submitted(batch_id=batch_id, attempt=attempt, remote_id=f"remote-{attempt}"),
        Uncertain(batch_id=batch_id, attempt=attempt, reason="lost"),
        Adopted(batch_id=batch_id, attempt=attempt, remote_id="found"),
        Voided(batch_id=batch_id, attempt=attempt, reason="none"),
        Held(batch_id=batch_id, attempt=attempt, reason="two"),
        Refused(batch_id=batch_id, attempt=attempt, fault="rate", reason="429", not_before=MOMENT),
        StatusChanged(batch_id=batch_id, status="running"),
        CancelAsked(batch_ids=(batch_id,)),
        Ended(batch_id=batch_id, end="expired", status="expired", parts={"output": "f"}),
        OutputsStored(batch_id=batch_id, attempt=attempt, parts=(part,)),
        RowsPublished(batch_id=batch_id, key="k", digest=DIGEST, counts=Counts(planned=3, ok=2), again=1),
        RemoteCleaned(batch_id=batch_id),
    ]


_events = st.builds(
    lambda batch, attempt, which: _facts(BatchId(f"b{batch}"), attempt)[which],
    st.integers(0, 3),
    st.integers(1, 3),
    st.integers(0, 15),
)
_histories = st.lists(st.lists(_events, min_size=1, max_size=4), min_size=1, max_size=25)


@given(_histories, st.data())
def test_a_checkpoint_and_the_tail_give_the_state_of_all_commits(
    groups: list[list[AnyEvent]], data: st.DataObject
) -> None:
    store = MemoryStore()
    log = a_log(store)
    for group in groups:
        log.append(*group)
    chain = list(read_commits(store, RUN))
    cut = data.draw(st.integers(1, len(chain)))
    state = fold(RunState(run_id=RUN), (commit for commit, _ in chain[:cut]))
    checkpoints.save(store, Checkpoint(seq=cut - 1, head=chain[cut - 1][1], state=state))
    assert checkpoints.load(store, RUN) is not None
    assert current_state(store, RUN) == a_log(store).refresh() == state_as_of(store, RUN)


def _plan() -> RunPlanned:
    segments = tuple(Segment(start=3 * number, requests=3, bytes=9) for number in range(3))
    return RunPlanned(
        experiment=ExperimentName("e"), experiment_digest=DIGEST, run_digest=DIGEST, requests=12, attempts=3,
        segments=segments,
    )  # fmt: skip


@given(_histories, st.data())
def test_checkpoints_made_of_checkpoints_lead_to_the_same_state(
    groups: list[list[AnyEvent]], data: st.DataObject
) -> None:
    store = MemoryStore()
    log = a_log(store)
    log.append(_plan())
    for group in groups:
        log.append(*group)
    commits = [commit for commit, _ in read_commits(store, RUN)]
    whole, state, at = fold(RunState(run_id=RUN), commits), RunState(run_id=RUN), 0
    for cut in sorted(data.draw(st.lists(st.integers(1, len(commits)), max_size=4))):
        state, at = fold(state, commits[at:cut]), cut
        loaded = decode(encode(Checkpoint(seq=at - 1, head=DIGEST, state=state)))
        assert loaded is not None
        state = loaded.state
    state = fold(state, commits[at:])
    assert _answers(state) == _answers(whole)
    assert (state, list(state.batches)) == (whole, list(whole.batches))


def _answers(state: RunState) -> list[object]:
    """Return what is decided on a state without looking at what is done."""
    asked = (planning.is_complete, planning.to_clean, planning.unasked, planning.unfollowed, planning.moves_by_itself)
    return [state.counts, len(state.batches), planning.due(state, MOMENT), *(ask(state) for ask in asked)]


@pytest.fixture
def store() -> MemoryStore:
    """A store with a run of 150 events and the checkpoint that a reader left."""
    store = MemoryStore()
    log = a_log(store)
    for number in range(30):
        log.append(*_facts(BatchId(f"b{number}"), 1)[:5])
    assert store.list_from("checkpoints") == []
    a_log(store).refresh()
    assert store.list_from("checkpoints") == [keys.checkpoint(RUN, 29)]
    return store


def _tamper(store: MemoryStore, key: str, body: bytes) -> None:
    store._objects[key] = body


def _sealed(packed: bytes) -> bytes:
    return packed + checkpoints._seal(packed)


def _remove(store: MemoryStore, key: str) -> None:
    del store._objects[key]
    store._keys.remove(key)


def _is_used(store: MemoryStore) -> bool:
    """Say whether a reader believes the checkpoint: then a damaged commit below it goes unnoticed."""
    key = keys.commit(RUN, 3)
    body = store.get(key)
    _tamper(store, key, b"damaged")
    try:
        current_state(store, RUN)
    except CorruptObjectError:
        return False
    finally:
        _tamper(store, key, body)
    return True


def test_a_good_checkpoint_is_used_and_an_audit_still_reads_everything(store: MemoryStore) -> None:
    assert _is_used(store)
    _tamper(store, keys.commit(RUN, 3), b"damaged")
    with pytest.raises(CorruptObjectError):
        state_as_of(store, RUN)


def test_any_damage_to_a_checkpoint_makes_it_ignored(store: MemoryStore) -> None:
    key = keys.checkpoint(RUN, 29)
    body, whole = store.get(key), state_as_of(store, RUN)
    for at in range(0, len(body), 11):
        _tamper(store, key, body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :])
        assert current_state(store, RUN) == whole
    for size in (0, 1, len(body) // 2, len(body) - 1):
        _tamper(store, key, body[:size])
        assert not _is_used(store)
        assert current_state(store, RUN) == whole


def test_a_checkpoint_of_another_run_is_ignored(store: MemoryStore) -> None:
    other = RunId("e--t--p--m--r--reverse")
    log = a_log(store, run_id=other)
    for number in range(30):
        log.append(*_facts(BatchId(f"b{number}"), 2)[:5])
    log.refresh()
    assert store.exists(keys.checkpoint(other, 29))
    _tamper(store, keys.checkpoint(RUN, 29), store.get(keys.checkpoint(other, 29)))
    assert not _is_used(store)


def test_a_checkpoint_under_another_number_is_ignored(store: MemoryStore) -> None:
    store.put_new(keys.checkpoint(RUN, 20), store.get(keys.checkpoint(RUN, 29)))
    _remove(store, keys.checkpoint(RUN, 29))
    assert not _is_used(store)


def test_a_checkpoint_ahead_of_the_log_is_ignored(store: MemoryStore) -> None:
    for seq in range(20, 30):
        _remove(store, keys.commit(RUN, seq))
    assert not _is_used(store)
    assert current_state(store, RUN).commits == 20


def test_a_checkpoint_of_another_history_is_ignored(store: MemoryStore) -> None:
    other = MemoryStore()
    log = a_log(other, seed=7)
    for number in range(30):
        log.append(*_facts(BatchId(f"x{number}"), 1)[:5])
    log.refresh()
    _tamper(store, keys.checkpoint(RUN, 29), other.get(keys.checkpoint(RUN, 29)))
    assert not _is_used(store)


def test_a_checkpoint_that_other_code_folded_is_ignored(store: MemoryStore) -> None:
    made = checkpoints.load(store, RUN)
    assert made is not None
    assert decode(encode(made)) == made
    content = checkpoints._contents.decode(zstd.decompress(encode(made)))
    foreign = checkpoints._encoder.encode(replace(content, folded_by=DIGEST))
    assert decode(_sealed(zstd.compress(foreign))) is None


def test_whatever_makes_a_state_makes_its_checkpoints_others_when_it_changes() -> None:
    told = "import sys, pipeline.folding; print(*(name for name in sys.modules if name.startswith('pipeline.')))"
    loaded = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout.split()
    makers = {f"{name.removeprefix('pipeline.')}.py" for name in loaded}
    assert makers - {"errors.py", "permutation.py"} == set(checkpoints._FOLDING)


@pytest.mark.parametrize("content", [b"", b"not msgpack", b"\x80", b"\xa3\xff\xff\xff"], ids=repr)
def test_a_checkpoint_of_another_shape_is_ignored(store: MemoryStore, content: bytes) -> None:
    assert decode(_sealed(zstd.compress(content))) is None
    assert decode(_sealed(content)) is None


def test_an_older_checkpoint_serves_when_the_newest_is_damaged(store: MemoryStore) -> None:
    log = a_log(store)
    log.refresh()
    for number in range(30, 60):
        log.append(*_facts(BatchId(f"b{number}"), 1)[:5])
    log.refresh()
    assert store.exists(keys.checkpoint(RUN, 59))
    _tamper(store, keys.checkpoint(RUN, 59), b"damaged")
    assert _is_used(store)
    assert current_state(store, RUN) == state_as_of(store, RUN)


class _NoCheckpoints(MemoryStore):
    """Forbids what a reader has no right to."""

    def put_new(self, key: str, body: bytes) -> None:
        if key.startswith("checkpoints/"):
            raise StoreError("not permitted")
        super().put_new(key, body)


def test_a_run_goes_on_where_checkpoints_cannot_be_written() -> None:
    store = _NoCheckpoints()
    log = a_log(store)
    for number in range(30):
        log.append(*_facts(BatchId(f"b{number}"), 1)[:5])
    assert len(log.refresh().batches) == 30
    assert store.list_from("checkpoints") == []


@pytest.mark.parametrize(
    ("commits", "events", "batches", "due"),
    [
        (8, 100, 1, False),
        (9, 9, 1, True),
        (1, 101, 1, True),
        (100, 100, 800, False),
        (101, 101, 800, True),
        (2, 2500, 10_000, False),
        (2, 2501, 10_000, True),
    ],
)
def test_a_checkpoint_is_due_when_reading_on_costs_more(commits: int, events: int, batches: int, *, due: bool) -> None:
    assert checkpoints.is_due(commits=commits, events=events, batches=batches) is due


def test_a_short_run_needs_no_checkpoint() -> None:
    store = MemoryStore()
    log = a_log(store)
    for number in range(8):
        log.append(*_facts(BatchId(f"b{number}"), 1)[:5])
    a_log(store).refresh()
    assert store.list_from("checkpoints") == []


def test_whoever_finds_more_than_a_hundred_events_leaves_a_checkpoint() -> None:
    store = MemoryStore()
    writer, reader = a_log(store), a_log(store, seed=1)
    writer.append(*(_facts(BatchId(f"b{number}"), 1)[0] for number in range(100)))
    reader.refresh()
    assert store.list_from("checkpoints") == []
    writer.append(_facts(BatchId("b100"), 1)[0])
    reader.refresh()
    assert store.list_from("checkpoints") == [keys.checkpoint(RUN, 1)]


class _EightAtOnce(MemoryStore):
    """Answers a read when seven others are under way."""

    def __init__(self) -> None:
        super().__init__()
        self._all = threading.Barrier(8, timeout=30)

    def get(self, key: str) -> bytes:
        self._all.wait()
        return super().get(key)


def test_the_states_of_two_hundred_runs_are_read_side_by_side() -> None:
    store = _EightAtOnce()
    runs = [RunId(f"e--{number}") for number in range(200)]
    for run_id in runs:
        a_log(store, run_id=run_id).append(_facts(BatchId("b"), 1)[0])
    assert {len(state.batches) for state in current_states(store, runs).values()} == {1}


def test_the_states_of_many_runs_are_those_of_each(store: MemoryStore) -> None:
    runs = [RUN, *(RunId(f"e--{number}") for number in range(20)), RunId("e--none")]
    for run_id in runs[1:-1]:
        log = a_log(store, run_id=run_id)
        for number in range(12):
            log.append(*_facts(BatchId(f"b{number}"), 1)[:5])
        log.refresh()
    _tamper(store, keys.checkpoint(runs[3], 11), b"damaged")
    _remove(store, keys.commit(runs[4], 11))
    assert current_states(store, runs) == {run_id: state_as_of(store, run_id) for run_id in runs}
