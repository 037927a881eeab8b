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
from pipeline.ids import BatchId, Digest, ExperimentName, RunId
from pipeline.operations.batches.collecting import poll_due
from pipeline.operations.batches.continuing import continue_due, is_to_continue
from pipeline.operations.batches.settling import settle_due
from pipeline.operations.batches.submitting import complete_plan
from pipeline.operations.reading.answers import rows_digest
from pipeline.operations.studies.opening import check_keys, complete_opening
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import AT_ONCE, Worker
from pipeline.segments import have_ended, segments_of
from pipeline.state import AT_PROVIDER, BatchState


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one round saw: batches asked after, batches that ended, where to go on, and what went wrong."""

    polled: int = 0
    ended: int = 0
    after: str = ""
    troubles: tuple[str, ...] = ()


class _Tally:
    """What a round has seen so far, and behind which run the next one is to begin."""

    def __init__(self, after: str) -> None:
        self.asked: Counter[str] = Counter()
        self.ended = 0
        self.troubles: dict[str, None] = {}
        self.reached = after
        self._left: str | None = None

    def leave(self) -> None:
        """Remember that something behind the run reached last is left for the next round."""
        self._left = self.reached if self._left is None else self._left

    def round(self) -> Round:
        """Return it as a value."""
        troubles = tuple(self.troubles)
        return Round(polled=self.asked.total(), ended=self.ended, after=self._left or "", troubles=troubles)


class Watch:
    """One worker's rounds over everything that is open in its store."""

    def __init__(self, worker: Worker, *, questions: int = 1_500) -> None:
        self.worker = worker
        self._questions = questions
        self._aside: set[RunId] = set()
        self._polled: dict[tuple[RunId, BatchId], float] = {}

    def runs(self) -> list[Run]:
        """Return the runs that nobody set aside, in the order of their names, with the log read up to now."""
        every = (run for name in self.worker.experiment_names() for run in self.worker.runs(name))
        runs = sorted((run for run in every if run.run_id not in self._aside), key=lambda run: run.run_id)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(Run.refresh, runs))
        return runs

    def ended(self) -> dict[ExperimentName, Digest]:
        """Return the experiments of which all that was asked for has reached its end, with the names of their rows."""
        self.runs()
        every = {name: self.worker.runs(name) for name in self.worker.experiment_names()}
        segments = {name: [each for run in runs for each in segments_of(run.state)] for name, runs in every.items()}
        return {name: rows_digest(self.worker, name) for name, found in segments.items() if have_ended(found)}

    def set_aside(self, run: Run) -> None:
        """Look at a run no more if it is complete, for then its log does not change."""
        if planning.is_complete(run.state):
            self._aside.add(run.run_id)

    def round(self, runs: list[Run], *, seconds: float, after: str = "") -> Round:
        """Ask after what is due, settle what is uncertain, and append what was learned; never longer than about that.

        Args:
            runs: what `runs` returned.
            seconds: how long the round may take.
            after: the run that the last round ended with.
        """
        clock = self.worker.clock
        until = clock.monotonic() + seconds
        tally = _Tally(after)
        self.worker.unreachable.clear()
        if any(run.state.plan is None for run in runs):
            complete_opening(self.worker, runs)
        for run in _rotated([run for run in runs if planning.is_open(run.state)], after):
            if clock.monotonic() >= until:
                tally.leave()
                break
            try:
                tally.ended += self._look(run, tally)
            except ConfigError as error:
                tally.troubles[str(error)] = None
            except PipelineError as error:
                tally.troubles[f"{run.run_id}: {error}"] = None
            if run.trouble:
                tally.troubles[f"{run.run_id}: {run.trouble}"] = None
            tally.reached = run.run_id
        return tally.round()

    def _look(self, run: Run, tally: _Tally) -> int:
        """Ask after one run's batches, and go on with its conversations; return how many batches ended."""
        if not run.is_live:
            self._settle(run)
        if planning.is_partly_planned(run.state):
            complete_plan(run)
        if is_to_continue(run):
            with suppress(LeaseLostError), run.lease() as mine:
                if mine:
                    continue_due(run)
        return 0 if run.is_live else self._poll(run, tally)

    def _settle(self, run: Run) -> None:
        if planning.due(run.state, self.worker.clock.now()).settle:
            check_keys(self.worker, [run.config])
            with suppress(LeaseLostError), run.lease() as mine:
                if mine:
                    settle_due(run)

    def _poll(self, run: Run, tally: _Tally) -> int:
        provider = run.config.judge.provider
        due = planning.due(run.state, self.worker.clock.now()).poll
        wanted = [batch for batch in due if self._is_time(run, batch)]
        allowed = wanted[: self._questions - tally.asked[provider]]
        if len(allowed) < len(wanted):
            tally.leave()
        if not allowed:
            return 0
        check_keys(self.worker, [run.config])
        tally.asked[provider] += len(allowed)
        for batch in allowed:
            self._polled[run.run_id, batch.batch_id] = self.worker.clock.monotonic()
        return poll_due(run, only={batch.batch_id for batch in allowed})

    def _is_time(self, run: Run, batch: BatchState) -> bool:
        last = self._polled.get((run.run_id, batch.batch_id))
        rests = planning.rest_after_asking(batch, self.worker.clock.now())
        return last is None or self.worker.clock.monotonic() - last >= rests


def oldest(runs: Iterable[Run]) -> datetime | None:
    """Return since when the longest waiting batch has been at its provider."""
    waiting = (batch for run in runs for batch in run.state.batches.active.values() if batch.phase in AT_PROVIDER)
    return min((batch.submitted_at for batch in waiting if batch.submitted_at), default=None)


def _rotated(runs: list[Run], after: str) -> Iterator[Run]:
    yield from (run for run in runs if run.run_id > after)
    yield from (run for run in runs if run.run_id <= after)
