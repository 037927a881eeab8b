"""From the ids that come back to the requests of a batch: by columns, without a dictionary.

An id says where in its run it would stand (`ids.RequestIds`); it is ours if all of it stands there.
"""

import binascii
import string
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.ids import REQUEST_ID_LENGTH
from pipeline.tasks.columns import Column, strings

Positions = NDArray[np.int64]
Words = NDArray[np.uint64]

_DIGITS = string.hexdigits.encode()
_FOUR_TRUTHS = 0x01010101
_OTHERS_TO_ZERO = bytes(byte if byte in _DIGITS else ord("0") for byte in range(256))


class Lookup:
    """The requests of one batch, found by their ids."""

    def __init__(self, positions: Positions, request_ids: Column) -> None:
        """Take the positions, ascending and at least one, and the ids of the requests that stand there."""
        words = _words(request_ids)
        assert words is not None, "our ids are all of one length"
        self._words = words
        self._start = np.uint32(positions[0])
        count = int(positions[-1]) - int(positions[0]) + 1
        self._places: Positions | None = None  # without gaps each stands as far behind the first as it says
        if count != len(positions):
            # the last one is for all that is elsewhere: what is before is far beyond
            self._places = np.full(count + 1, -1, np.int64)
            self._places[positions - positions[0]] = np.arange(len(positions))

    def places(self, ids: "Sequence[str] | Column") -> Positions:
        """Return where among the positions each id stands, -1 for an id of no request of the batch."""
        column = _column(ids)
        words = _words(column)
        if words is not None:
            return self._found(words)
        whole = pc.equal(pc.call_function("binary_length", [column]), REQUEST_ID_LENGTH)
        found = np.full(len(column), -1, np.int64)
        words = _words(column.filter(whole))
        assert words is not None, "all that is left has the full length"
        found[np.flatnonzero(whole)] = self._found(words)
        return found

    def _found(self, words: Words) -> Positions:
        """Return where each id stands: where it says, if it is there from its first letter to its last."""
        steps = _hints(words) - self._start
        places = steps.astype(np.int64) if self._places is None else self._places.take(steps, mode="clip")
        places[~_same(self._words.take(places, axis=0, mode="clip"), words)] = -1
        return places


def _hints(words: Words) -> NDArray[np.uint32]:
    """Return the position each id says it has; what is no number says 0, or anything."""
    digits = np.ascontiguousarray(words[:, -1]).tobytes()
    try:
        numbers = binascii.unhexlify(digits)
    except binascii.Error:
        numbers = binascii.unhexlify(digits.translate(_OTHERS_TO_ZERO))
    return np.frombuffer(numbers, ">u4").astype(np.uint32)


def _same(ones: Words, others: Words) -> NDArray[np.bool_]:
    """Say which rows of four words are equal: four truths side by side are one number."""
    same: NDArray[np.bool_] = (ones == others).view(np.uint32).ravel() == _FOUR_TRUTHS
    return same


def _column(ids: "Sequence[str] | Column") -> Column:
    return ids if isinstance(ids, pa.Array) else strings(ids)


def _words(ids: Column) -> Words | None:
    """Return ids as rows of words, None if one of them has not the full length."""
    _, ends, letters = ids.buffers()
    if not len(ids):
        return np.empty((0, REQUEST_ID_LENGTH // 8), np.uint64)
    edges = np.frombuffer(ends, np.int32, count=ids.offset + len(ids) + 1)[ids.offset :]
    if ids.null_count or not (edges[1:] - edges[:-1] == REQUEST_ID_LENGTH).all():
        return None
    words = np.frombuffer(letters, np.uint8, count=edges[-1] - edges[0], offset=edges[0]).view(np.uint64)
    return words.reshape(len(ids), -1)
