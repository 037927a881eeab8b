"""Sending a group of batches: announced in one commit, created one by one, and recorded in few.

Only the author of `AttemptOpened` may create, once, and only after a last look at the log. What it announced and did
not send it records as not sent, as long as it lives: nobody needs to look for those.

A provider that cannot tell our batches apart by a key gets one batch at a time, and none while another is unsettled:
who announced looks for others after that, so that of two who do, at least one sees the other and leaves. A lease saves
them from meeting.
"""

import contextlib
import math
from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from pipeline import planning
from pipeline.errors import (
    AccountError,
    ConflictError,
    CorruptObjectError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    UnavailableError,
)
from pipeline.events import AttemptOpened, FileUploaded, Refused, Submitted, Uncertain
from pipeline.ids import BatchId
from pipeline.operations.batches.recording import facts
from pipeline.operations.batches.settling import Unsettled, settle_elsewhere, unsettled_elsewhere
from pipeline.operations.workers.run import Run
from pipeline.providers import ProbableProvider, Submission
from pipeline.state import NOT_SENT, BatchState
from pipeline.storage.streams import Measured, decompressed

_SEND_DEADLINE = 60.0
_BREATHER = 30.0
_INTERRUPTED = "the worker was interrupted"
_TAKEN_OVER = "another worker has taken the run over"
_NOT_ALONE = "another create at this provider is not settled"
_UNWANTED = "cancelled, or doubted by another worker, in the meantime"


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """How many batches of a group went out, and whether the provider can be asked for more now."""

    batches: int = 0
    go_on: bool = True


def send(run: Run, batches: list[BatchState], *, mended: bool) -> Sent:
    """Try once to create each of these prepared batches at the provider."""
    with _alone(run, batches) as free:
        opened = _announced(run, {batch.batch_id for batch in batches}, mended=mended) if free else []
        group = _Group(run, opened)
        group.send()
        return Sent(batches=group.sent, go_on=group.goes_on)


@contextlib.contextmanager
def _alone(run: Run, batches: list[BatchState]) -> Iterator[bool]:
    """Give False while another create of a provider that cannot tell ours apart is on its way or unsettled."""
    provider = run.provider
    if not isinstance(provider, ProbableProvider):
        yield True
        return
    (batch,) = batches
    leases, name = run.worker.leases, f"provider--{run.config.judge.provider}--{provider.account}"
    try:
        is_taken = leases.take(name) is None
        other = None if is_taken else settle_elsewhere(run, batch.batch_id)
        if is_taken:
            run.notify(batch, "waits for another worker that sends to this provider")
        else:
            _tell_behind(run, batch, other)
        yield not is_taken and other is None
    finally:
        leases.give_back(name)


def _tell_behind(run: Run, batch: BatchState, other: Unsettled | None) -> None:
    """Say what the run's unsent batches wait for; what this key cannot look for is a trouble of theirs as well."""
    unsent = [each.batch_id for each in run.state.batches.active.values() if each.phase in NOT_SENT]
    why = other.run.troubles.get(other.batch.batch_id) if other else None
    for batch_id in unsent:
        run.troubles.pop(batch_id, None)
    if other and why:
        run.troubles |= dict.fromkeys(unsent, f"waits for a batch of {other.run.run_id}: {why}")
    elif other:
        named = f"{other.run.run_id} {other.batch.batch_id}"
        run.notify(batch, f"waits until it is settled whether {named} is at this provider")


def _announced(run: Run, wanted: set[BatchId], *, mended: bool) -> list[AttemptOpened]:
    """Open an attempt for each of the batches that is still to be sent, in one commit; one of no lines ends in it."""
    while True:
        due = planning.due(run.refresh(), run.worker.clock.now(), mended=mended).submit
        batches = [batch for batch in due if batch.batch_id in wanted]
        opened = [_attempt(run, batch) for batch in batches]
        empty = {batch.batch_id for batch in batches if batch.input is not None and not batch.input.requests}
        nothing = [_nothing_to_send(each) for each in opened if each.batch_id in empty]
        try:
            if opened:
                run.decide(*opened, *nothing)
        except ConflictError:
            continue
        return [each for each in opened if each.batch_id not in empty]


