"""Checkpoints: the state of a run after one of its commits, so that a reader need not fold everything again.

A cache and nothing more: whatever is damaged, of another run or made by other code is ignored, and nobody needs one.

The batches that are done are packed apart from those that are active, and stay packed from one checkpoint to the next:
whoever works on a run pays for what is left to do, not for all that ever was.
"""

import contextlib
import hashlib
import pkgutil
import sys
from collections.abc import Mapping
from datetime import datetime
from functools import cache, cached_property

import msgspec

from pipeline.domain import Counts
from pipeline.errors import CorruptObjectError, MissingError, StoreError
from pipeline.events import RunPlanned, TurnPlanned
from pipeline.ids import BatchId, Digest, RunId, digest
from pipeline.state import Batches, BatchState, RunState
from pipeline.storage import Reads, Store, keys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_MOST_EVENTS = 100
_MOST_COMMITS = 8
_TRIES = 2  # an older one is looked at when the newest is of no use
_DIGEST = 32
_SEAL = (0x184D2A50).to_bytes(4, "little") + _DIGEST.to_bytes(4, "little")
_FOLDING = ("domain.py", "events.py", "folding.py", "ids.py", "rules.py", "state.py")


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state after commit `seq`, whose bytes have the digest `head`."""

    seq: int
    head: Digest
    state: RunState


class _Packed(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Batches that were done when a checkpoint was made."""

    names: frozenset[BatchId]
    counts: Counts
    ended: dict[int, int]
    body: bytes

    @cached_property
    def batches(self) -> dict[BatchId, BatchState]:
        """The batches by their names."""
        try:
            return _batches.decode(zstd.decompress(self.body))
        except (msgspec.MsgspecError, zstd.ZstdError) as error:
            raise CorruptObjectError(f"a checkpoint cannot be unpacked: {error}; delete {keys.CHECKPOINTS}/") from error


class _State(msgspec.Struct, frozen=True, kw_only=True):
    """A state of which the batches that are done are packed."""

    run_id: RunId
    plan: RunPlanned | None
    version: Digest | None
    version_at: datetime | None
    turns: tuple[TurnPlanned, ...]
    active: dict[BatchId, BatchState]
    packs: tuple[_Packed, ...]
    commits: int
    epoch: int
    stale: int


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    run_id: RunId
    seq: int
    head: Digest
    folded_by: Digest
    state: msgspec.Raw


_encoder = msgspec.msgpack.Encoder()
_contents = msgspec.msgpack.Decoder(_Content)
_states = msgspec.msgpack.Decoder(_State)
_batches = msgspec.msgpack.Decoder(dict[BatchId, BatchState])


def is_due(*, commits: int, events: int, batches: int) -> bool:
    """Say whether so much came since the last checkpoint that another one is worth an object.

    Every commit is a request to whoever reads on from the last one; every batch makes a checkpoint larger.
    """
    return commits > max(_MOST_COMMITS, batches // 8) or events > max(_MOST_EVENTS, batches // 4)


def save(store: Store, checkpoint: Checkpoint) -> None:
    """Keep the checkpoint if the store lets us; a run goes on without it."""
    key = keys.checkpoint(checkpoint.state.run_id, checkpoint.seq)
    with contextlib.suppress(StoreError):
        store.put_new(key, encode(checkpoint))


def load(store: Reads, run_id: RunId, *, after: int = -1) -> Checkpoint | None:
    """Return the newest checkpoint behind commit `after` that is whole and was made by this very code, or None."""
    behind = keys.checkpoint(run_id, after) if after >= 0 else ""
    listed = store.list_from(keys.checkpoints(run_id), after=behind)
    found = [key for key in listed if keys.checkpoint_seq(key) is not None]
    for key in found[: -_TRIES - 1 : -1]:
        try:
            checkpoint = decode(store.get(key))
        except MissingError:  # whoever tidies up may delete a cache at any moment
            continue
        if checkpoint and (checkpoint.state.run_id, checkpoint.seq) == (run_id, keys.checkpoint_seq(key)):
            return checkpoint
    return None


def encode(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of a checkpoint's object."""
    content = _Content(
        run_id=checkpoint.state.run_id,
        seq=checkpoint.seq,
        head=checkpoint.head,
        folded_by=_folding_code(),
        state=msgspec.Raw(_encoder.encode(_packed(checkpoint.state))),
    )
    packed = zstd.compress(_encoder.encode(content), level=3)
    return packed + _seal(packed)


def decode(body: bytes) -> Checkpoint | None:
    """Return the checkpoint, or None if it is damaged or was made by other code."""
    packed = body[: -len(_SEAL) - _DIGEST]
    if not body.endswith(_seal(packed)):
        return None
    try:
        content = _contents.decode(zstd.decompress(packed))
        if content.folded_by != _folding_code():
            return None
        state = _unpacked(_states.decode(content.state))
    except (msgspec.MsgspecError, ValueError, zstd.ZstdError):
        return None
    if (state.run_id, state.commits) != (content.run_id, content.seq + 1):
        return None
    return Checkpoint(seq=content.seq, head=content.head, state=state)


def _packed(state: RunState) -> _State:
    """Return the state with one pack more, for what was done since the last one was made."""
    batches = state.batches
    packs = [pack if isinstance(pack, _Packed) else _pack(pack.batches) for pack in batches.packs]
    if batches.done:
        packs.append(_pack(batches.done))
    return _State(
        run_id=state.run_id,
        plan=state.plan,
        version=state.version,
        version_at=state.version_at,
        turns=state.turns,
        active=dict(batches.active),
        packs=tuple(packs),
        commits=state.commits,
        epoch=state.epoch,
        stale=state.stale,
    )


def _pack(batches: Mapping[BatchId, BatchState]) -> _Packed:
    done = Batches(done=batches)
    body = zstd.compress(_encoder.encode(dict(batches)), level=3)
    return _Packed(names=frozenset(batches), counts=done.counts, ended=done.ended(), body=body)


def _unpacked(state: _State) -> RunState:
    """Return the state; its packs are opened by whoever looks into them."""
    return RunState(
        run_id=state.run_id,
        plan=state.plan,
        version=state.version,
        version_at=state.version_at,
        turns=state.turns,
        batches=Batches(state.active, packs=state.packs),
        commits=state.commits,
        epoch=state.epoch,
        stale=state.stale,
    )


def _seal(packed: bytes) -> bytes:
    """Return the digest of the bytes in a frame that zstd skips: damage is seen before anything is unpacked."""
    return _SEAL + hashlib.sha256(packed).digest()


@cache
def _folding_code() -> Digest:
    """Return the digest of the code that makes states: what other code folded may mean something else."""
    return digest(b"\0".join(pkgutil.get_data("pipeline", name) or b"" for name in _FOLDING))
