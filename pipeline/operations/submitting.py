"""Sending batches: the one thing that costs money, announced before and recorded after.

Only the author of `AttemptOpened` may create, once, and only while the announcement is fresh.
"""

import contextlib
from collections.abc import Container, Iterable, Iterator
from datetime import timedelta

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
from pipeline.events import (
    AttemptOpened,
    Fault,
    FileUploaded,
    InputStored,
    Refused,
    RunPlanned,
    Submitted,
    Uncertain,
)
from pipeline.ids import BatchId, Digest
from pipeline.operations.settling import unsettled_elsewhere
from pipeline.operations.worker import Run
from pipeline.providers import ProbableProvider, Submission
from pipeline.state import BatchState
from pipeline.storage import keys
from pipeline.storage.streams import Measured, compressed, decompressed

_SEND_DEADLINE = 60.0
_BATCHES_A_COMMIT = 1_000
_BREATHER = 30.0


def open_run(run: Run, plan: RunPlanned) -> None:
    """Fix the run's slices, and plan the first batch of each if the whole experiment was asked for."""
    state = run.refresh()
    if state.plan is None:
        batches = planning.first_batches(enumerate(plan.segments)) if plan.asked == "experiment" else []
        try:
            run.decide(plan, *batches[:_BATCHES_A_COMMIT])
        except ConflictError:
            state = run.refresh()
    if plan.asked == "experiment" and state.plan is not None and state.plan.asked == "segments":
        run.record(plan)
    complete_plan(run)


def complete_plan(run: Run) -> None:
    """Plan the slices of an experiment asked for as a whole that an interrupted planner left out."""
    while (plan := run.refresh().plan) is not None and plan.asked == "experiment":
        missing = planning.unasked(run.state)[:_BATCHES_A_COMMIT]
        if not missing:
            return
        try:
            run.decide(*planning.first_batches((index, plan.segments[index]) for index in missing))
        except ConflictError:
            continue


def ask_for(run: Run, segments: Iterable[int]) -> None:
    """Plan the first batch of these slices, unless they are planned already."""
    wanted = set(segments)
    while (plan := run.refresh().plan) is not None:
        missing = [index for index in planning.unasked(run.state) if index in wanted][:_BATCHES_A_COMMIT]
        if not missing:
            return
        try:
            run.decide(*planning.first_batches((index, plan.segments[index]) for index in missing))
        except ConflictError:
            continue


def submit_due(run: Run, *, mended: bool = False, only: Container[int] | None = None) -> int:
    """Prepare and send every batch that is due; return how many went out.

    Args:
        mended: also try what an account's fault stopped: a person is here and may have mended it.
        only: send nothing but these slices.
    """
    sent = 0
    for batch_id in _due(run, mended=mended, only=only):
        if not run.keep():
            break
        batch = run.refresh().batches[batch_id]
        if batch.phase == "planned":
            batch = prepare(run, batch)
        if batch in planning.due(run.state, run.worker.clock.now(), mended=mended).submit:
            outcome = submit(run, batch)
            sent += outcome.phase == "submitted"
            if outcome.fault in {"account", "rate"}:
                break
    return sent


def _due(run: Run, *, mended: bool, only: Container[int] | None) -> list[BatchId]:
    due = planning.due(run.refresh(), run.worker.clock.now(), mended=mended, only=only)
    return [batch.batch_id for batch in (*due.prepare, *due.submit)]


def prepare(run: Run, batch: BatchState) -> BatchState:
    """Store what will be sent, byte for byte; return the batch as it is then."""
    plan = run.state.plan
    if plan is None or plan.run_digest != run.config.digest():
        raise CorruptObjectError(
            f"{run.run_id} was planned for another configuration than {run.experiment_digest[:12]}…"
        )
    positions = run.sendable(batch)
    key = keys.requests(run.run_id, batch.batch_id)
    measured = Measured(run.renderer.blocks(positions))
    try:
        run.worker.store.put_stream(key, compressed(measured))
    except ConflictError:
        measured = Measured(run.renderer.blocks(positions)).drained()
        _verify(run, key, expected=measured.digest())
    event = InputStored(
        batch_id=batch.batch_id, key=key, digest=measured.digest(), bytes=measured.size, requests=len(positions)
    )
    return run.record(event).batches[batch.batch_id]


def _verify(run: Run, key: str, *, expected: Digest) -> None:
    """Make sure that an input somebody stored before us is the one we would have stored."""
    with run.worker.store.open(key) as file:
        stored = Measured(decompressed(file, key=key)).drained()
    if stored.digest() != expected:
        raise CorruptObjectError(f"{key} is not what this run would send; nothing was sent")


def submit(run: Run, batch: BatchState) -> BatchState:
    """Try once to create the batch at its provider; return the batch as it is then."""
    if batch.input is not None and not batch.input.requests:
        return _nothing_to_send(run, batch)
    with _one_at_a_time(run, batch) as free:
        if not free:
            return batch
        attempt = _opened(run, batch)
        return batch if attempt is None else _created(run, batch, attempt)


