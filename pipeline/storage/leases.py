"""Leases: who is at work on what, so that work is shared and not repeated.

A lease saves work; it never makes anything safe. Safety comes from the log, where one writer wins, and from the epoch
in each commit. The highest epoch under a name holds; nobody compares clocks of two machines: a holder counts as gone
when its object has not been followed by another for its time to live, on the observer's own clock, or when its
process is known to be dead.
"""

from collections.abc import Callable

import msgspec

from pipeline.clock import Clock
from pipeline.errors import ConflictError
from pipeline.storage import Store, keys


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch: who holds, for how many seconds, and whether it was given back."""

    owner: str
    seconds: float
    held: bool = True


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    epoch: int
    lease: Lease
    since: float


_LONGEST = 600.0
_leases = msgspec.json.Decoder(Lease)


def is_lease(data: bytes) -> bool:
    """Say whether the bytes are a lease's."""
    try:
        return _leases.decode(data) is not None
    except (msgspec.DecodeError, ValueError):
        return False


class Leases:
    """One worker's view of the leases in a store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        owner: str,
        seconds: float,
        is_gone: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._store = store
        self._is_gone = is_gone
        self._clock = clock
        self._owner = owner
        self._seconds = min(seconds, _LONGEST)
        self._seen: dict[str, _Seen] = {}

    def take(self, name: str) -> int | None:
        """Return the epoch under which this worker holds now, or None while another one does."""
        seen = self._look(name)
        if seen is None:
            return self._create(name, 0)
        mine = seen.lease.held and seen.lease.owner == self._owner
        if mine and not self._is_old(seen):
            return seen.epoch
        return self._create(name, seen.epoch + 1) if mine or self._has_ended(seen) else None

    def is_free(self, name: str) -> bool:
        """Say whether nobody is at work under this name, as far as can be seen from here."""
        seen = self._look(name)
        return seen is None or self._has_ended(seen)

    def give_back(self, name: str) -> None:
        """End the lease at once, if this worker still holds it."""
        seen = self._seen.get(name)
        if seen is not None and seen.lease.held and seen.lease.owner == self._owner:
            self._create(name, seen.epoch + 1, held=False)

    def _has_ended(self, seen: _Seen) -> bool:
        """Say whether a lease was given back, ran out, or belongs to a process that is dead."""
        ran_out = self._clock.monotonic() - seen.since >= seen.lease.seconds
        return not seen.lease.held or ran_out or self._is_gone(seen.lease.owner)

    def _is_old(self, seen: _Seen) -> bool:
        """Say whether it is time to renew: a third of the time has passed."""
        return self._clock.monotonic() - seen.since >= seen.lease.seconds / 3

    def _look(self, name: str) -> _Seen | None:
        seen = self._seen.get(name)
        after = keys.lease(name, seen.epoch) if seen else ""
        found = [
            key for key in self._store.list_from(keys.leases(name), after=after) if keys.lease_epoch(key) is not None
        ]
        if found:
            epoch = keys.lease_epoch(found[-1]) or 0
            seen = self._seen[name] = _Seen(epoch=epoch, lease=self._read(found[-1]), since=self._clock.monotonic())
        return seen

    def _read(self, key: str) -> Lease:
        """Return the lease; one that cannot be read is held by somebody unknown until its time is over.

        No lease is believed to last longer than the longest that a worker takes.
        """
        try:
            lease = _leases.decode(self._store.get(key))
        except (msgspec.DecodeError, ValueError):
            return Lease(owner="unknown", seconds=self._seconds)
        return msgspec.structs.replace(lease, seconds=min(lease.seconds, _LONGEST))

    def _create(self, name: str, epoch: int, *, held: bool = True) -> int | None:
        lease = Lease(owner=self._owner, seconds=self._seconds, held=held)
        try:
            self._store.put_new(keys.lease(name, epoch), msgspec.json.encode(lease))
        except ConflictError:
            return None
        self._seen[name] = _Seen(epoch=epoch, lease=lease, since=self._clock.monotonic())
        return epoch
