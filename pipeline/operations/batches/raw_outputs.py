"""The raw lines of a batch as outputs: read block by block, and one by one where a line is not as it should be."""

import contextlib
import json
import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from pipeline import providers
from pipeline.domain import Output
from pipeline.events import RawPart
from pipeline.operations.workers.run import Run
from pipeline.state import BatchState
from pipeline.storage.streams import LONGEST_LINE, blocks_of_lines, decompressed, lines_of, objects_in
from pipeline.tasks.lookup import Lookup
from pipeline.wording import counted

_LIVE_ID_PATH = ("request_id",)
_UNREADABLE = (ValueError, msgspec.DecodeError, RecursionError)
_MEMBERS_TOLD = 5
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class Block(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Outputs that stand together in a part, in so many bytes; `is_late`: it came for an attempt that was given up."""

    outputs: list[Output]
    size: int
    is_late: bool


class RawOutputs:
    """What came back for a batch; `damaged` is how many lines the last reading could make nothing of."""

    def __init__(self, run: Run, batch: BatchState, lookup: Lookup) -> None:
        self._store = run.worker.store
        self._parts = sorted(batch.parts, key=lambda part: (part.is_late, part.name == "error"))
        self._decode = run.decode
        particulars = providers.particulars(run.config.judge.provider)
        self._decode_lines = None if run.is_live else particulars.decode_lines
        self._id_path = _LIVE_ID_PATH if run.is_live else particulars.ID_PATH
        self._lookup = lookup
        self.damaged = 0

    def blocks(self) -> Iterator[Block]:
        """Yield what can be read; of a line that is not as we know it, which request it answers."""
        self.damaged = 0
        for part in self._parts:
            for block in self._blocks_of(part):
                yield Block(outputs=self._outputs(block), size=len(block), is_late=part.is_late)

    def one_by_one(self) -> Iterator[Output]:
        """Yield what can be read, without reading further than somebody asks."""
        blocks = (block for part in self._parts for block in self._blocks_of(part))
        return (output for block in blocks for output in self._one_by_one(block))

    def unread(self) -> str | None:
        """Say what the lines are like if there are lines of answers and not one of them can be read, else None.

        Where there are no answers, errors are lines too. Of what a line says nothing is told, only what it is made of.
        """
        answers = [part for part in self._parts if part.name != "error" and part.bytes] or self._parts
        blocks = (block for part in answers for block in self._blocks_of(part))
        count, shape = 0, ""
        for line in (line for block in blocks for line in lines_of(block)):
            with contextlib.suppress(*_UNREADABLE):
                self._decoded(line)
                return None
            count, shape = count + 1, shape or _shape(line)
        return f"{counted(count, 'line')} that cannot be read, the first of them {shape}" if count else None

    def _blocks_of(self, part: RawPart) -> Iterator[bytes]:
        with self._store.open(part.key) as file:
            yield from blocks_of_lines(decompressed(file, key=part.key))

    def _outputs(self, block: bytes) -> list[Output]:
        try:
            return self._together(block)
        except _UNREADABLE:
            return list(self._one_by_one(block))

    def _together(self, block: bytes) -> list[Output]:
        """Return the outputs of a block; raises if one of its lines cannot be read."""
        count = objects_in(block)
        if self._decode_lines is not None and count is not None:
            outputs = self._decode_lines(block)
            if len(outputs) == count:
                return outputs
        return [self._decode(line) for line in lines_of(block)]

    def _one_by_one(self, block: bytes) -> Iterator[Output]:
        """Yield the outputs of a block in which a line cannot be read."""
        for line in lines_of(block):
            try:
                yield self._decoded(line)
            except _UNREADABLE:
                self.damaged += 1
                if (name := self._named_in(line)) is not None:
                    yield Output(request_id=name, status="errored", reason="unreadable")

    def _decoded(self, line: bytes) -> Output:
        """Return what a line says, as it is or else in whole characters; raises if it can be read neither way."""
        try:
            return self._decode(line)
        except _UNREADABLE:
            return self._decode(_in_whole_characters(line))

    def _named_in(self, line: bytes) -> str | None:
        """Return which request a line answers that is whole but not as we know it: paid for, not to be bought again."""
        try:
            found: object = msgspec.json.decode(_in_whole_characters(line).decode())
        except _UNREADABLE:
            return None
        for member in self._id_path:
            found = found.get(member) if isinstance(found, dict) else None
        return found if isinstance(found, str) and self._lookup.places([found])[0] >= 0 else None


def _shape(line: bytes) -> str:
    """Return in a few words what a line is made of."""
    try:
        found: object = msgspec.json.decode(_in_whole_characters(line).decode())
    except _UNREADABLE:
        return "not whole JSON" if line else f"longer than {LONGEST_LINE} bytes"
    if not isinstance(found, dict):
        return f"JSON but not an object: {type(found).__name__}"
    return f"an object of {', '.join(name[:20] for name in islice(found, _MEMBERS_TOLD)) or 'nothing'}"


def _in_whole_characters(line: bytes) -> bytes:
    """Return the line with each half of a surrogate pair replaced: who stops inside a character writes one."""
    if not _SURROGATE.search(line):
        return line
    try:
        return json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace")
    except _UNREADABLE:
        return line
