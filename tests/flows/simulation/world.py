"""The world of a simulation: a store and a provider that several workers share, with a bill that tells the truth."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal
from zlib import crc32

import msgspec

from pipeline.domain import Judge
from pipeline.errors import OutcomeUnknownError, RejectedError, UnavailableError
from pipeline.events import End
from pipeline.providers import RemoteBatch, Sought, Submission
from pipeline.storage.memory import MemoryStore
from tests.flows.simulation.scheduler import START, Actor, Scheduler

Personality = Literal["exact", "probable"]
_THEIRS = "theirs-"
ANSWER = {"message": {"content": "<BETTER_SAMPLE>SAMPLE_1</BETTER_SAMPLE>"}, "finish_reason": "stop"}


class SharedStore:
    """One worker's way to the store they all share."""

    def __init__(self, inner: MemoryStore, actor: Actor) -> None:
        self._inner = inner
        self._actor = actor
        self.url = inner.url

    def put_new(self, key: str, body: bytes) -> None:
        self._actor.boundary(f"put {key}")
        self._inner.put_new(key, body)
        self._actor.boundary(f"did put {key}")

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        self.put_new(key, b"".join(chunks))

    def get(self, key: str) -> bytes:
        return self._inner.get(key)

    def open(self, key: str) -> BinaryIO:
        return self._inner.open(key)

    def exists(self, key: str) -> bool:
        self._actor.boundary(f"exists {key}")
        return self._inner.exists(key)

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        self._actor.boundary(f"list {folder}")
        return self._inner.list_from(folder, after=after)


class _Batch(msgspec.Struct):
    remote_id: str
    batch_key: str | None
    file_id: str | None
    lines: list[bytes]
    applied_at: float
    ends_at: float
    unanswered: set[str]
    executed: bool = False
    cancelled: bool = False
    failed: bool = False


class Provider:
    """A provider that several workers call; what it executed is paid for."""

    def __init__(self, scheduler: Scheduler, personality: Personality, *, faults: float, quiet: float) -> None:
        self.scheduler = scheduler
        self.personality = personality
        self.billed: Counter[str] = Counter()
        self.creates: Counter[str] = Counter()
        self.files: dict[str, list[bytes]] = {}
        self.uploads = 0
        self.batches: dict[str, _Batch] = {}
        self._faults = faults
        self._latest = quiet * (1.5 if personality == "exact" else 0.5)

    def is_hit(self, share: float = 1.0) -> bool:
        return self.scheduler.random.random() < self._faults * share

    def make(self, submission: Submission, file_id: str | None, lines: list[bytes], *, late: float) -> _Batch:
        now = self.scheduler.now + late
        ids = [json.loads(line)["custom_id"] for line in lines]
        expires = self.is_hit()
        batch = _Batch(
            remote_id=f"b{len(self.batches):03d}",
            batch_key=submission.batch_key if self.personality == "exact" else None,
            file_id=file_id,
            lines=lines,
            applied_at=now,
            ends_at=now + self.scheduler.random.uniform(1, 400),
            unanswered={each for each in ids if expires and self.scheduler.random.random() < 0.4},
        )
        self.batches[batch.remote_id] = batch
        return batch

    def make_for_a_colleague(self, number: int, *, requests: int) -> None:
        """Make a batch that is not ours, though it looks like one of ours."""
        lines = [json.dumps({"custom_id": f"{_THEIRS}{number}-{each}"}).encode() for each in range(requests)]
        name, judge = f"{_THEIRS}{number}", Judge(provider="p", model="m")
        theirs = Submission(
            batch_key=name, labels={}, judge=judge, requests=requests, size=1, chunks=lambda: iter(lines)
        )
        self.files[name] = lines
        self.make(theirs, name if self.personality == "exact" else None, lines, late=0.0)

    def cancelled_of_a_colleague(self) -> list[str]:
        """Return the batches that were not ours and that somebody of us stopped all the same."""
        theirs = (each for each in self.batches.values() if _THEIRS.encode() in each.lines[0])
        return [each.remote_id for each in theirs if each.cancelled]

    def look(self, batch: _Batch) -> _Batch:
        """Bring the batch to what it is now; a file that is gone when it begins fails it, free of charge."""
        now = self.scheduler.now
        if not batch.executed and now >= batch.applied_at and batch.file_id is not None:
            batch.failed = batch.failed or batch.file_id not in self.files
        if not batch.executed and now >= batch.ends_at:
            batch.executed = True
            if not batch.failed:
                for line in batch.lines:
                    custom_id = json.loads(line)["custom_id"]
                    if custom_id not in batch.unanswered and not _is_stopped(batch, custom_id):
                        self._bill(custom_id)
                    else:
                        batch.unanswered.add(custom_id)
        return batch

    def _bill(self, custom_id: str) -> None:
        if not custom_id.startswith(_THEIRS):
            self.billed[custom_id] += 1

    def settle_everything(self) -> None:
        """Let every batch that ever landed run to its end, so that the bill is complete."""
        self.scheduler.now += 1e6
        for batch in self.batches.values():
            self.look(batch)


