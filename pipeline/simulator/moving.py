"""Moves batches from status to status: what happens at each step, and when it is due.

A batch moves when somebody polls: as far as the time that passed allows, or, with a latency of 0, to its end (by one
status if the settings say `walk`). Only the engine's one worker thread calls this, so that no two steps of a batch
overlap; what an answer shows is changed under the lock.
"""

import threading
from typing import Literal

from pipeline.simulator.jobs import Counts, Job, LineProblem, Timing
from pipeline.simulator.ledger import BatchEnded
from pipeline.simulator.running import Checked, Lines, Runner, StoppedError
from pipeline.simulator.settings import SimulatorSettings


class Mover:
    """Takes the steps of every batch."""

    def __init__(self, *, settings: SimulatorSettings, runner: Runner, lock: threading.RLock) -> None:
        self.lines: dict[str, Lines] = {}
        self._timing = Timing(latency=settings.latency_seconds, window=settings.window_seconds)
        self._one_step_a_poll = settings.walk and settings.latency_seconds == 0
        self._runner = runner
        self._faults = runner.faults
        self._lock = lock

    def advance(self, job: Job) -> None:
        """Take every step that is due."""
        try:
            while self._is_due(job):
                self._step(job)
                if self._one_step_a_poll:
                    break
        except StoppedError:
            return
        if job.phase == "in_progress":
            done = int(self._timing.progress(job, self._runner.now()) * job.counts.total)
            job.counts = Counts(total=job.counts.total, completed=done)

    def cancel(self, job: Job) -> bool:
        """Let the batch stop; return False if it has ended already."""
        if job.is_ended:
            return False
        if job.phase == "cancelling":
            return True
        now = self._runner.now()
        fault = self._faults.take("cancel.share")
        if fault is not None:
            job.cancel_share = fault.number(1.0)
        elif job.phase != "validating":
            job.cancel_share = 1 - self._timing.progress(job, now)
        with self._lock:
            job.enter("cancelling", now)
        return True

    def _is_due(self, job: Job) -> bool:
        if job.is_ended or (job.stuck and job.phase == "in_progress"):
            return False
        return self._runner.now() >= self._timing.due(job)

    def _step(self, job: Job) -> None:
        when = self._timing.due(job) if self._timing.latency > 0 else self._runner.now()
        match job.phase:
            case "validating":
                self._validate(job, when)
            case "in_progress":
                self._execute(job, self._unanswered(job))
                with self._lock:
                    job.enter("finalizing", when)
            case "finalizing":
                expired = job.expires_share is not None or self._timing.expires
                self._end(job, "expired" if expired else "completed", when)
            case _:
                self._finish_cancelling(job, when)

    def _validate(self, job: Job, when: float) -> None:
        checked = self._check(job)
        job.model, job.problems, job.offsets = checked.model, checked.problems, checked.offsets
        if checked.problems:
            self._end(job, "failed", when)
            return
        job.stuck = self._faults.take("run.stuck") is not None
        expires = self._faults.take("expire.share")
        job.expires_share = expires.number(1.0) if expires else None
        with self._lock:
            job.counts = Counts(total=len(checked.offsets))
            job.enter("in_progress", when)

    def _check(self, job: Job) -> Checked:
        file_id = job.order.input_file_id
        job.source = self._runner.files.hold(file_id, wire=job.order.wire, name=f"{job.batch_id}_input")
        if job.source is None:
            message = f"Cannot find file {file_id}, or organization org-simulated does not have access to it."
            return Checked(problems=(LineProblem(code="invalid_request", message=message, param="file_id"),))
        lines = self.lines[job.order.wire]
        checked = lines.check(job, job.source)
        if checked.problems or not lines.habits.fails_whole:
            return checked
        problem = self._struck(checked.model)
        return Checked(model=checked.model, problems=(problem,)) if problem else checked

    def _struck(self, model: str | None) -> LineProblem | None:
        """Return why a batch fails whole that nothing is wrong with, if it does."""
        if self._faults.take("run.server_error"):
            message = "The server had an error while processing your batch. Sorry about that!"
            return LineProblem(code="server_error", message=message)
        if self._faults.take("run.token_limit"):
            message = (
                f"Enqueued token limit reached for {model} in organization org-simulated. Limit: 2,000,000 "
                "enqueued tokens. Please try again once some in_progress batches have been completed."
            )
            return LineProblem(code="token_limit_exceeded", message=message)
        return None

    def _unanswered(self, job: Job) -> float:
        expires = job.expires_share is not None or self._timing.expires
        if expires and self.lines[job.order.wire].habits.all_or_nothing:
            return 1.0
        if job.expires_share is not None:
            return job.expires_share
        if self._timing.expires:
            return 1 - self._timing.progress(job, job.created_at + self._timing.window)
        return 0.0

    def _execute(self, job: Job, share: float) -> None:
        results = self._runner.run(job, self.lines[job.order.wire], unanswered=share)
        with self._lock:
            job.counts = results.counts
            job.unanswered = results.unanswered
            job.usage = results.usage
            job.output_file_id = results.output_file_id
            job.error_file_id = results.error_file_id

    def _finish_cancelling(self, job: Job, when: float) -> None:
        if job.cancel_share is not None and job.usage is None:
            if job.source is None:
                checked = self._check(job)
                job.model, job.offsets = checked.model, checked.offsets
            if job.offsets:
                self._execute(job, job.cancel_share)
        self._end(job, "cancelled", when)

    def _end(self, job: Job, phase: Literal["completed", "failed", "expired", "cancelled"], when: float) -> None:
        if job.source is not None:
            job.source.unlink()
        with self._lock:
            job.enter(phase, when)
        counts = job.counts
        self._runner.ledger.record(
            BatchEnded(
                at=when,
                batch_id=job.batch_id,
                status=phase,
                total=counts.total,
                completed=counts.completed,
                failed=counts.failed,
            )
        )
