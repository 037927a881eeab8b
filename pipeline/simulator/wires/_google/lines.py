"""The lines of Google's batches: both wires read a file of requests and write one of answers and errors."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.jobs import Job, LineProblem
from pipeline.simulator.running import Checked, Executed, Habits
from pipeline.simulator.wires._google.content import perform
from pipeline.simulator.wires._google.speaking import problem_of
from pipeline.simulator.wires._speaking import Problem

_encoder = msgspec.json.Encoder()


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """How one wire wraps a request and what becomes of it.

    `read` returns the id and the request of a line, or says by ValueError what is wrong with it; `wrap` returns the
    line that answers it.
    """

    read: Callable[[JsonObject], tuple[str, JsonObject]]
    wrap: Callable[[JsonObject, "JsonObject | Problem"], JsonObject]
    most_requests: int
    most_bytes: int


class GoogleLines:
    """Reads and writes lines; the model is not in them but in the create call."""

    def __init__(self, engine: Engine, envelope: Envelope, *, all_or_nothing: bool) -> None:
        self._engine = engine
        self._envelope = envelope
        self.habits = Habits(one_file=True, all_or_nothing=all_or_nothing)

    def check(self, job: Job, path: Path) -> Checked:
        """Return where the lines lie, or why the whole batch fails."""
        settings, envelope = self._engine.settings, self._envelope
        if path.stat().st_size > (settings.max_bytes or envelope.most_bytes):
            return _failed("The input file is too large.")
        offsets: list[int] = []
        seen: set[str] = set()
        at = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                offsets.append(at)
                at += len(line)
                problem = self._line_problem(line, seen)
                if problem is not None:
                    return _failed(f"The input file could not be parsed: line {number}: {problem}")
        most = settings.max_requests or envelope.most_requests
        if not 1 <= len(offsets) <= most:
            return _failed(f"The input file has {len(offsets)} requests; a batch may have 1 to {most}.")
        return Checked(offsets=offsets, model=job.order.endpoint)

    def _line_problem(self, line: bytes, seen: set[str]) -> str | None:
        try:
            key, _ = self._envelope.read(msgspec.json.decode(line, type=JsonObject))
        except (msgspec.MsgspecError, ValueError) as error:
            return str(error)
        if key and key in seen:
            return f"the key {key!r} is not unique"
        seen.add(key)
        return None

    def execute(self, job: Job, line: bytes, *, mark: str, twist: str | None) -> Executed:
        """Return what becomes of the request."""
        model = job.order.endpoint
        row = msgspec.json.decode(line, type=JsonObject)
        key, request = self._envelope.read(row)
        done = perform(self._engine, model, request, mark=mark, twist=twist)
        if isinstance(done, Problem):
            written = _encoder.encode(self._envelope.wrap(row, done))
            return Executed(custom_id=key, model=model, ok=False, line=written, reply=None)
        written = _encoder.encode(self._envelope.wrap(row, done.response))
        return Executed(custom_id=key, model=model, ok=True, line=written, reply=done.reply)

    def failed(self, line: bytes, *, mark: str, status: int) -> bytes:  # noqa: ARG002 - as `Lines` has it
        """Return the line of a request that met this HTTP status."""
        problem = problem_of(status, "The simulator was told to refuse it.")
        return _encoder.encode(self._envelope.wrap(msgspec.json.decode(line, type=JsonObject), problem))

    def unanswered(self, line: bytes, *, mark: str, why: Literal["expired", "cancelled"]) -> None:
        """Write nothing about a request the batch did not get to."""


def _failed(message: str) -> Checked:
    return Checked(problems=(LineProblem(code="INVALID_ARGUMENT", message=message),))
