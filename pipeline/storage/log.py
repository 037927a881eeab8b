"""The log of a run: contiguous, hash-chained commits, one object each.

Appending is a put-if-absent at the next number. Who loses reads again and decides again; who meets his own
`commit_id` had won and only missed the answer. A checkpoint saves reading what was folded before; it is believed only
if the log still holds the very commit it ends with.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import chain

import msgspec

from pipeline.clock import Clock
from pipeline.errors import ConflictError, CorruptObjectError, StoreError
from pipeline.events import AnyEvent, Commit, decode_commit, encode_commit
from pipeline.ids import Digest, RunId, digest
from pipeline.state import RunState, fold
from pipeline.storage import Reads, Store, checkpoints, keys
from pipeline.storage.checkpoints import Checkpoint

_LARGEST_COMMIT = 256 * 1024
_READERS = 16
_READ_AHEAD = 256
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 5.0


class RunLog:
    """One worker's view of a run's log."""

    def __init__(self, store: Store, run_id: RunId, *, clock: Clock, writer: str) -> None:
        self._store = store
        self._run_id = run_id
        self._clock = clock
        self._writer = writer
        self.epoch: int | None = None
        self._head: Digest | None = None
        self._state = RunState(run_id=run_id)
        self._unsaved_commits = 0
        self._unsaved_events = 0

    @property
    def state(self) -> RunState:
        """The state as of the last look at the log."""
        return self._state

    def refresh(self) -> RunState:
        """Read what was appended since and return the state after it."""
        if self._head is None:
            start = _start(self._store, self._run_id)
            self._state, self._head = start.state, start.head
            self._follow(start.commits)
        else:
            self._follow(read_commits(self._store, self._run_id, seq=self._state.commits, prev=self._head))
        self._save()
        return self._state

    def _follow(self, chained: Iterable[tuple[Commit, Digest]]) -> None:
        """Fold all of the commits, or none if the chain breaks."""
        read = list(chained)
        if read:
            self._head = read[-1][1]
            self._state = fold(self._state, (commit for commit, _ in read))
            self._unsaved_commits += len(read)
            self._unsaved_events += sum(len(commit.events) for commit, _ in read)

    def _save(self) -> None:
        """Keep a checkpoint when enough came since the last one."""
        batches = len(self._state.batches)
        due = checkpoints.is_due(commits=self._unsaved_commits, events=self._unsaved_events, batches=batches)
        if due and self._head:
            made = Checkpoint(seq=self._state.commits - 1, head=self._head, state=self._state)
            checkpoints.save(self._store, made)
            self._unsaved_commits = self._unsaved_events = 0

    def append(self, *events: AnyEvent) -> RunState:
        """Commit the events behind the state last seen, or raise ConflictError if somebody was first."""
        seq = self._state.commits
        commit = Commit(
            commit_id=self._clock.nonce(),
            run_id=self._run_id,
            seq=seq,
            writer=self._writer,
            epoch=self.epoch if self.epoch is not None else self._state.epoch,
            at=self._clock.now(),
            prev=self._head,
            events=events,
        )
        body = encode_commit(commit)
        if len(body) > _LARGEST_COMMIT:
            raise StoreError(f"a commit of {len(body)} bytes to {self._run_id} is too large; nothing was written")
        self._put(keys.commit(self._run_id, seq), body, commit)
        self._follow([(commit, digest(body))])
        return self._state

    def record(self, *events: AnyEvent) -> RunState:
        """Append facts that stay true whoever else wrote meanwhile; who loses waits, longer every time."""
        tries = 0
        while True:
            started = self._clock.monotonic()
            try:
                return self.append(*events)
            except ConflictError:
                tries += 1
                took = self._clock.monotonic() - started
                self._clock.sleep(_pause(tries, took, self._clock.nonce()))
                self.refresh()

    def _put(self, key: str, body: bytes, commit: Commit) -> None:
        try:
            self._store.put_new(key, body)
        except ConflictError:
            if decode_commit(self._store.get(key), key=key).commit_id != commit.commit_id:
                raise


def read_commits(
    store: Reads, run_id: RunId, *, seq: int = 0, prev: Digest | None = None
) -> Iterator[tuple[Commit, Digest]]:
    """Yield every commit from number `seq` on with its digest; raise CorruptObjectError where the chain breaks."""
    yield from _chained(run_id, _bodies(store, _listed(store, run_id, seq)), seq=seq, prev=prev)


def current_state(store: Reads, run_id: RunId) -> RunState:
    """Return the state of a run now, from a checkpoint on where there is one."""
    start = _start(store, run_id)
    return fold(start.state, (commit for commit, _ in start.commits))


def state_as_of(store: Reads, run_id: RunId, moment: datetime | None = None) -> RunState:
    """Return the state of a run now, or as it was at the moment, from every commit there is."""
    commits = [commit for commit, _ in read_commits(store, run_id)]
    if moment is not None:
        seen = [commit.seq for commit in commits if commit.at <= moment]
        commits = commits[: seen[-1] + 1] if seen else []
    return fold(RunState(run_id=run_id), commits)


def _pause(tries: int, took: float, nonce: str) -> float:
    """Return a random part of a pause that doubles, in seconds; a try that took long makes it longer."""
    return min(max(_FIRST_PAUSE, took) * 2.0**tries, _LONGEST_PAUSE) * int(nonce[-8:], 16) / 2**32


class _Start(msgspec.Struct, frozen=True, kw_only=True):
    """A state to begin with, the digest of its last commit, and the commits behind it."""

    state: RunState
    head: Digest | None
    commits: Iterator[tuple[Commit, Digest]]


def _start(store: Reads, run_id: RunId) -> _Start:
    """Begin at a checkpoint if the log still holds the commit it ends with, else at nothing."""
    checkpoint = checkpoints.load(store, run_id)
    if checkpoint is not None:
        bodies = _bodies(store, _listed(store, run_id, checkpoint.seq))
        key, body = next(bodies, ("", b""))
        if key == keys.commit(run_id, checkpoint.seq) and digest(body) == checkpoint.head:
            tail = _chained(run_id, bodies, seq=checkpoint.seq + 1, prev=checkpoint.head)
            return _Start(state=checkpoint.state, head=checkpoint.head, commits=tail)
    return _Start(state=RunState(run_id=run_id), head=None, commits=read_commits(store, run_id))


def _listed(store: Reads, run_id: RunId, seq: int) -> list[str]:
    """Return the keys of the commits from `seq` on; a gap is looked at twice, for listings may lag behind."""
    after = keys.commit(run_id, seq - 1) if seq else ""
    found: list[str] = []
    for _ in range(2):
        found = [key for key in store.list_from(keys.log(run_id), after=after) if keys.commit_seq(key) is not None]
        if not found or found[-1] == keys.commit(run_id, seq + len(found) - 1):
            break
    return found


def _bodies(store: Reads, found: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield every key with its object's bytes, in order; several are read at once."""
    if len(found) == 1:
        yield found[0], store.get(found[0])
        return
    with ThreadPoolExecutor(_READERS) as pool:
        for start in range(0, len(found), _READ_AHEAD):
            some = found[start : start + _READ_AHEAD]
            each = -(-len(some) // _READERS)
            stretches = [some[at : at + each] for at in range(0, len(some), each)]
            read = pool.map(lambda stretch: [store.get(key) for key in stretch], stretches)
            yield from zip(some, chain.from_iterable(read), strict=True)


def _chained(
    run_id: RunId, bodies: Iterator[tuple[str, bytes]], *, seq: int, prev: Digest | None
) -> Iterator[tuple[Commit, Digest]]:
    for number, (key, body) in enumerate(bodies, seq):
        if keys.commit_seq(key) != number:
            missing = keys.commit(run_id, number)
            raise CorruptObjectError(f"{missing} is missing although later commits exist; restore it from a backup")
        commit = decode_commit(body, key=key)
        if (commit.run_id, commit.seq) != (run_id, number):
            raise CorruptObjectError(f"{key} holds commit {commit.seq} of {commit.run_id}; restore it from a backup")
        if commit.prev != prev:
            raise CorruptObjectError(f"{key} does not follow the bytes before it: one of the two was changed")
        prev = digest(body)
        yield commit, prev
