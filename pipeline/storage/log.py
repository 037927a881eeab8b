"""The log of a run: contiguous, hash-chained commits, one object each.

Appending is a put-if-absent at the next number. Whoever loses reads again and decides again; a writer that finds its
own `commit_id` there had won and only missed the answer. A checkpoint saves reading what was folded before; it is
believed only if the log still holds the very commit it ends with.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import chain

import msgspec

from pipeline.clock import Clock
from pipeline.errors import ConflictError, CorruptObjectError, MissingError, StoreError
from pipeline.events import SCHEMA, AnyEvent, Commit, decode_commit, decode_unproven, encode_commit, is_whole
from pipeline.folding import fold
from pipeline.ids import Digest, RunId, digest
from pipeline.state import RunState
from pipeline.storage import Reads, Store, checkpoints, keys
from pipeline.storage.checkpoints import Checkpoint

_LARGEST_COMMIT = 256 * 1024
_AROUND_EVENTS = 4 * 1024  # what a commit holds beside its events: names, a digest, a time
_READERS = 16
_READ_AHEAD = 2_048
_FAR_BEHIND = 8  # so many commits are read one by one; for more a checkpoint is looked for
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 5.0
_encoder = msgspec.json.Encoder()


class RunLog:
    """One worker's view of a run's log; `schema` is what it writes, not what it reads."""

    def __init__(self, store: Store, run_id: RunId, *, clock: Clock, writer: str, schema: int = SCHEMA) -> None:
        self._store = store
        self._run_id = run_id
        self._clock = clock
        self._writer = writer
        self._schema = schema
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
        start = _start(self._store, self._state, self._head)
        if start.state is not self._state:
            self._unsaved_commits = self._unsaved_events = 0
        self._state, self._head = start.state, start.head
        self._follow(start.commits)
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
            boot=self._clock.boot(),
            uptime=round(self._clock.monotonic(), 3),
            prev=self._head,
            events=events,
            schema=self._schema,
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


def in_commits(events: Iterable[AnyEvent], *, most: int) -> Iterator[list[AnyEvent]]:
    """Yield the events in order, as many together as fit into one commit, `most` at most.

    It is for events of which each stays true and safe if those behind it are never written.
    """
    together: list[AnyEvent] = []
    size = _AROUND_EVENTS
    for event in events:
        bytes_ = len(_encoder.encode(event)) + 1
        if together and (len(together) == most or size + bytes_ > _LARGEST_COMMIT):
            yield together
            together, size = [], _AROUND_EVENTS
        together.append(event)
        size += bytes_
    if together:
        yield together


def read_commits(
    store: Reads, run_id: RunId, *, seq: int = 0, prev: Digest | None = None
) -> Iterator[tuple[Commit, Digest]]:
    """Yield every commit from number `seq` on with its digest; raise CorruptObjectError where the chain breaks."""
    yield from _chained(run_id, _blocks(store, run_id, _numbers(store, run_id, seq)), prev=prev)


def current_state(store: Reads, run_id: RunId) -> RunState:
    """Return the state of a run now, from a checkpoint on where there is one."""
    start = _start(store, RunState(run_id=run_id))
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


def _start(store: Reads, seen: RunState, head: Digest | None = None) -> _Start:
    """Begin at what was seen before, or at a checkpoint where that saves reading many commits."""
    run_id, at = seen.run_id, seen.commits
    known = _numbers(store, run_id, at) if at else None
    if known is None or known[_FAR_BEHIND:]:
        checkpoint = checkpoints.load(store, run_id, after=at - 1)
        if checkpoint and (start := _checkpointed(store, checkpoint, known)):
            return start
    if known is None:
        known = _numbers(store, run_id, at)
    return _Start(state=seen, head=head, commits=_chained(run_id, _blocks(store, run_id, known), prev=head))


def _checkpointed(store: Reads, checkpoint: Checkpoint, known: range | None) -> _Start | None:
    """Begin at a checkpoint, if the log still holds the very commit it ends with."""
    run_id = checkpoint.state.run_id
    if known and checkpoint.seq in known:
        numbers = range(checkpoint.seq, known.stop)
    else:
        numbers = _numbers(store, run_id, checkpoint.seq)
    blocks = _blocks(store, run_id, numbers)
    last, *bodies = next(blocks).bodies or [b""]
    if digest(last) != checkpoint.head:
        return None
    first = _Block(numbers=numbers[1 : len(bodies) + 1], bodies=bodies)
    tail = _chained(run_id, chain([first], blocks), prev=checkpoint.head)
    return _Start(state=checkpoint.state, head=checkpoint.head, commits=tail)


def _numbers(store: Reads, run_id: RunId, seq: int) -> range:
    """Return the numbers of the commits from `seq` on.

    A listing is believed only for the last: one that lags behind, or that is read while others write (as folders of
    a disk are), may leave out those before it.
    """
    after = keys.commit(run_id, seq - 1) if seq else ""
    for key in reversed(store.list_from(keys.log(run_id), after=after)):
        last = keys.commit_seq(key)
        if last is not None and key == keys.commit(run_id, last):
            return range(seq, last + 1)
    return range(seq, seq)


class _Block(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of the commits with these numbers."""

    numbers: range
    bodies: list[bytes]


