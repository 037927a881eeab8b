"""Going on: one round over the runs, again and again until nothing is open.

Any number of workers may do this on one store: they meet in the log, where only one of them can decide.
"""

import contextlib
import threading
from collections.abc import Callable, Container
from datetime import datetime, timedelta

import msgspec

from pipeline import planning
from pipeline.domain import Counts
from pipeline.errors import ConfigError, CorruptObjectError, LeaseLostError
from pipeline.operations.batches.cleaning import clean_due, is_to_clean
from pipeline.operations.batches.collecting import collect_due, poll_due
from pipeline.operations.batches.continuing import continue_due, is_to_continue
from pipeline.operations.batches.living import call_due
from pipeline.operations.batches.publishing import publish_due
from pipeline.operations.batches.settling import settle_due
from pipeline.operations.batches.submitting import complete_plan, submit_due
from pipeline.operations.lanes import side_by_side
from pipeline.operations.studies.opening import reopen
from pipeline.operations.workers.failures import apart, named_troubles
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.state import BatchState
from pipeline.wording import and_more, counted

_LOOKS_A_LEASE = 6
_SHORTEST_REST = 0.1


class Headway(msgspec.Struct, frozen=True, kw_only=True):
    """How far the runs are: whether a request is open, or may be, and whether waiting can bring them further.

    `answered` are live answers of batches that have not ended. What may have been created is looked for until `quiet`.
    `cancelling` are the requests of batches that a person wants to end and that have not. Files that a provider does
    not show of batches that are over are waited for until `files`.
    """

    counts: Counts
    is_open: bool
    moves_by_itself: bool
    reasons: tuple[str, ...] = ()
    answered: int = 0
    quiet: datetime | None = None
    cancelling: int = 0
    files: datetime | None = None


def advance(run: Run, *, mended: bool = False) -> bool:
    """Do everything about the run that can be done now, without waiting; return False if another worker is at it."""
    if not run.is_live:
        poll_due(run)
    if not _is_work_due(run, mended=mended):
        return True
    with contextlib.suppress(LeaseLostError), run.lease() as mine:
        if mine:
            _work(run, mended=mended)
        return mine
    return False


def _is_work_due(run: Run, *, mended: bool) -> bool:
    due = planning.due(run.refresh(), run.worker.clock.now(), mended=mended)
    steps = (due.prepare, due.submit, due.settle, due.collect, due.publish, due.poll if run.is_live else ())
    return planning.is_partly_planned(run.state) or any(steps) or is_to_continue(run) or is_to_clean(run)


def _work(run: Run, *, mended: bool) -> None:
    complete_plan(run)
    if run.is_live:
        call_due(run)
        publish_due(run)
        run.answered = 0
        continue_due(run)
        return
    try:
        settle_due(run)
        submit_due(run, mended=mended)
    except CorruptObjectError:
        _fetch(run)  # who may not send must not lose what came back
        raise
    if _fetch(run):
        submit_due(run)
    clean_due(run)


def _fetch(run: Run) -> int:
    """Fetch and publish what came back; return how many batches that were, and segments that are gone on with."""
    poll_due(run)
    collect_due(run)
    return publish_due(run) + continue_due(run)


def submit(run: Run, *, mended: bool = False, only: Container[int] | None = None) -> int:
    """Send what is due, unless another worker is at it; return how many batches went out.

    Live requests are not sent ahead: they are made, and answered, when the run is resumed.
    """
    if run.is_live:
        return 0
    with contextlib.suppress(LeaseLostError), run.lease() as mine:
        return submit_due(run, mended=mended, only=only) if mine else 0
    return 0


def submit_all(runs: list[Run]) -> None:
    """Send what is due of every run; one that something is wrong with keeps its `failure`, and the others go on.

    Who asked for patience gets no batch of a further run. An account's fault may be one of a single model: the other
    runs find out for themselves. Settings that turn out to be wrong now concern the run: others may have been sent.
    """
    busy: set[str] = set()
    for run in runs:
        provider = run.config.judge.provider
        if run.failure is None and provider not in busy:
            try:
                with apart(run):
                    submit(run, mended=True)
            except ConfigError as error:
                run.failure = str(error)
        if planning.is_to_slow_down(run.state, run.worker.clock.now()):
            busy.add(provider)


