"""Names and digests: every identifier is made here, and only here.

No identifier is ever parsed to learn what it stands for; the log and the tables say that.
"""

import hashlib
import re
from collections.abc import Sequence
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


def pair_id(one: SampleId, other: SampleId) -> PairId:
    """Return the name of the pair, the same whichever sample comes first."""
    low, high = sorted((one.encode(), other.encode()))
    name = hashlib.blake2b(b"%d:%b%b" % (len(low), low, high), digest_size=12, person=b"pairlog pair")
    return PairId(name.hexdigest())


class RequestIds:
    """Makes the request ids of one run: `[a-z0-9]{32}`, the same in every attempt."""

    def __init__(self, run_digest: Digest) -> None:
        self._seed = hashlib.blake2b(run_digest.encode(), digest_size=16, person=b"pairlog request")

    def of(self, subject: str) -> RequestId:
        """Return the id of the request about this subject (a pair's or a sample's id)."""
        made = self._seed.copy()
        made.update(subject.encode())
        return RequestId(made.hexdigest())