def _attempt(run: Run, batch: BatchState) -> AttemptOpened:
    return AttemptOpened(
        batch_id=batch.batch_id,
        attempt=batch.attempt + 1,
        batch_key=f"pl-{run.worker.clock.nonce()}",
        account=run.provider.account,
    )


def _nothing_to_send(opened: AttemptOpened) -> Refused:
    reason = "every line is larger than a batch may be"
    return Refused(batch_id=opened.batch_id, attempt=opened.attempt, fault="content", reason=reason, code="too_large")


class _Group:
    """Attempts that this worker announced; each ends as sent, refused, uncertain, or not sent and said so."""

    def __init__(self, run: Run, opened: list[AttemptOpened]) -> None:
        self._run = run
        self._waiting = {each.batch_id: each for each in opened}
        self._files: dict[BatchId, str] = {}
        self._created: dict[BatchId, str] = {}
        self._unused: list[BatchId] = []
        self._records = facts(run)
        self._stopped = _INTERRUPTED
        self._pause: Refused | None = None
        self.goes_on = True
        self.sent = 0

    def send(self) -> None:
        """Upload all, then create all; whatever stops this worker, what it did not send is recorded as not sent."""
        try:
            for opened in list(self._waiting.values()):
                if self.goes_on and self._is_held():
                    self._upload(opened)
            self._records.flush()
            for opened in list(self._waiting.values()):
                if self.goes_on and self._may_create(opened):
                    self._create(opened)
        finally:
            for opened in list(self._waiting.values()):
                self._leave(opened, self._stopped)
            self._records.flush()
        self._stop_what_came_too_late()
        self._tidy()

    def _is_held(self) -> bool:
        """Say whether the run is still in this worker's hands; stop if it is not."""
        self.goes_on = self._run.keep()
        if not self.goes_on:
            self._stopped = _TAKEN_OVER
        return self.goes_on

    def _upload(self, opened: AttemptOpened) -> None:
        submission = _submission(self._run, opened)
        try:
            file_id = self._run.provider.upload(submission)
        except ProviderError as error:
            self._failed(opened, error)
            return
        if file_id is not None:
            self._files[opened.batch_id] = file_id
            uploaded = FileUploaded(batch_id=opened.batch_id, attempt=opened.attempt, file_id=file_id)
            self._records.add(uploaded, size=submission.size)

    def _may_create(self, opened: AttemptOpened) -> bool:
        """Take the last look before the money: nobody is beside us, doubts the attempt, took over, or held us up."""
        if unsettled_elsewhere(self._run, opened.batch_id) is not None:
            self._leave(opened, _NOT_ALONE)
            return False
        clock = self._run.worker.clock
        looked = clock.monotonic()
        batch = self._run.refresh().batches[opened.batch_id]
        if batch.attempt != opened.attempt or batch.phase != "submitting" or batch.cancel_asked:
            self._leave(opened, _UNWANTED)
            return False
        if self._is_held() and clock.monotonic() - looked > _SEND_DEADLINE:
            self._failed(opened, UnavailableError("the worker was held up before it could send"))
        return self.goes_on

    def _create(self, opened: AttemptOpened) -> None:
        del self._waiting[opened.batch_id]
        submission = _submission(self._run, opened, within=self._run.worker.pace.quiet / 2)
        self._records.begin(submission.size)
        try:
            remote_id = self._run.provider.create(submission, file_id=self._files.get(opened.batch_id))
        except ProviderError as error:
            self._failed(opened, error)
            return
        created = Submitted(batch_id=opened.batch_id, attempt=opened.attempt, remote_id=remote_id)
        self._records.add(created, size=submission.size)
        self._created[opened.batch_id] = remote_id
        self.sent += 1
        self._run.notify(self._run.state.batches[opened.batch_id], f"submitted as {remote_id}")

    def _failed(self, opened: AttemptOpened, error: ProviderError) -> None:
        """Record why nothing, or nothing certain, was created; a fault of account or rate stops the group."""
        self._waiting.pop(opened.batch_id, None)
        self._run.notify(self._run.state.batches[opened.batch_id], str(error), warning=True)
        event = _outcome(self._run, opened, error)
        self._records.add(event)
        if isinstance(event, Refused):
            self._unused.append(opened.batch_id)
            if event.fault != "content":
                self._pause, self.goes_on, self._stopped = event, False, event.reason

    def _leave(self, opened: AttemptOpened, why: str) -> None:
        """Record that the attempt was not sent: a fact, for only its author could have sent it."""
        del self._waiting[opened.batch_id]
        self._unused.append(opened.batch_id)
        plain = Refused(batch_id=opened.batch_id, attempt=opened.attempt, fault="rate", reason="")
        like = self._pause or plain
        self._records.add(replace(like, batch_id=opened.batch_id, attempt=opened.attempt, reason=why, unsent=True))

    def _stop_what_came_too_late(self) -> None:
        """Cancel what others had given up meanwhile and replaced; its answers, as far as it got, are used."""
        batches = self._run.state.batches
        with contextlib.suppress(ProviderError):
            for batch_id, remote_id in self._created.items():
                if remote_id in batches[batch_id].superseded:
                    self._run.provider.cancel(remote_id)

    def _tidy(self) -> None:
        """Remove inputs that no batch will use; what is left is removed when the rows are durable."""
        with contextlib.suppress(ProviderError):
            for batch_id in self._unused:
                if batch_id in self._files:
                    self._run.provider.discard(self._files[batch_id])


