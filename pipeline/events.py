"""What can happen to a run: facts in the past tense, kept for ever in commits.

Events carry ids, counts, keys and digests, never texts or secrets. A new field has a default; a field is never
renamed or retyped, a tag never reused: every past shape must go on decoding (tests/golden).
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from pipeline.domain import Counts
from pipeline.errors import CorruptObjectError
from pipeline.ids import BatchId, Digest, ExperimentName, RunId, digest

SCHEMA = 2
WITHOUT_ORIGIN = 1

Fault = Literal["content", "account", "rate"]
Asked = Literal["experiment", "segments"]
End = Literal["completed", "expired", "cancelled", "failed"]

# What the first version said in words that are fields now: `Refused.unsent`, `StatusChanged.awaits_files`.
_UNSENT = "not sent: "
_AWAITS_FILES = ", no files yet"


class Segment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A fixed part of a run's requests: `requests` of them from position `start` on."""

    start: int
    requests: int
    bytes: int


class RawPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One raw object of what came back, with the digest and size of its bytes before compression."""

    name: str
    key: str
    digest: Digest
    bytes: int

    @property
    def is_late(self) -> bool:
        """Whether it came for an attempt that had been given up."""
        return is_late(self.name)


_LATE = "late"


def late_name(number: int, part: str) -> str:
    """Return the name of a part of the batch that turned up as this number for attempts given up."""
    return f"{_LATE}{number}-{part}"


def is_late(part: str) -> bool:
    """Say whether a part of this name came for an attempt that had been given up."""
    return part.startswith(_LATE)


def is_of_errors(part: str) -> bool:
    """Say whether a part of this name holds requests that failed, and no answers."""
    return part.rpartition("-")[2] == "error"


class LineFault(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of the input that the provider named when it failed a batch; `line` counts from 1."""

    line: int | None
    reason: str


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="type"):
    """A fact about a run."""


class RunPlanned(Event, frozen=True, kw_only=True, gc=False, tag="run-planned"):
    """The run's requests are fixed, and the segments of those that can be asked at once.

    There are more requests than these segments hold where later ones go on from the answers to earlier ones
    (`TurnPlanned`).
    `asked` says what a person asked for: every run of the frozen experiment, or only segments named one by one.
    """

    experiment: ExperimentName
    experiment_digest: Digest
    run_digest: Digest
    requests: int
    attempts: int
    segments: tuple[Segment, ...]
    asked: Asked = "experiment"


class Resubmitted(Event, frozen=True, kw_only=True, gc=False, tag="resubmitted"):
    """A version of the experiment was submitted that names the run and has other settings that shape no request."""

    experiment_digest: Digest


class BatchPlanned(Event, frozen=True, kw_only=True, gc=False, tag="batch-planned"):
    """A segment, or what got no answer in the batch `after`, is to be sent.

    `send` counts the sendings of these requests, this one included. With `not_before` it waits until then, or for a
    person, because the account was at fault that the batch `after` got no answers: the `reason` says how. Where it was
    not the account's `fault` but the provider's own, nobody needs to come.
    """

    batch_id: BatchId
    segment: int
    send: int
    requests: int
    after: BatchId | None = None
    not_before: datetime | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET
    fault: Fault | msgspec.UnsetType = msgspec.UNSET


class TurnPlanned(Event, frozen=True, kw_only=True, gc=False, tag="turn-planned"):
    """Every request of the segment `after` has ended: what goes on from its answers is cut into these further segments.

    Segments are numbered through: these follow on those that were there before.
    """

    after: int
    segments: tuple[Segment, ...]


class InputStored(Event, frozen=True, kw_only=True, gc=False, tag="input-stored"):
    """What will be sent lies in the store, byte for byte; digest and size are those of the bare lines."""

    batch_id: BatchId
    key: str
    digest: Digest
    bytes: int
    requests: int


class AttemptOpened(Event, frozen=True, kw_only=True, gc=False, tag="attempt-opened"):
    """Its author, and nobody else, may now try once to create the batch under `batch_key`."""

    batch_id: BatchId
    attempt: int
    batch_key: str
    account: str | None = None


class FileUploaded(Event, frozen=True, kw_only=True, gc=False, tag="file-uploaded"):
    """The provider holds the input under its own name."""

    batch_id: BatchId
    attempt: int
    file_id: str


class Submitted(Event, frozen=True, kw_only=True, gc=False, tag="submitted"):
    """The provider took the batch and gave it its own id."""

    batch_id: BatchId
    attempt: int
    remote_id: str


class Uncertain(Event, frozen=True, kw_only=True, gc=False, tag="uncertain"):
    """Whether the provider has the batch is not known; it was looked for and not seen yet."""

    batch_id: BatchId
    attempt: int
    reason: str


class Adopted(Event, frozen=True, kw_only=True, gc=False, tag="adopted"):
    """The batch of an uncertain attempt was found at the provider; one that is not proven ours is never cancelled."""

    batch_id: BatchId
    attempt: int
    remote_id: str
    reason: str | None = None
    proven: bool = True


class Voided(Event, frozen=True, kw_only=True, gc=False, tag="voided"):
    """The attempt made no batch; another may be opened."""

    batch_id: BatchId
    attempt: int
    reason: str


class Held(Event, frozen=True, kw_only=True, gc=False, tag="held"):
    """A person must decide."""

    batch_id: BatchId
    attempt: int
    reason: str


