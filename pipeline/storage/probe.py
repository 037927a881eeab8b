"""Proving a store before it is trusted: many writers race for one key, and exactly one may win.

Two creates in a row would not notice a store that looks first and writes then; a race does.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import msgspec

from pipeline.clock import Clock
from pipeline.errors import ConfigError, ConflictError
from pipeline.storage import Store, keys

_RACERS = 8
_ROUNDS = 3
_FORMAT = 1


class StoreMark(msgspec.Struct, frozen=True, kw_only=True):
    """What a store says of itself once it has been proven."""

    format: int = _FORMAT


def ensure_proven(store: Store, clock: Clock) -> None:
    """Prove the store at its first use; raise ConfigError if it lets two writers win or is of a newer format."""
    if store.exists(keys.STORE):
        mark = msgspec.json.decode(store.get(keys.STORE), type=StoreMark)
        if mark.format > _FORMAT:
            raise ConfigError(f"{store.url} was made by a newer version of pairlog; upgrade this one")
        return
    prove(store, clock)
    try:
        store.put_new(keys.STORE, msgspec.json.encode(StoreMark()))
    except ConflictError:
        return


def prove(store: Store, clock: Clock) -> None:
    """Let writers race for a few keys; raise ConfigError unless one wins each and its bytes stay."""
    nonce = clock.nonce()
    with ThreadPoolExecutor(_ROUNDS) as pool:
        for flaw in pool.map(lambda round_: _flaw(store, keys.probe(nonce, round_)), range(_ROUNDS)):
            if flaw:
                raise ConfigError(
                    f"{store.url} {flaw}; its log would not be safe there: use a store that honours conditional creates"
                )


def _flaw(store: Store, key: str) -> str | None:
    """Return what one race shows to be wrong, or None; what several winners left may not even be readable."""
    winners = _race(store, key)
    if len(winners) != 1:
        return f"let {len(winners)} of {_RACERS} writers create the same object"
    return None if store.get(key) == winners[0] else "kept other bytes than those of the one writer it let create them"


def _race(store: Store, key: str) -> list[bytes]:
    start = Barrier(_RACERS)

    def create(racer: int) -> bytes | None:
        body = b'{"racer":%d}' % racer
        start.wait(timeout=30)
        try:
            store.put_new(key, body)
        except ConflictError:
            return None
        return body

    with ThreadPoolExecutor(_RACERS) as pool:
        return [body for body in pool.map(create, range(_RACERS)) if body is not None]
