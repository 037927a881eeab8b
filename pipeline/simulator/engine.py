"""The provider behind every wire: files, batches, judge, ledger and faults under one roof.

A wire module brings its `Lines`, asks for files and jobs and puts them into its own words; it keeps no state.
"""

import concurrent.futures
import shutil
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

from pipeline.clock import Clock
from pipeline.simulator.faults import Faults
from pipeline.simulator.files import Files
from pipeline.simulator.jobs import Job, Order
from pipeline.simulator.judge import Ask, Judge, Reply
from pipeline.simulator.ledger import BatchCreated, Billed, CancelReceived, Ledger
from pipeline.simulator.moving import Mover
from pipeline.simulator.running import Lines, Runner
from pipeline.simulator.settings import SimulatorSettings


def _discard(ledger: Ledger, folder: Path) -> None:
    ledger.close()
    shutil.rmtree(folder, ignore_errors=True)


class Engine:
    """One provider that never existed. `close` gives its disk space back."""

    def __init__(self, settings: SimulatorSettings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.faults = Faults(settings.faults)
        self.judge = Judge(settings)
        folder = Path(tempfile.mkdtemp(prefix="pairlog-simulator-"))
        self.files = Files(folder)
        self.ledger = Ledger(Path(settings.ledger_path) if settings.ledger_path else folder / "ledger.jsonl")
        self._discard = weakref.finalize(self, _discard, self.ledger, folder)
        self.lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._live_calls = 0
        self._worker = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="simulator")
        self._moving: dict[str, concurrent.futures.Future[None]] = {}
        self._runner = Runner(
            clock=clock,
            seed=settings.seed,
            shuffle=settings.shuffle,
            faults=self.faults,
            files=self.files,
            ledger=self.ledger,
        )
        self._mover = Mover(settings=settings, runner=self._runner, lock=self.lock)

    def register(self, wire: str, lines: Lines) -> None:
        """Let batches of this wire be executed by these lines."""
        self._mover.lines[wire] = lines

    def close(self) -> None:
        """Stop what is being executed and remove every file."""
        self._runner.stop.set()
        self._worker.shutdown(cancel_futures=True)
        self._discard()

    def now(self) -> float:
        """Return the time as seconds since 1970."""
        return self.clock.now().timestamp()

    def create_job(self, order: Order, *, batch_id: str, remote_id: str | None = None, delay: float = 0.0) -> Job:
        """Return a new batch; with a delay it comes to be only that much later.

        Args:
            order: what was asked for.
            batch_id: by which the simulator finds it.
            remote_id: what the client is told, where that is more than the id (a resource's name, say).
            delay: in seconds.

        """
        at = self.now() + delay
        lag = self.faults.take("list.lag")
        with self.lock:
            number = len(self._jobs) + 1
            listed_at = at + (lag.number(1.0) if lag else 0.0)
            job = Job(batch_id=batch_id, number=number, order=order, created_at=at, listed_at=listed_at)
            self._jobs[batch_id] = job
        entry = BatchCreated(
            at=at,
            wire=order.wire,
            batch_id=batch_id,
            remote_id=remote_id or batch_id,
            input_file_id=order.input_file_id,
            metadata=order.metadata,
        )
        self.ledger.record(entry)
        return job

    def job(self, batch_id: str, *, wire: str) -> Job | None:
        """Return the batch, or None if this provider has none of that id (yet)."""
        job = self._jobs.get(batch_id)
        return job if job is not None and job.order.wire == wire and job.created_at <= self.now() else None

    def promised(self, batch_id: str) -> Job | None:
        """Return the batch of this id, also one that comes to be only later: some creates may be repeated."""
        return self._jobs.get(batch_id)

    def listed_jobs(self, *, wire: str) -> list[Job]:
        """Return the provider's batches that a listing shows, newest first."""
        now = self.now()
        with self.lock:
            shown = [job for job in self._jobs.values() if job.order.wire == wire and job.listed_at <= now]
        return sorted(shown, key=lambda job: (job.created_at, job.number), reverse=True)

    def poll(self, jobs: Sequence[Job]) -> None:
        """Move the batches on as far as they are due; what takes long goes on after the answer."""
        moving = [self._move(job) for job in jobs if not job.is_ended]
        done, _ = concurrent.futures.wait(moving, timeout=self.settings.patience_seconds)
        for future in done:
            future.result()

    def _move(self, job: Job) -> concurrent.futures.Future[None]:
        with self.lock:
            before = self._moving.get(job.batch_id)
            if before is None or before.done():
                before = self._moving[job.batch_id] = self._worker.submit(self._mover.advance, job)
            return before

    def cancel(self, job: Job) -> bool:
        """Ask the batch to stop; return False if it has ended already."""
        accepted = self._worker.submit(self._mover.cancel, job).result()
        self.ledger.record(
            CancelReceived(
                at=self.now(),
                wire=job.order.wire,
                batch_id=job.batch_id,
                outcome="applied" if accepted else "refused",
            )
        )
        return accepted

    def twist(self) -> str | None:
        """Return the answer fault that strikes the next live call, if one does."""
        with self.lock:
            self._live_calls += 1
            number = self._live_calls
        return self._runner.struck_call(number)

    def bill_live(self, wire: str, ask: Ask, reply: Reply) -> None:
        """Write down that a live call was executed."""
        self.ledger.record(
            Billed(
                at=self.now(),
                wire=wire,
                batch_id=None,
                custom_id=None,
                model=ask.model,
                first=reply.first,
                second=reply.second,
                outcome=reply.outcome,
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
            )
        )
