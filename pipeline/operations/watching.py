"""Polling in bounded time, for a caller that comes back every minute: what is looked at, how often, and for how long.

A batch is asked after less often the longer it has been at its provider; each provider is asked a bounded number of
questions a round; a round that runs out of time goes on behind the run it ended with. What was asked when is only
remembered, not stored: who forgets it asks once more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

import msgspec

from pipeline import planning
from pipeline.errors import ConfigError, LeaseLostError, PipelineError
from pipeline.ids import BatchId, RunId
from pipeline.operations.collecting import poll_due
from pipeline.operations.settling import settle_due
from pipeline.operations.studies import check_keys, complete_opening
from pipeline.operations.worker import Run, Worker
from pipeline.state import AT_PROVIDER, BatchState

_AT_ONCE = 8
_QUESTIONS_A_ROUND = 1_500
_SHARE_OF_AGE = 1 / 12
_LONGEST_PAUSE = 600.0


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one round saw: batches asked after, batches that ended, where to go on, and what went wrong."""

    polled: int = 0
    ended: int = 0
    after: str = ""
    troubles: tuple[str, ...] = ()


class Watch:
    """One worker's rounds over everything that is open in its store."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._aside: set[RunId] = set()
        self._polled: dict[tuple[RunId, BatchId], float] = {}

    def runs(self) -> list[Run]:
        """Return the runs that nobody set aside, in the order of their names, with the log read up to now."""
        every = (run for name in self.worker.experiment_names() for run in self.worker.runs(name))
        runs = sorted((run for run in every if run.run_id not in self._aside), key=lambda run: run.run_id)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(Run.refresh, runs))
        return runs

    def set_aside(self, run: Run) -> bool:
        """Look at a run no more if it is complete, for then its log does not change; return whether that is so."""
        if planning.is_complete(run.state):
            self._aside.add(run.run_id)
        return run.run_id in self._aside

    def round(self, runs: list[Run], *, seconds: float, after: str = "") -> Round:
        """Ask after what is due, settle what is uncertain, and append what was learned; never longer than about that.

        Args:
            runs: what `runs` returned.
            seconds: how long the round may take.
            after: the run that the last round ended with.
        """
        clock = self.worker.clock
        until = clock.monotonic() + seconds
        asked: Counter[str] = Counter()
        ended, troubles = 0, dict[str, None]()
        reached = after
        if any(run.state.plan is None for run in runs):
            complete_opening(self.worker, runs)
        for run in _rotated([run for run in runs if planning.is_open(run.state)], after):
            if clock.monotonic() >= until:
                return Round(polled=asked.total(), ended=ended, after=reached, troubles=tuple(troubles))
            try:
                ended += self._look(run, asked)
            except ConfigError as error:
                troubles[str(error)] = None
            except PipelineError as error:
                troubles[f"{run.run_id}: {error}"] = None
            if run.trouble:
                troubles[f"{run.run_id}: {run.trouble}"] = None
            reached = run.run_id
        return Round(polled=asked.total(), ended=ended, troubles=tuple(troubles))

    def _look(self, run: Run, asked: Counter[str]) -> int:
        """Ask after one run's batches; return how many ended."""
        if run.is_live:
            return 0
        provider = run.config.judge.provider
        due = planning.due(run.state, self.worker.clock.now())
        wanted = [batch for batch in due.poll if self._is_time(run, batch)][: _QUESTIONS_A_ROUND - asked[provider]]
        if not wanted and not due.settle:
            return 0
        check_keys(self.worker, [run.config])
        if due.settle:
            with suppress(LeaseLostError), run.lease() as mine:
                if mine:
                    settle_due(run)
        asked[provider] += len(wanted)
        for batch in wanted:
            self._polled[run.run_id, batch.batch_id] = self.worker.clock.monotonic()
        return poll_due(run, only={batch.batch_id for batch in wanted}, at_once=_AT_ONCE) if wanted else 0

    def _is_time(self, run: Run, batch: BatchState) -> bool:
        last = self._polled.get((run.run_id, batch.batch_id))
        return last is None or self.worker.clock.monotonic() - last >= pause(batch, self.worker.clock.now())


def pause(batch: BatchState, now: datetime) -> float:
    """Return how many seconds to leave a batch alone after asking: a twelfth of its age, ten minutes at most."""
    age = (now - batch.submitted_at).total_seconds() if batch.submitted_at else 0.0
    return min(max(age, 0.0) * _SHARE_OF_AGE, _LONGEST_PAUSE)


def oldest(runs: Iterable[Run]) -> datetime | None:
    """Return since when the longest waiting batch has been at its provider."""
    waiting = (batch for run in runs for batch in run.state.batches.values() if batch.phase in AT_PROVIDER)
    return min((batch.submitted_at for batch in waiting if batch.submitted_at), default=None)


def _rotated(runs: list[Run], after: str) -> Iterator[Run]:
    yield from (run for run in runs if run.run_id > after)
    yield from (run for run in runs if run.run_id <= after)
