"""Names and digests: every identifier is made here, and only here.

No identifier is ever parsed to learn what it stands for; the log and the tables say that. (A request id says where to
look for it; what is found there is compared with the whole of it.)
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NewType

import msgspec

ExperimentName = NewType("ExperimentName", str)
RunId = NewType("RunId", str)
SegmentId = NewType("SegmentId", str)
BatchId = NewType("BatchId", str)
RequestId = NewType("RequestId", str)
PairId = NewType("PairId", str)
SampleId = NewType("SampleId", str)
Digest = NewType("Digest", str)

EXPERIMENT_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_NOT_IN_RUN_IDS = re.compile(r"[^a-z0-9.-]")
_HEX = re.compile(r"[0-9a-f]+")
REQUEST_ID_LENGTH = 32
_HINT = 24
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
    """Return the name of a run's slice."""
    return SegmentId(f"{run_id}--s{index:03d}")


def batch_id(segment: int, number: int) -> BatchId:
    """Return the name of a slice's batch inside its run; number 1 is the first, later ones send again."""
    return BatchId(f"s{segment:03d}-{number}")


class PairIds:
    """Makes the names of pairs of these samples: a digest, the same whichever of the two comes first."""

    def __init__(self, samples: Iterable[SampleId]) -> None:
        self._names = [sample.encode() for sample in samples]
        self._begun = [b"%d:%b" % (len(name), name) for name in self._names]
        self._seed = hashlib.blake2b(digest_size=12, person=b"pairlog pair")

    def of(self, ones: Iterable[int], others: Iterable[int]) -> list[PairId]:
        """Return the names of the pairs of the samples at these places."""
        names, begun, copy = self._names, self._begun, self._seed.copy
        made: list[PairId] = []
        for one, other in zip(ones, others, strict=True):
            name = copy()
            if names[one] < names[other]:
                name.update(begun[one] + names[other])
            else:
                name.update(begun[other] + names[one])
            made.append(PairId(name.hexdigest()))
        return made


class RequestIds:
    """Makes the request ids of one run: `[a-z0-9]{32}`, the same in every attempt.

    The last eight digits are the request's position in the run: a hint where to look, which proves nothing. An id is
    known only when all of it is the id of that position.
    """

    def __init__(self, run_digest: Digest) -> None:
        self._seed = hashlib.blake2b(run_digest.encode(), digest_size=12, person=b"pairlog request")

    def of(self, positions: Iterable[int], subjects: Iterable[str]) -> list[RequestId]:
        """Return the ids of the requests at these positions about these subjects (ids of pairs or samples)."""
        copy = self._seed.copy
        made: list[RequestId] = []
        for position, subject in zip(positions, subjects, strict=True):
            name = copy()
            name.update(subject.encode())
            made.append(RequestId(f"{name.hexdigest()}{position:08x}"))
        return made


def hinted_position(request_id: str) -> int | None:
    """Return where in its run a request of this id would be, if it is one of ours."""
    hint = request_id[_HINT:]
    return int(hint, 16) if len(request_id) == REQUEST_ID_LENGTH and _HEX.fullmatch(hint) else None
