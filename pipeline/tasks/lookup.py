"""From the ids that come back to the requests of a batch: by columns, without a dictionary.

An id says where in its run it would stand (`ids.RequestIds`); it is ours if all of it stands there.
"""

import binascii
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.ids import REQUEST_ID_LENGTH, RequestId

Positions = NDArray[np.int64]

_DIGITS = string.hexdigits.encode()
_OTHERS_TO_ZERO = bytes(byte if byte in _DIGITS else ord("0") for byte in range(256))


class Lookup:
    """The requests of one batch, found by their ids."""

    def __init__(self, positions: Positions, request_ids: Sequence[RequestId]) -> None:
        """Take the positions, ascending and at least one, and the ids of the requests that stand there."""
        self._words = _words(pa.array(request_ids, pa.string()))
        self._start = int(positions[0])
        self._places = np.full(int(positions[-1]) - self._start + 2, -1, np.int64)  # the last is for what is elsewhere
        self._places[positions - self._start] = np.arange(len(positions))

    def places(self, ids: "Sequence[str] | pa.Array[Any]") -> Positions:  # Any: the array's scalars do not matter
        """Return where among the positions each id stands, -1 for an id of no request of the batch."""
        column = pa.array(ids, pa.string()) if not isinstance(ids, pa.Array) else ids
        found = np.full(len(column), -1, np.int64)
        whole = pc.equal(pc.call_function("binary_length", [column]), REQUEST_ID_LENGTH)
        words = _words(column.filter(whole))
        places = self._places[self._hints(words)]
        known = (places >= 0) & (self._words[places] == words).all(axis=1)
        found[np.flatnonzero(whole)[known]] = places[known]
        return found

    def _hints(self, words: NDArray[np.uint64]) -> Positions:
        digits = np.ascontiguousarray(words[:, -1]).tobytes().translate(_OTHERS_TO_ZERO)
        hints = np.frombuffer(binascii.unhexlify(digits), ">u4").astype(np.int64) - self._start
        return np.where((hints < 0) | (hints >= len(self._places)), -1, hints)


def _words(ids: "pa.Array[Any]") -> NDArray[np.uint64]:
    """Return the ids of an array that is no part of another, each of the full length, as rows of words."""
    _, _, data = ids.buffers()
    words = np.frombuffer(data or b"", np.uint64, count=len(ids) * REQUEST_ID_LENGTH // 8)
    return words.reshape(len(ids), -1) if len(ids) else words.reshape(0, REQUEST_ID_LENGTH // 8)
