"""Executes the requests of a batch, line by line, and writes its files with the faults that were asked for.

Memory does not grow with the batch: lines are read where they lie, and shuffled by reading them in another order.
"""

import hashlib
import threading
from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from pipeline.clock import Clock
from pipeline.ids import digest
from pipeline.simulator.faults import LINE_FAULTS, Faults
from pipeline.simulator.files import Files, StoredFile
from pipeline.simulator.jobs import Counts, Job, LineProblem, Usage
from pipeline.simulator.judge import Reply
from pipeline.simulator.ledger import Billed, FileTouched, Ledger
from pipeline.simulator.writing import Writer

KEPT_SECONDS = 30 * 86_400.0
_NOT_DELIVERED = frozenset(("output.missing", "output.damaged", "output.bad_utf8", "output.differing"))


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of an input file found: where each line begins and the one model, or what is wrong."""

    offsets: list[int] = []
    model: str | None = None
    problems: tuple[LineProblem, ...] = ()


class Executed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one request: the line for the output (`ok`) or error file, and the reply if it is billed."""

    custom_id: str
    model: str
    ok: bool
    line: bytes
    reply: Reply | None


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How a provider treats batches, where that is not as OpenAI does.

    `one_file`: answers and errors are written into one file. `all_or_nothing`: a batch that expires answers nothing.
    `fails_whole`: a batch that nothing is wrong with may still fail.
    """

    one_file: bool = False
    all_or_nothing: bool = False
    fails_whole: bool = True


class Lines(Protocol):
    """How one wire reads and writes the lines of a batch.

    `mark` is a hexadecimal name, different for each execution, to build the provider's own ids from.
    """

    @property
    def habits(self) -> Habits:
        """How the provider treats the batch around the lines."""
        ...

    def check(self, job: Job, path: Path) -> Checked:
        """Return where the lines of the input file lie, or why the whole batch fails."""
        ...

    def execute(self, job: Job, line: bytes, *, mark: str, twist: str | None) -> Executed:
        """Return what becomes of the batch's request; `twist` is the fault that spoils the reply, if one does."""
        ...

    def failed(self, line: bytes, *, mark: str, status: int) -> bytes:
        """Return the error line of a request that met this HTTP status."""
        ...

    def unanswered(self, line: bytes, *, mark: str, why: Literal["expired", "cancelled"]) -> bytes | None:
        """Return the error line of a request the batch did not get to; None where the provider writes none."""
        ...


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What executing a batch left behind."""

    counts: Counts
    unanswered: int
    usage: Usage
    output_file_id: str | None
    error_file_id: str | None


class StoppedError(Exception):
    """The simulator is being closed in the middle of a batch."""


class Runner:
    """Executes batches of any wire."""

    def __init__(self, *, clock: Clock, seed: int, shuffle: bool, faults: Faults, files: Files, ledger: Ledger) -> None:
        self._clock = clock
        self._seed = seed
        self._shuffle = shuffle
        self.faults = faults
        self.files = files
        self.ledger = ledger
        self.stop = threading.Event()

    def now(self) -> float:
        """Return the time as seconds since 1970."""
        return self._clock.now().timestamp()

    def run(self, job: Job, lines: Lines, *, unanswered: float) -> Results:
        """Execute the batch but for a share of `unanswered` requests, which get a line that says why."""
        assert job.source is not None, "only a batch that was checked is executed"
        run = _Run(self, job, lines, share=unanswered)
        with closing(run), job.source.open("rb") as file:
            for rank, index in enumerate(run.order):
                if self.stop.is_set():
                    raise StoppedError
                file.seek(job.offsets[index])
                run.take(rank, file.readline().rstrip(b"\r\n"))
            return run.finish()

    def permutation(self, job: Job, count: int, purpose: str) -> list[int]:
        """Return the numbers below `count` in an order that depends on seed and batch alone."""
        salt = f"{self._seed}:{job.number}:{purpose}".encode()
        return sorted(range(count), key=lambda at: hashlib.blake2b(b"%b:%d" % (salt, at), digest_size=8).digest())

    def order(self, job: Job) -> Iterable[int]:
        """Return in which order requests are executed and their lines written."""
        count = len(job.offsets)
        shuffle = self.faults.take("output.shuffle") is not None or self._shuffle
        return self.permutation(job, count, "order") if shuffle else range(count)

    def struck(self, job: Job, answered: int) -> dict[int, str]:
        """Return which line fault strikes which of the answered requests, by rank."""
        ranks = iter(self.permutation(job, answered, "faults"))
        struck: dict[int, str] = {}
        for name in LINE_FAULTS:
            fault = self.faults.take(name)
            if fault is not None:
                share = int(fault.number(1) * answered + 0.5)
                struck.update((rank, name) for rank in islice(ranks, share))
        return struck

    def struck_call(self, number: int) -> str | None:
        """Return the answer fault that strikes the live call of this number, if one does."""
        for name in LINE_FAULTS:
            fault = self.faults.take(name) if name.startswith("answer.") else None
            if fault is not None and _fraction(f"{self._seed}:{name}:{number}") < fault.number(1):
                return name
        return None

    def writer(self, job: Job, kind: str) -> Writer:
        """Return an empty result file of the batch."""
        file_id = f"file-{self._clock.nonce()[-22:]}"
        return Writer(file_id=file_id, path=self.files.path_of(file_id), name=f"{job.batch_id}_{kind}.jsonl")

    def is_struck(self, name: str) -> bool:
        """Return whether a fault of the whole file strikes this batch."""
        return self.faults.take(name) is not None

    def keep(self, writer: Writer, job: Job) -> str | None:
        """Complete the file, make it visible unless it is empty, and return its id."""
        writer.finish()
        if writer.lines == 0:
            writer.path.unlink()
            return None
        now, size = self.now(), writer.path.stat().st_size
        wire, lifetime = job.order.wire, job.order.output_lifetime or KEPT_SECONDS
        self.files.add(
            StoredFile(
                file_id=writer.file_id,
                wire=wire,
                filename=writer.name,
                purpose="batch_output",
                bytes=size,
                created_at=now,
                expires_at=now + lifetime,
                path=writer.path,
            )
        )
        self.ledger.record(
            FileTouched(at=now, wire=wire, file_id=writer.file_id, action="written", filename=writer.name, bytes=size)
        )
        return writer.file_id

    def bill(self, job: Job, done: Executed, reply: Reply, *, delivered: bool) -> None:
        """Write down that a request was executed."""
        self.ledger.record(
            Billed(
                at=self.now(),
                wire=job.order.wire,
                batch_id=job.batch_id,
                custom_id=done.custom_id,
                model=done.model,
                first=reply.first,
                second=reply.second,
                outcome=reply.outcome,
                input_tokens=reply.input_tokens,
                output_tokens=reply.output_tokens,
                delivered=delivered,
            )
        )


def _fraction(name: str) -> float:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) / 2**64


class _Run:
    """One batch being executed."""

    def __init__(self, runner: Runner, job: Job, lines: Lines, *, share: float) -> None:
        self._runner, self._job, self._lines = runner, job, lines
        self._why: Literal["expired", "cancelled"] = "cancelled" if job.phase == "cancelling" else "expired"
        self._answered = len(job.offsets) - int(share * len(job.offsets) + 0.5)
        self.order = runner.order(job)
        self._struck = runner.struck(job, self._answered)
        self._absent = runner.is_struck("output.absent")
        self._output = runner.writer(job, "output")
        self._errors = self._output if lines.habits.one_file else runner.writer(job, "error")
        for name in ("crlf", "bom", "blank", "no_newline"):
            if runner.is_struck(f"output.{name}"):
                self._output.odd.add(name)
                self._errors.odd.add(name)
        self._name = digest(job.batch_id.encode())[:16]
        self._completed = 0
        self._failed = 0
        self._usage = Usage()

    def take(self, rank: int, line: bytes) -> None:
        """Deal with the next request."""
        mark = f"{rank:08x}{self._name}"
        fault = self._struck.get(rank, "")
        if rank >= self._answered:
            self._fail(self._lines.unanswered(line, mark=mark, why=self._why))
        elif fault.startswith("line."):
            self._fail(self._lines.failed(line, mark=mark, status=int(fault.removeprefix("line."))))
        else:
            self._execute(line, mark, fault)

    def _fail(self, line: bytes | None) -> None:
        self._failed += 1
        if line is not None:
            self._errors.write(line)

    def _execute(self, line: bytes, mark: str, fault: str) -> None:
        done = self._lines.execute(self._job, line, mark=mark, twist=fault if fault.startswith("answer.") else None)
        if not done.ok:
            self._fail(done.line)
            return
        self._completed += 1
        if done.reply is not None:
            self._count(done.reply)
            delivered = fault not in _NOT_DELIVERED and not self._absent
            self._runner.bill(self._job, done, done.reply, delivered=delivered)
        for written in self._as_struck(line, mark, done, fault):
            self._output.write(written)

    def _count(self, reply: Reply) -> None:
        self._usage.input_tokens += reply.input_tokens
        self._usage.cached_tokens += reply.cached_tokens
        self._usage.output_tokens += reply.output_tokens
        self._usage.reasoning_tokens += reply.reasoning_tokens

    def _as_struck(self, line: bytes, mark: str, done: Executed, fault: str) -> list[bytes]:
        """Return the lines to be written for one answered request."""
        match fault:
            case "output.missing":
                return []
            case "output.damaged":
                return [done.line[: len(done.line) // 2]]
            case "output.bad_utf8":
                return [done.line[:-2] + b'"\xff\xfe"' + done.line[-2:]]
            case "output.doubled":
                return [done.line, done.line]
            case "output.differing":
                return [done.line, self._lines.execute(self._job, line, mark=f"{mark}d", twist=fault).line]
            case "output.foreign":
                return [done.line, done.line.replace(done.custom_id.encode(), b"stranger-%b" % mark.encode(), 1)]
            case _:
                return [done.line]

    def close(self) -> None:
        """Let go of files that were not finished."""
        self._output.close()
        self._errors.close()

    def finish(self) -> Results:
        """Complete the files and return what there is now."""
        error_file_id = None if self._errors is self._output else self._runner.keep(self._errors, self._job)
        if error_file_id is None and self._runner.is_struck("output.empty_error_id"):
            error_file_id = ""
        output_file_id = self._runner.keep(self._output, self._job)
        counts = Counts(total=len(self._job.offsets), completed=self._completed, failed=self._failed)
        return Results(
            counts=counts,
            unanswered=len(self._job.offsets) - self._answered,
            usage=self._usage,
            output_file_id=None if self._absent else output_file_id,
            error_file_id=error_file_id,
        )