def _submission(run: Run, opened: AttemptOpened, *, within: float = math.inf) -> Submission:
    """Return what is handed over; handing it over breaks off, so that nothing comes of it, after so many seconds."""
    stored = run.state.batches[opened.batch_id].input
    assert stored is not None, "only a prepared batch is submitted"
    clock = run.worker.clock
    latest = clock.monotonic() + within

    def chunks() -> Iterator[bytes]:
        with run.worker.store.open(stored.key) as file:
            checked = Measured(decompressed(file, key=stored.key))
            for chunk in checked:
                if clock.monotonic() > latest:
                    raise UnavailableError("the provider took the lines too slowly; the create was broken off")
                yield chunk
        if checked.digest() != stored.digest:
            raise CorruptObjectError(
                f"{stored.key} is not what was prepared, and nothing was sent; restore it from a backup"
            )

    return Submission(
        batch_key=opened.batch_key,
        labels={"run": run.run_id, "batch": opened.batch_id, "attempt": str(opened.attempt)},
        judge=run.config.judge,
        requests=stored.requests,
        size=stored.bytes,
        chunks=chunks,
    )


def _outcome(run: Run, opened: AttemptOpened, error: ProviderError) -> Refused | Uncertain:
    """Return what the error says about the attempt."""
    batch_id, attempt = opened.batch_id, opened.attempt
    if isinstance(error, OutcomeUnknownError):
        return Uncertain(batch_id=batch_id, attempt=attempt, reason=str(error))
    if isinstance(error, RejectedError) and not error.is_of_another_place:
        return Refused(batch_id=batch_id, attempt=attempt, fault="content", reason=str(error), code=error.code)
    at_fault = isinstance(error, AccountError | RejectedError)
    return Refused(
        batch_id=batch_id,
        attempt=attempt,
        fault="account" if at_fault else "rate",
        reason=str(error),
        code=error.code if isinstance(error, AccountError | RejectedError) else None,
        not_before=_not_before(run, error),
        needs_person=at_fault and not (isinstance(error, AccountError) and error.mendable_by_waiting),
    )


def _not_before(run: Run, error: ProviderError) -> datetime:
    """Return when to ask again: when the provider says, else after a pause; a mere hiccup needs a short one."""
    asked = error.retry_after if isinstance(error, UnavailableError | AccountError) else None
    pause = run.worker.pace.pause
    if isinstance(error, UnavailableError):
        pause = min(pause, _BREATHER)
    return run.worker.clock.now() + timedelta(seconds=pause if asked is None else asked)
