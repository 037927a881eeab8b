"""The id of a store: drawn at random by whoever first freezes a run in it, and never changed.

Runs hold it as their `origin`, and with them every request id: what one store sent is never taken for another's, also
where a provider shows nothing of ours but those.
"""

from typing import Annotated

import msgspec

from pipeline.clock import Clock
from pipeline.errors import CorruptObjectError
from pipeline.ids import Origin
from pipeline.storage import Store, keys
from pipeline.storage.objects import put_once


class StoreOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What the object holds."""

    origin: Annotated[Origin, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


_decoder = msgspec.json.Decoder(StoreOrigin)


def origin_of(store: Store, clock: Clock) -> Origin:
    """Return the id of the store, made if it has none; of several who make one at once, all get the one kept."""
    put_once(store, keys.ORIGIN, lambda: msgspec.json.encode(StoreOrigin(origin=Origin(clock.nonce()))))
    try:
        return _decoder.decode(store.get(keys.ORIGIN)).origin
    except msgspec.DecodeError as error:
        raise CorruptObjectError(
            f"{keys.ORIGIN} in {store.url} does not hold the store's id; restore it from a backup, or move it away: a "
            f"new one is made, and runs that exist keep theirs ({error})"
        ) from error