@contextlib.contextmanager
def _one_at_a_time(run: Run, batch: BatchState) -> Iterator[bool]:
    """Give False while another create of a provider that cannot tell ours apart is on its way or unsettled."""
    provider = run.provider
    if not isinstance(provider, ProbableProvider):
        yield True
        return
    leases, name = run.worker.leases, f"provider--{run.config.judge.provider}--{provider.account}"
    try:
        other = unsettled_elsewhere(run, batch) if leases.take(name) is not None else batch
        if other is not None:
            run.notify(batch, "waits for another batch at this provider to be settled")
        yield other is None
    finally:
        leases.give_back(name)


def _opened(run: Run, batch: BatchState) -> AttemptOpened | None:
    """Announce the attempt; return None if another worker did something first."""
    opened = AttemptOpened(
        batch_id=batch.batch_id,
        attempt=batch.attempt + 1,
        batch_key=f"pl-{run.worker.clock.nonce()}",
        account=run.provider.account,
    )
    try:
        run.decide(opened)
    except ConflictError:
        run.refresh()
        return None
    return opened


def _created(run: Run, batch: BatchState, opened: AttemptOpened) -> BatchState:
    """Upload and create, once; record what came of it."""
    clock, provider, attempt = run.worker.clock, run.provider, opened.attempt
    submission = _submission(run, batch, opened)
    try:
        file_id = provider.upload(submission)
        if file_id is not None:
            run.record(FileUploaded(batch_id=batch.batch_id, attempt=attempt, file_id=file_id))
        announced = clock.monotonic()
        if not _is_still_ours(run, opened) or clock.monotonic() - announced > _SEND_DEADLINE:
            raise UnavailableError("the worker was held up before it could send")
        remote_id = provider.create(submission, file_id=file_id)
    except ProviderError as error:
        return _not_submitted(run, batch, attempt=attempt, error=error)
    run.notify(batch, f"submitted as {remote_id}")
    return run.record(Submitted(batch_id=batch.batch_id, attempt=attempt, remote_id=remote_id)).batches[batch.batch_id]


def _is_still_ours(run: Run, opened: AttemptOpened) -> bool:
    """Say whether nobody doubts this attempt or has taken the run over: the last look before the money."""
    batch = run.refresh().batches[opened.batch_id]
    wanted = batch.attempt == opened.attempt and batch.phase == "submitting" and not batch.cancel_asked
    return wanted and run.keep()


def _submission(run: Run, batch: BatchState, opened: AttemptOpened) -> Submission:
    stored = batch.input
    assert stored is not None, "only a prepared batch is submitted"

    def chunks() -> Iterator[bytes]:
        with run.worker.store.open(stored.key) as file:
            checked = Measured(decompressed(file, key=stored.key))
            yield from checked
        if checked.digest() != stored.digest:
            raise CorruptObjectError(f"{stored.key} is not what was prepared; nothing was sent")

    return Submission(
        batch_key=opened.batch_key,
        labels={"run": run.run_id, "batch": batch.batch_id, "attempt": str(opened.attempt)},
        judge=run.config.judge,
        requests=stored.requests,
        size=stored.bytes,
        chunks=chunks,
    )


def _nothing_to_send(run: Run, batch: BatchState) -> BatchState:
    attempt, reason = batch.attempt + 1, "every line is larger than a batch may be"
    state = run.record(
        AttemptOpened(batch_id=batch.batch_id, attempt=attempt, batch_key=f"pl-{run.worker.clock.nonce()}"),
        Refused(batch_id=batch.batch_id, attempt=attempt, fault="content", reason=reason, code="too_large"),
    )
    return state.batches[batch.batch_id]


def _not_submitted(run: Run, batch: BatchState, *, attempt: int, error: ProviderError) -> BatchState:
    """Record why nothing, or nothing certain, was created."""
    run.notify(batch, str(error), warning=True)
    event: Refused | Uncertain
    if isinstance(error, OutcomeUnknownError):
        event = Uncertain(batch_id=batch.batch_id, attempt=attempt, reason=str(error))
    elif isinstance(error, AccountError):
        event = _refused(run, batch, attempt, error, fault="account")
    elif isinstance(error, RejectedError) and not _is_wrong_address(error):
        event = Refused(batch_id=batch.batch_id, attempt=attempt, fault="content", reason=str(error), code=error.code)
    else:
        wrong = isinstance(error, RejectedError)
        event = _refused(run, batch, attempt, error, fault="account" if wrong else "rate")
    return run.record(event).batches[batch.batch_id]


def _is_wrong_address(error: RejectedError) -> bool:
    """Say whether the answer comes from a place that is not the provider's: a person must mend the address or model."""
    return error.status in {404, 405} or (error.status is not None and 300 <= error.status < 400)


def _refused(run: Run, batch: BatchState, attempt: int, error: ProviderError, *, fault: Fault) -> Refused:
    asked = error.retry_after if isinstance(error, UnavailableError | AccountError) else None
    mends_itself = isinstance(error, AccountError) and error.mendable_by_waiting
    needs_person = isinstance(error, AccountError | RejectedError) and not mends_itself
    return Refused(
        batch_id=batch.batch_id,
        attempt=attempt,
        fault=fault,
        reason=str(error),
        code=error.code if isinstance(error, AccountError | RejectedError) else None,
        not_before=run.worker.clock.now() + timedelta(seconds=_pause(run, fault) if asked is None else asked),
        needs_person=needs_person,
    )


def _pause(run: Run, fault: Fault) -> float:
    pause = run.worker.pace.pause
    return pause if fault == "account" else min(pause, _BREATHER)