def resume(
    worker: Worker,
    runs: list[Run],
    *,
    interval: float,
    once: bool = False,
    watch: Callable[[Headway], None] = lambda _: None,
) -> Headway:
    """Bring the runs to their end, polling every `interval` seconds; return how far they are.

    A run that something is wrong with is left for the next round and named in the end; the others go on.
    """
    reopen(worker, runs)
    one_at_a_time = threading.Lock()

    def tell() -> None:
        with one_at_a_time:
            watch(headway(runs))

    def go_on(lane: list[Run]) -> None:
        mended = True
        while True:
            worker.unreachable.clear()
            elsewhere = [run for run in lane if _is_elsewhere(run, mended=mended)]
            mended = False
            tell()
            if once or not _is_waited_for(lane, runs):
                return
            _rest(worker, elsewhere, interval)

    worker.pulse = tell
    side_by_side(worker, runs, go_on)
    return headway(runs)


def _is_waited_for(lane: list[Run], runs: list[Run]) -> bool:
    """Say whether waiting can bring a run of the lane further, or what failed in it is tried again meanwhile."""
    moving = lane if not any(run.failure for run in lane) else runs
    return any(map(_moves_by_itself, moving))


def _is_elsewhere(run: Run, *, mended: bool) -> bool:
    """Bring the run as far as it goes now; return whether another worker is at it."""
    run.worker.check_halted()
    is_here = True
    with apart(run):
        is_here = not _is_unfinished(run) or advance(run, mended=mended)
        run.failure = run.failure if run.state.plan is None else None
    return not is_here


def _is_unfinished(run: Run) -> bool:
    """Say whether requests are open, or whoever published the last of them died before tidying up."""
    return planning.is_open(run.refresh()) or is_to_clean(run)


def _rest(worker: Worker, elsewhere: list[Run], interval: float) -> None:
    """Wait for the next round, or less if a worker that is at one of these runs dies meanwhile."""
    step = max(worker.pace.lease / _LOOKS_A_LEASE, _SHORTEST_REST)
    while elsewhere and interval > step:
        worker.sleep(step)
        interval -= step
        if any(worker.leases.is_free(run.run_id) for run in elsewhere):
            return
    worker.sleep(interval)


def _moves_by_itself(run: Run) -> bool:
    """Say whether waiting can bring the run further; a provider that does not know our key will not come round.

    What failed is tried again for as long as others are waited for, and keeps nobody waiting by itself.
    """
    if run.failure or (run.is_live and run.troubles):
        return False
    return planning.moves_by_itself(run.state, unreachable=run.troubles) or is_to_continue(run)


def _waits(run: Run) -> list[str]:
    """Return why batches of the run wait for a person; those with one reason are named together."""
    named: dict[str, list[str]] = {}
    for batch in planning.waits_for_a_person(run.state):
        named.setdefault(batch.unsent or batch.note or "", []).append(batch.batch_id)
    return [f"{run.run_id} {and_more(batches)}: {note}" for note, batches in named.items()]


def headway(runs: list[Run]) -> Headway:
    """Return how far the runs are as of the last look at their logs."""
    states = [run.state for run in runs]
    counts = sum((state.counts for state in states), Counts())
    unopened = sum(run.config.requests for run in runs if run.state.plan is None and not run.failure)
    reasons = [reason for run in runs for reason in _waits(run)]
    reasons += named_troubles(runs)
    unasked = sum(len(planning.unasked(state)) for state in states)
    active = [batch for state in states for batch in state.batches.active.values()]
    if unasked or unopened:
        segments = [counted(unasked, "segment")] if unasked else []
        never = [f"{counted(unopened, 'request')} of runs never opened"] if unopened else []
        left = " and ".join([*segments, *never])
        reasons.append(f"nobody asked for {left}; submit the file again, or materialize them in Dagster")
    return Headway(
        counts=counts,
        is_open=counts.open > 0 or unopened > 0 or any(run.failure for run in runs),
        moves_by_itself=any(_moves_by_itself(run) for run in runs),
        reasons=tuple(reasons),
        answered=sum(run.answered for run in runs),
        quiet=_latest(runs, planning.quiet_until),
        cancelling=sum(batch.requests for batch in active if planning.is_being_cancelled(batch)),
        files=_latest(runs, planning.files_until),
    )


def _latest(runs: list[Run], until: Callable[[BatchState, timedelta], datetime | None]) -> datetime | None:
    """Return until when the last of the runs' batches is waited for in this sense, None if none is."""
    waits = (until(batch, run.worker.quiet) for run in runs for batch in run.state.batches.active.values())
    return max((moment for moment in waits if moment), default=None)