def _is_stopped(batch: _Batch, custom_id: str) -> bool:
    """Say whether a cancelled batch was stopped before this request; about half of them are answered by then."""
    return batch.cancelled and crc32(f"{batch.remote_id} {custom_id}".encode()) % 2 == 0


class Client:
    """One worker's connection to the provider."""

    def __init__(self, provider: Provider, actor: Actor) -> None:
        self._provider = provider
        self._actor = actor
        self.account = "account1"

    def upload(self, submission: Submission) -> str | None:
        self._actor.boundary("upload")
        provider = self._provider
        if provider.is_hit(0.3):
            raise UnavailableError("upload: 503")
        if provider.personality == "probable":
            return None
        provider.uploads += 1
        file_id = f"f{provider.uploads:03d}"
        provider.files[file_id] = b"".join(submission.chunks()).splitlines()
        self._actor.boundary("did upload")
        return file_id

    def create(self, submission: Submission, *, file_id: str | None) -> str:
        provider = self._provider
        lines = provider.files.get(file_id, []) if file_id else b"".join(submission.chunks()).splitlines()
        self._actor.boundary("create")
        provider.creates[submission.batch_key] += 1
        if provider.is_hit(0.3):
            raise UnavailableError("create: 429", retry_after=5.0)
        if provider.is_hit(0.3):
            raise OutcomeUnknownError("create: reset before it was applied")
        if provider.is_hit(0.3):
            provider.make(submission, file_id, lines, late=provider.scheduler.random.uniform(0, provider._latest))
            raise OutcomeUnknownError("create: timed out, applied later")
        batch = provider.make(submission, file_id, lines, late=0.0)
        self._actor.boundary("did create")
        if provider.is_hit(0.5):
            raise OutcomeUnknownError("create: 504, applied")
        return batch.remote_id

    def find(self, sought: Sought) -> list[RemoteBatch]:
        self._actor.boundary("list batches")
        return [remote for remote in self._listed() if remote.batch_key == sought.batch_key]

    def _listed(self) -> Iterator[RemoteBatch]:
        for batch in self._provider.batches.values():
            if batch.applied_at <= self._provider.scheduler.now:
                yield _remote(self._provider.look(batch))

    def status(self, remote_id: str) -> RemoteBatch:
        self._actor.boundary("poll")
        if self._provider.is_hit(0.2):
            raise UnavailableError("poll: 500")
        batch = self._provider.batches.get(remote_id)
        if batch is None:
            raise RejectedError("no such batch", status=404)
        return _remote(self._provider.look(batch))

    def download(self, handle: str) -> Iterator[bytes]:
        self._actor.boundary("download")
        if self._provider.is_hit(0.2):
            raise UnavailableError("download: cut")
        batch = self._provider.batches[handle]
        for line in batch.lines:
            custom_id = json.loads(line)["custom_id"]
            if custom_id not in batch.unanswered:
                response = {"status_code": 200, "body": {"choices": [ANSWER]}}
                yield json.dumps({"custom_id": custom_id, "response": response}).encode() + b"\n"
        yield b""

    def cancel(self, remote_id: str) -> None:
        self._actor.boundary("cancel")
        batch = self._provider.look(self._provider.batches[remote_id])
        if not batch.executed:
            batch.cancelled = True
            batch.ends_at = self._provider.scheduler.now

    def discard(self, file_id: str) -> None:
        self._actor.boundary("discard")
        self._provider.files.pop(file_id, None)

    def check(self) -> str:
        return "fine"

    def close(self) -> None:
        pass


class ProbableClient(Client):
    """A connection to a provider that shows no key of ours."""

    def find(self, sought: Sought) -> list[RemoteBatch]:
        return []

    def candidates(self, *, since: datetime, requests: int) -> list[RemoteBatch]:
        self._actor.boundary("list batches")
        alike = (each for each in self._listed() if each.requests == requests)
        return [each for each in alike if each.created_at and each.created_at >= since]

    def custom_ids(self, remote_id: str) -> Iterator[str]:
        self._actor.boundary("read ids")
        batch = self._provider.batches[remote_id]
        return iter([json.loads(line)["custom_id"] for line in batch.lines])


def _remote(batch: _Batch) -> RemoteBatch:
    created = datetime.fromtimestamp(START.timestamp() + batch.applied_at, UTC)
    common: dict[str, Any] = {"batch_key": batch.batch_key, "requests": len(batch.lines), "created_at": created}
    if batch.failed:
        return RemoteBatch(remote_id=batch.remote_id, status="failed", end="failed", fault="rate", **common)
    if not batch.executed:
        return RemoteBatch(remote_id=batch.remote_id, status="in_progress", **common)
    end: End = "cancelled" if batch.cancelled else "expired" if batch.unanswered else "completed"
    return RemoteBatch(remote_id=batch.remote_id, status=end, end=end, parts={"output": batch.remote_id}, **common)