class Refused(Event, frozen=True, kw_only=True, gc=False, tag="refused"):
    """The provider refused to make the batch, or its author did not ask (`unsent`): in either case there is none.

    A fault of the content ends its requests; a fault of the account or the rate burns no send.
    """

    batch_id: BatchId
    attempt: int
    fault: Fault
    reason: str
    code: str | None = None
    not_before: datetime | None = None
    needs_person: bool = False
    unsent: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def why_unsent(self) -> str | None:
        """Why the author did not ask the provider, None if it did."""
        is_unsent = self.unsent or self.reason.startswith(_UNSENT)
        return self.reason.removeprefix(_UNSENT) if is_unsent else None


class StatusChanged(Event, frozen=True, kw_only=True, gc=False, tag="status-changed"):
    """The provider calls the batch something else than before, or does not show (`awaits_files`) what it speaks of."""

    batch_id: BatchId
    status: str
    running: bool = True
    awaits_files: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def word(self) -> str:
        """The provider's own word."""
        return self.status.removesuffix(_AWAITS_FILES)

    @property
    def is_without_files(self) -> bool:
        """Whether the provider calls the batch over, but does not show its files yet."""
        return bool(self.awaits_files) or self.status.endswith(_AWAITS_FILES)


class CancelAsked(Event, frozen=True, kw_only=True, gc=False, tag="cancel-asked"):
    """A person wants no more of these batches; what was answered is kept."""

    batch_ids: tuple[BatchId, ...]


class Ended(Event, frozen=True, kw_only=True, gc=False, tag="ended"):
    """The batch is over at the provider; `parts` are what can be fetched, `lines` how many lines each has if told.

    A batch that failed for a reason of the account is sent again without burning a send: its `fault` says so.
    """

    batch_id: BatchId
    end: End
    status: str
    parts: dict[str, str] = {}
    faults: tuple[LineFault, ...] = ()
    fault: Fault | None = None
    not_before: datetime | None = None
    lines: dict[str, int] = {}


class OutputsStored(Event, frozen=True, kw_only=True, gc=False, tag="outputs-stored"):
    """What came back lies in the store, byte for byte, before anything read it."""

    batch_id: BatchId
    attempt: int
    parts: tuple[RawPart, ...]


class RowsPublished(Event, frozen=True, kw_only=True, gc=False, tag="rows-published"):
    """The rows of the requests that ended in this batch can be read; `again` requests have no row yet."""

    batch_id: BatchId
    key: str | None
    digest: Digest | None
    counts: Counts
    again: int = 0
    damaged: int = 0
    foreign: int = 0
    doubled: int = 0


class RemoteCleaned(Event, frozen=True, kw_only=True, gc=False, tag="remote-cleaned"):
    """The input we had uploaded was removed from the provider; its rows were durable before."""

    batch_id: BatchId


AnyEvent = (
    RunPlanned
    | Resubmitted
    | TurnPlanned
    | BatchPlanned
    | InputStored
    | AttemptOpened
    | FileUploaded
    | Submitted
    | Uncertain
    | Adopted
    | Voided
    | Held
    | Refused
    | StatusChanged
    | CancelAsked
    | Ended
    | OutputsStored
    | RowsPublished
    | RemoteCleaned
)


class Commit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One object of a log: events applied together, chained to the object before by its digest.

    `at` is for people; how long something lasts is measured by `uptime`, seconds since the start named `boot`. `schema`
    is 2 where the run has an origin: versions that know of none would take its answers for a stranger's, and read no 2.
    """

    commit_id: str
    run_id: RunId
    seq: int
    writer: str
    at: datetime
    prev: Digest | None
    events: tuple[AnyEvent, ...]
    epoch: int = 0
    boot: str = ""
    uptime: float = 0.0
    schema: Annotated[int, msgspec.Meta(le=SCHEMA)] = SCHEMA


class _Header(msgspec.Struct, frozen=True):
    """As much of a commit as any version can read."""

    schema: int
    events: tuple[dict[str, object], ...] = ()


_commits = msgspec.json.Decoder(Commit)
_headers = msgspec.json.Decoder(_Header)
_encoder = msgspec.json.Encoder()
_SUM = len(',"sum":""}') + 64
_NEWER = "written by a newer version of pairlog; upgrade this one"
_TAGS = {kind.__struct_config__.tag for kind in AnyEvent.__args__}


def encode_commit(commit: Commit) -> bytes:
    """Return the bytes of the commit's object: JSON whose last member is the digest of everything before it."""
    return _summed(_encoder.encode(commit)[:-1])


def decode_commit(body: bytes, *, key: str) -> Commit:
    """Return the commit, or raise CorruptObjectError that names the object."""
    if not is_whole(body):
        raise CorruptObjectError(f"{key}: its bytes were changed or cut; restore this object from a backup")
    try:
        return _commits.decode(body)
    except msgspec.DecodeError as error:
        raise CorruptObjectError(f"{key}: {_why_not(body)} ({error})") from error


def is_whole(body: bytes) -> bool:
    """Say whether the bytes of a commit are those that were written."""
    return _summed(body[:-_SUM]) == body


def _summed(body: bytes) -> bytes:
    return b'%b,"sum":"%b"}' % (body, digest(body).encode())


def decode_unproven(bodies: Iterable[bytes]) -> list[Commit]:
    """Return many commits at once; that they are whole is for the caller to prove, and none if one does not decode."""
    try:
        return list(map(_commits.decode, bodies))
    except msgspec.DecodeError:
        return []


def _why_not(body: bytes) -> str:
    try:
        header = _headers.decode(body)
    except msgspec.DecodeError:
        return "is not a commit; restore this object from a backup"
    unknown = {event.get("type") for event in header.events} - _TAGS
    if header.schema > SCHEMA or unknown:
        return _NEWER
    return "does not hold what a commit must hold; restore this object from a backup"
