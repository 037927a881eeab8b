"""From the ids that come back to the requests of a batch: by columns, without a dictionary.

An id says where in its run it would stand (`ids.RequestIds`); it is ours if all of it stands there.
"""

import binascii
import string
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.ids import REQUEST_ID_LENGTH, RequestId

Positions = NDArray[np.int64]
Column: TypeAlias = "pa.Array[Any]"  # Any: it holds strings

_DIGITS = string.hexdigits.encode()
_FOUR_TRUTHS = 0x01010101
_OTHERS_TO_ZERO = bytes(byte if byte in _DIGITS else ord("0") for byte in range(256))


class Lookup:
    """The requests of one batch, found by their ids."""

    def __init__(self, positions: Positions, request_ids: "Sequence[RequestId] | Column") -> None:
        """Take the positions, ascending and at least one, and the ids of the requests that stand there."""
        self._words = _words(_column(request_ids))
        self._start = int(positions[0])
        self._places = np.full(int(positions[-1]) - self._start + 2, -1, np.int64)  # the last is for what is elsewhere
        self._places[positions - self._start] = np.arange(len(positions))

    def places(self, ids: "Sequence[str] | Column") -> Positions:
        """Return where among the positions each id stands, -1 for an id of no request of the batch."""
        column = _column(ids)
        whole = pc.equal(pc.call_function("binary_length", [column]), REQUEST_ID_LENGTH)
        words = _words(column.filter(whole))
        places = self._places[self._hints(words)]
        places[~_same(np.take(self._words, places, axis=0), words)] = -1
        if len(places) == len(column):
            return places
        found = np.full(len(column), -1, np.int64)
        found[np.flatnonzero(whole)] = places
        return found

    def _hints(self, words: NDArray[np.uint64]) -> Positions:
        """Return where in the table of places each id says it is; the end of the table where that is elsewhere."""
        digits = np.ascontiguousarray(words[:, -1]).tobytes().translate(_OTHERS_TO_ZERO)
        hints = np.frombuffer(binascii.unhexlify(digits), ">u4").astype(np.int64) - self._start
        beyond = len(self._places) - 1
        return np.minimum(hints.view(np.uint64), np.uint64(beyond)).view(np.int64)  # below the start is far beyond


def _same(ones: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Say which rows of four words are equal: four truths side by side are one number."""
    same: NDArray[np.bool_] = (ones == others).view(np.uint32).ravel() == _FOUR_TRUTHS
    return same


def _column(ids: "Sequence[str] | Column") -> Column:
    return ids if isinstance(ids, pa.Array) else pa.array(ids, pa.string())


def _words(ids: Column) -> NDArray[np.uint64]:
    """Return the ids of an array that is no part of another, each of the full length, as rows of words."""
    _, _, data = ids.buffers()
    words = np.frombuffer(data or b"", np.uint64, count=len(ids) * REQUEST_ID_LENGTH // 8)
    return words.reshape(len(ids), -1) if len(ids) else words.reshape(0, REQUEST_ID_LENGTH // 8)
