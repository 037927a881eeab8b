"""Names and digests: every identifier is made here, and only here.

No identifier is ever parsed to learn what it stands for; the log and the tables say that. (A request id says where to
look for it; what is found there is compared with the whole of it. The batches of a segment are counted through.)
"""

import binascii
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NewType

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.permutation import mixed

ExperimentName = NewType("ExperimentName", str)
RunId = NewType("RunId", str)
SegmentId = NewType("SegmentId", str)
BatchId = NewType("BatchId", str)
RequestId = NewType("RequestId", str)
PairId = NewType("PairId", str)
SampleId = NewType("SampleId", str)
Digest = NewType("Digest", str)
Origin = NewType("Origin", str)

Digests = NDArray[np.uint64]
Places = NDArray[np.int64] | NDArray[np.int32]

EXPERIMENT_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_NOT_IN_RUN_IDS = re.compile(r"[^a-z0-9.-]")
_HEX = re.compile(r"[0-9a-f]+")
REQUEST_ID_LENGTH = 32
_DIGEST = 12  # bytes of a digest in an id: 96 bits, and a request id has its position besides
_APART = np.uint64(0x9E3779B97F4A7C15)
_LONGEST_RUN_ID = 180  # a folder name may have 255 bytes; suffixes and temporary names need room


def digest(data: bytes) -> Digest:
    """Return the SHA-256 of the bytes, in hex."""
    return Digest(hashlib.sha256(data).hexdigest())


def digest_of(value: Any) -> Digest:  # anything msgspec can encode
    """Return the SHA-256 of the value's canonical JSON."""
    return digest(msgspec.json.encode(value, order="sorted"))


def run_ids(experiment: ExperimentName, cells: Sequence[Sequence[str]]) -> list[RunId]:
    """Return one id for each cell of the grid, in order; cells that would share one get a digest."""
    taken: set[str] = set()
    made: list[RunId] = []
    for cell in cells:
        plain = "--".join([experiment, *(_NOT_IN_RUN_IDS.sub("-", part.lower()) for part in cell)])
        name = plain
        if plain in taken or len(plain) > _LONGEST_RUN_ID:
            name = f"{plain[:_LONGEST_RUN_ID]}-{digest_of(list(cell))[:8]}"
        taken.add(name)
        made.append(RunId(name))
    return made


def segment_id(run_id: RunId, index: int) -> SegmentId:
    """Return the name of a run's segment."""
    return SegmentId(f"{run_id}--s{index:03d}")


def batch_id(segment: int, number: int) -> BatchId:
    """Return the name of a segment's batch inside its run; number 1 is the first, later ones send again."""
    return BatchId(f"s{segment:03d}-{number}")


def following_batch_id(before: BatchId) -> BatchId:
    """Return the name of the batch that sends again what got no answer in the one before."""
    segment, _, number = before.rpartition("-")
    return BatchId(f"{segment}-{int(number) + 1}")


def name_digests(names: Iterable[str]) -> Digests:
    """Return 128 bits that stand for each name."""
    made = b"".join(hashlib.blake2b(name.encode(), digest_size=16, person=b"pairlog name").digest() for name in names)
    return np.frombuffer(made, "<u8").reshape(-1, 2)


class PairIds:
    """Makes the names of pairs of these samples, the same whichever of the two comes first.

    Each sample is hashed once; a pair is a mixture of two digests, made for many pairs at a time.
    """

    def __init__(self, samples: Iterable[SampleId]) -> None:
        self._samples = name_digests(samples)

    def digests(self, ones: Places, others: Places) -> Digests:
        """Return 128 bits that stand for each pair of the samples at these places."""
        one, other = self._samples[ones], self._samples[others]
        return mixed(np.minimum(one, other) ^ mixed(np.maximum(one, other) + _APART))

    def encoded(self, ones: Places, others: Places) -> NDArray[np.bytes_]:
        """Return the names of the pairs of the samples at these places, as bytes."""
        return _hex(_bytes(self.digests(ones, others))[:, :_DIGEST])


class RequestIds:
    """Makes the request ids of one run: `[a-z0-9]{32}`, the same in every attempt.

    The last eight digits are the request's position in the run: a hint where to look, which proves nothing. An id is
    known only when all of it is the id of that position.
    """

    def __init__(self, run_digest: Digest) -> None:
        self._run = name_digests([run_digest])

    def encoded(self, positions: NDArray[np.int64], names: Digests) -> NDArray[np.bytes_]:
        """Return the ids of the requests at these positions, about what has these digests (pairs, samples, turns)."""
        rows = np.empty((len(positions), REQUEST_ID_LENGTH // 2), np.uint8)
        rows[:, :_DIGEST] = _bytes(mixed(names + self._run))[:, :_DIGEST]
        rows[:, _DIGEST:] = positions.astype(">u4").view(np.uint8).reshape(-1, 4)
        return _hex(rows)


def _bytes(digests: Digests) -> NDArray[np.uint8]:
    return digests.astype("<u8").view(np.uint8)


def _hex(rows: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Return the bytes of each row in hex."""
    return np.frombuffer(binascii.hexlify(rows.tobytes()), f"S{2 * rows.shape[1]}")


def hinted_position(request_id: str) -> int | None:
    """Return where in its run a request of this id would be, if it is one of ours."""
    hint = request_id[2 * _DIGEST :]
    return int(hint, 16) if len(request_id) == REQUEST_ID_LENGTH and _HEX.fullmatch(hint) else None
