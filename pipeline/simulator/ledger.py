"""What the simulator did and billed: the oracle of "never paid twice".

Entries are facts, written once and flushed one by one to a file of JSON lines. What was billed can be a million entries
and is read back from that file; everything else is also kept in memory.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

Outcome = Literal["first", "second", "tie"]
FileAction = Literal["uploaded", "written", "downloaded", "deleted"]


class CreateReceived(msgspec.Struct, frozen=True, kw_only=True, tag="create"):
    """A call to create a batch: `applied` if there is a batch now, `refused` if not; `status` 0 is no answer."""

    at: float
    wire: str
    account: str
    input_file_id: str | None
    metadata: Mapping[str, str] | None
    outcome: Literal["applied", "refused"]
    status: int
    batch_id: str | None
    fault: str | None


class BatchCreated(msgspec.Struct, frozen=True, kw_only=True, tag="batch"):
    """A batch that exists at the provider; `remote_id` is what its maker was told it is called."""

    at: float
    wire: str
    batch_id: str
    remote_id: str
    input_file_id: str | None
    metadata: Mapping[str, str] | None


class BatchEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """How a batch ended."""

    at: float
    batch_id: str
    status: str
    total: int
    completed: int
    failed: int


class Billed(msgspec.Struct, frozen=True, kw_only=True, tag="billed"):
    """One request that was executed and is paid for.

    `batch_id` is None for a live call. `first` and `second` are the SHA-256 of the texts. `delivered` is False where a
    fault took the answer away, so that it is right to ask again.
    """

    at: float
    wire: str
    batch_id: str | None
    custom_id: str | None
    model: str
    first: str | None
    second: str | None
    outcome: Outcome | None
    input_tokens: int
    output_tokens: int
    delivered: bool = True


class FileTouched(msgspec.Struct, frozen=True, kw_only=True, tag="file"):
    """A file that was uploaded, written by a batch, downloaded or deleted; `bytes` is what went over the wire."""

    at: float
    wire: str
    file_id: str
    action: FileAction
    filename: str
    bytes: int


class CancelReceived(msgspec.Struct, frozen=True, kw_only=True, tag="cancel"):
    """A call to cancel a batch."""

    at: float
    wire: str
    batch_id: str
    outcome: Literal["applied", "refused"]


Entry = CreateReceived | BatchCreated | BatchEnded | Billed | FileTouched | CancelReceived
_encoder = msgspec.json.Encoder()
_billed = msgspec.json.Decoder(Billed)


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over everything that was billed."""

    requests: int = 0
    live: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Ledger:
    """An append-only record; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = path.open("ab", buffering=0)
        self._start = path.stat().st_size
        self._kept: list[Entry] = []
        self._totals = Totals()

    def record(self, entry: Entry) -> None:
        """Write the entry down."""
        with self._lock:
            self._file.write(_encoder.encode(entry) + b"\n")
            if isinstance(entry, Billed):
                self._totals = Totals(
                    requests=self._totals.requests + 1,
                    live=self._totals.live + (entry.batch_id is None),
                    input_tokens=self._totals.input_tokens + entry.input_tokens,
                    output_tokens=self._totals.output_tokens + entry.output_tokens,
                )
            else:
                self._kept.append(entry)

    @property
    def totals(self) -> Totals:
        """What was billed so far, summed."""
        with self._lock:
            return self._totals

    @property
    def creates(self) -> list[CreateReceived]:
        """Every call to create a batch, in order."""
        return [entry for entry in self._entries() if isinstance(entry, CreateReceived)]

    @property
    def batches(self) -> list[BatchCreated]:
        """Every batch that came to be, in order."""
        return [entry for entry in self._entries() if isinstance(entry, BatchCreated)]

    @property
    def ended(self) -> list[BatchEnded]:
        """Every batch that ended, in order."""
        return [entry for entry in self._entries() if isinstance(entry, BatchEnded)]

    @property
    def files(self) -> list[FileTouched]:
        """Everything that was done to files, in order."""
        return [entry for entry in self._entries() if isinstance(entry, FileTouched)]

    @property
    def cancels(self) -> list[CancelReceived]:
        """Every call to cancel a batch, in order."""
        return [entry for entry in self._entries() if isinstance(entry, CancelReceived)]

    def _entries(self) -> list[Entry]:
        with self._lock:
            return list(self._kept)

    def billed(self) -> Iterator[Billed]:
        """Yield what was billed since this ledger was opened, in order, read from the file."""
        for line in self.billed_lines():
            yield _billed.decode(line)

    def billed_lines(self) -> Iterator[bytes]:
        """Yield the JSON of what was billed."""
        with self.path.open("rb") as file:
            file.seek(self._start)
            for line in file:
                if line.startswith(b'{"type":"billed"') and line.endswith(b"\n"):
                    yield line[:-1]

    def times_billed(self) -> Counter[str]:
        """Return how often each request of a batch was paid for, by `custom_id`."""
        return Counter(entry.custom_id for entry in self.billed() if entry.custom_id is not None)

    def paid_twice(self) -> list[str]:
        """Return each `custom_id` that was paid for again although an earlier answer had been delivered whole."""
        delivered: set[str] = set()
        again: dict[str, None] = {}
        for entry in self.billed():
            if entry.custom_id is not None and entry.custom_id in delivered:
                again[entry.custom_id] = None
            if entry.custom_id is not None and entry.delivered:
                delivered.add(entry.custom_id)
        return list(again)

    def close(self) -> None:
        """Close the file; the entries stay readable."""
        self._file.close()