def _blocks(store: Reads, run_id: RunId, numbers: range) -> Iterator[_Block]:
    """Yield the bytes of the commits, in order, many at a time; several are read at once."""

    def read(stretch: range) -> list[bytes]:
        return [_body(store, keys.commit(run_id, number)) for number in stretch]

    if not numbers[1:]:
        yield _Block(numbers=numbers, bodies=read(numbers))
        return
    with ThreadPoolExecutor(_READERS) as pool:
        while numbers:
            some, numbers = numbers[:_READ_AHEAD], numbers[_READ_AHEAD:]
            each = -(-len(some) // _READERS)
            stretches = [some[at : at + each] for at in range(0, len(some), each)]
            for stretch, bodies in zip(stretches, pool.map(read, stretches), strict=True):
                yield _Block(numbers=stretch, bodies=bodies)


def _body(store: Reads, key: str) -> bytes:
    try:
        return store.get(key)
    except MissingError as error:
        raise CorruptObjectError(f"{key} is missing although later commits exist; restore it from a backup") from error


def _chained(run_id: RunId, blocks: Iterable[_Block], *, prev: Digest | None) -> Iterator[tuple[Commit, Digest]]:
    """Yield the commits of every block that holds; where one does not, say which of its commits is at fault."""
    for block in blocks:
        found = _proven(run_id, block, prev) or list(_one_by_one(run_id, block, prev))
        yield from found
        prev = found[-1][1] if found else prev


def _proven(run_id: RunId, block: _Block, prev: Digest | None) -> list[tuple[Commit, Digest]]:
    """Return the commits if each names the digest of the bytes before it and the last is whole; else none at all."""
    commits = decode_unproven(block.bodies)
    digests = [digest(body) for body in block.bodies]
    is_proven = (
        [commit.prev for commit in commits] == [prev, *digests[:-1]]
        and [commit.seq for commit in commits] == list(block.numbers)
        and {commit.run_id for commit in commits} == {run_id}
        and is_whole(block.bodies[-1])
    )
    return list(zip(commits, digests, strict=True)) if is_proven else []


def _one_by_one(run_id: RunId, block: _Block, prev: Digest | None) -> Iterator[tuple[Commit, Digest]]:
    """Yield the commits, or raise CorruptObjectError at the first that breaks the chain."""
    for number, body in zip(block.numbers, block.bodies, strict=True):
        key = keys.commit(run_id, number)
        commit = decode_commit(body, key=key)
        if (commit.run_id, commit.seq) != (run_id, number):
            raise CorruptObjectError(f"{key} holds commit {commit.seq} of {commit.run_id}; restore it from a backup")
        if commit.prev != prev:
            raise CorruptObjectError(
                f"{key} does not follow the bytes before it: one of the two was changed; restore both from a backup"
            )
        prev = digest(body)
        yield commit, prev
