"""The log of a run: contiguous, hash-chained commits, one object each.

Appending is a put-if-absent at the next number. Who loses reads again and decides again; who meets his own
`commit_id` had won and only missed the answer.
"""

from collections.abc import Iterator
from datetime import datetime

from pipeline.clock import Clock
from pipeline.errors import ConflictError, CorruptObjectError, StoreError
from pipeline.events import AnyEvent, Commit, decode_commit, encode_commit
from pipeline.ids import Digest, RunId, digest
from pipeline.state import RunState, fold
from pipeline.storage import Store, keys

_LARGEST_COMMIT = 256 * 1024


class RunLog:
    """One worker's view of a run's log."""

    def __init__(self, store: Store, run_id: RunId, *, clock: Clock, writer: str) -> None:
        self._store = store
        self._run_id = run_id
        self._clock = clock
        self._writer = writer
        self._head: Digest | None = None
        self._state = RunState(run_id=run_id)

    @property
    def state(self) -> RunState:
        """The state as of the last look at the log."""
        return self._state

    def refresh(self) -> RunState:
        """Read what was appended since and return the state after it."""
        commits: list[Commit] = []
        for commit, head in read_commits(self._store, self._run_id, seq=self._state.commits, prev=self._head):
            commits.append(commit)
            self._head = head
        if commits:
            self._state = fold(self._state, commits)
        return self._state

    def append(self, *events: AnyEvent) -> RunState:
        """Commit the events behind the state last seen, or raise ConflictError if somebody was first."""
        seq = self._state.commits
        commit = Commit(
            commit_id=self._clock.nonce(),
            run_id=self._run_id,
            seq=seq,
            writer=self._writer,
            epoch=self._state.epoch,
            at=self._clock.now(),
            prev=self._head,
            events=events,
        )
        body = encode_commit(commit)
        if len(body) > _LARGEST_COMMIT:
            raise StoreError(f"a commit of {len(body)} bytes to {self._run_id} is too large; nothing was written")
        self._put(keys.commit(self._run_id, seq), body, commit)
        self._head = digest(body)
        self._state = fold(self._state, [commit])
        return self._state

    def _put(self, key: str, body: bytes, commit: Commit) -> None:
        try:
            self._store.put_new(key, body)
        except ConflictError:
            if decode_commit(self._store.get(key), key=key).commit_id != commit.commit_id:
                raise


def read_commits(
    store: Store, run_id: RunId, *, seq: int = 0, prev: Digest | None = None
) -> Iterator[tuple[Commit, Digest]]:
    """Yield every commit from number `seq` on with its digest; raise CorruptObjectError where the chain breaks."""
    after = keys.commit(run_id, seq - 1) if seq else ""
    found = [key for key in store.list_from(keys.log(run_id), after=after) if keys.commit_seq(key) is not None]
    for key in found:
        if keys.commit_seq(key) != seq:
            missing = keys.commit(run_id, seq)
            raise CorruptObjectError(f"{missing} is missing although later commits exist; restore it from a backup")
        body = store.get(key)
        commit = decode_commit(body, key=key)
        if (commit.run_id, commit.seq) != (run_id, seq):
            raise CorruptObjectError(f"{key} holds commit {commit.seq} of {commit.run_id}; restore it from a backup")
        if commit.prev != prev:
            raise CorruptObjectError(f"{key} does not follow the bytes before it: one of the two was changed")
        prev = digest(body)
        yield commit, prev
        seq += 1


def state_as_of(store: Store, run_id: RunId, moment: datetime | None = None) -> RunState:
    """Return the state of a run now, or as it was at the moment."""
    commits = (commit for commit, _ in read_commits(store, run_id))
    if moment is None:
        return fold(RunState(run_id=run_id), commits)
    return fold(RunState(run_id=run_id), (commit for commit in commits if commit.at <= moment))
