"""What is to be sent: segments are planned as batches, batches prepared byte for byte, and groups of them handed on.

A group is as large as can be sent in a few seconds: a provider that is slow gets fewer at once.
"""

from collections.abc import Container, Iterable
from itertools import accumulate

from pipeline import planning
from pipeline.errors import ConflictError, CorruptObjectError
from pipeline.events import InputStored, RunPlanned
from pipeline.ids import Digest
from pipeline.operations.batches.recording import LARGE, MOST, facts
from pipeline.operations.batches.sending import send
from pipeline.operations.workers.run import Run
from pipeline.providers import ProbableProvider
from pipeline.state import BatchState
from pipeline.storage import keys
from pipeline.storage.log import in_commits
from pipeline.storage.objects import measured_inside
from pipeline.storage.streams import Measured, compressed

_BATCHES_A_COMMIT = 1_000
_FIRST_GROUP = 8
_BRISK = 5.0


def open_run(run: Run, plan: RunPlanned) -> None:
    """Fix the run's segments, and plan the first batch of each if the whole experiment was asked for."""
    state = run.refresh()
    if state.plan is None:
        batches = planning.first_batches(enumerate(plan.segments)) if plan.asked == "experiment" else []
        first = next(in_commits([plan, *batches], most=_BATCHES_A_COMMIT))
        try:
            run.decide(*first)
        except ConflictError:
            state = run.refresh()
    if plan.asked == "experiment" and state.plan is not None and state.plan.asked == "segments":
        run.record(plan)
    complete_plan(run)


def complete_plan(run: Run) -> None:
    """Plan the segments of an experiment asked for as a whole that an interrupted planner left out."""
    while (plan := run.refresh().plan) is not None and plan.asked == "experiment":
        missing = planning.unasked(run.state)[:_BATCHES_A_COMMIT]
        if not missing:
            return
        try:
            run.decide(*planning.first_batches((index, run.state.segments[index]) for index in missing))
        except ConflictError:
            continue


def ask_for(run: Run, segments: Iterable[int]) -> None:
    """Plan the first batch of these segments, unless they are planned already."""
    wanted = set(segments)
    while missing := [index for index in planning.unasked(run.refresh()) if index in wanted][:_BATCHES_A_COMMIT]:
        try:
            run.decide(*planning.first_batches((index, run.state.segments[index]) for index in missing))
        except ConflictError:
            continue


def submit_due(run: Run, *, mended: bool = False, only: Container[int] | None = None) -> int:
    """Prepare and send every batch that is due, in groups; return how many went out.

    Args:
        mended: also try what an account's fault stopped: a person is here and may have mended it.
        only: send nothing but these segments.
    """
    clock, sent, most = run.worker.clock, 0, _FIRST_GROUP
    waiting = _due(run, mended=mended, only=only)
    while waiting and run.keep():
        started = clock.monotonic()
        group = _group(run, waiting, most)
        waiting = waiting[len(group) :]
        _prepare_all(run, group)
        outcome = send(run, group, mended=mended)
        sent += outcome.batches
        if not outcome.go_on:
            break
        most = min(2 * most, MOST) if clock.monotonic() - started < _BRISK else max(most // 2, 1)
    return sent


def _due(run: Run, *, mended: bool, only: Container[int] | None) -> list[BatchState]:
    due = planning.due(run.refresh(), run.worker.clock.now(), mended=mended, only=only)
    return [*due.prepare, *due.submit]


def _group(run: Run, waiting: list[BatchState], most: int) -> list[BatchState]:
    """Return the first of the batches: so many that announcing them together leaves little behind if we die."""
    if isinstance(run.provider, ProbableProvider):
        return waiting[:1]
    segments = run.state.segments
    sizes = accumulate(segments[batch.segment].bytes for batch in waiting[:most])
    return waiting[: max(sum(size <= LARGE for size in sizes), 1)]


def _prepare_all(run: Run, batches: list[BatchState]) -> None:
    with facts(run) as records:
        for batch in batches:
            if batch.phase == "planned" and run.keep():
                stored = _stored_input(run, batch)
                records.add(stored, size=stored.bytes)


def prepare(run: Run, batch: BatchState) -> BatchState:
    """Store what will be sent, byte for byte; return the batch as it is then."""
    return run.record(_stored_input(run, batch)).batches[batch.batch_id]


def _stored_input(run: Run, batch: BatchState) -> InputStored:
    plan = run.state.plan
    if plan is None or plan.run_digest != run.config.digest():
        raise CorruptObjectError(
            f"{run.run_id} was planned for another configuration than {run.experiment_digest[:12]}…"
        )
    positions = run.sendable(batch)
    key = keys.requests(run.run_id, batch.batch_id)
    measured = Measured(run.renderer.blocks(positions))
    try:
        run.worker.store.put_stream(key, compressed(measured, repetitive=True))
    except ConflictError:
        measured = Measured(run.renderer.blocks(positions)).drained()
        _verify(run, key, expected=measured.digest())
    return InputStored(
        batch_id=batch.batch_id, key=key, digest=measured.digest(), bytes=measured.size, requests=len(positions)
    )


def _verify(run: Run, key: str, *, expected: Digest) -> None:
    """Make sure that an input somebody stored before us is the one we would have stored."""
    if measured_inside(run.worker.store, key).digest() != expected:
        raise CorruptObjectError(f"{key} is not what this run would send; nothing was sent")
