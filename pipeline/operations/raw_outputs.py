"""The raw lines of a batch as outputs: read block by block, and one by one where a line is not as it should be."""

import json
import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from pipeline import providers
from pipeline.domain import Output
from pipeline.events import Part
from pipeline.operations.worker import Run
from pipeline.state import BatchState
from pipeline.storage.streams import blocks_of_lines, decompressed, lines_of, objects_in
from pipeline.tasks.lookup import Lookup

_ID_FIELDS = ("custom_id", "key", "request_id", "recordId", "batch_request_id")
_UNREADABLE = (ValueError, msgspec.DecodeError, RecursionError)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class RawOutputs:
    """What came back for a batch; `damaged` is how many lines the last reading could make nothing of."""

    def __init__(self, run: Run, batch: BatchState, lookup: Lookup) -> None:
        self._store = run.worker.store
        self._parts = sorted(batch.parts, key=lambda part: (part.is_late, part.name == "error"))
        self._decode = run.decode
        self._decode_lines = None if run.is_live else providers.lines_decoder(run.config.judge.provider)
        self._lookup = lookup
        self.damaged = 0

    def blocks(self) -> Iterator[tuple[list[Output], bool]]:
        """Yield what can be read, and whether it came for an attempt that had been given up."""
        self.damaged = 0
        for part in self._parts:
            for block in self._blocks_of(part):
                try:
                    yield self._together(block), part.is_late
                except _UNREADABLE:
                    yield from self._one_by_one(block, late=part.is_late)

    def first(self, count: int) -> list[Output]:
        """Return the first outputs, so many at most, without reading further than they stand."""
        blocks = (block for part in self._parts for block in self._blocks_of(part))
        found = (output for block in blocks for some, _ in self._one_by_one(block, late=False) for output in some)
        return list(islice(found, count))

    def _blocks_of(self, part: Part) -> Iterator[bytes]:
        with self._store.open(part.key) as file:
            yield from blocks_of_lines(decompressed(file, key=part.key))

    def _together(self, block: bytes) -> list[Output]:
        """Return the outputs of a block; raises if one of its lines cannot be read."""
        count = objects_in(block)
        if self._decode_lines is not None and count is not None:
            outputs = self._decode_lines(block)
            if len(outputs) == count:
                return outputs
        return [self._decode(line) for line in lines_of(block)]

    def _one_by_one(self, block: bytes, *, late: bool) -> Iterator[tuple[list[Output], bool]]:
        """Yield the outputs of a block in which a line cannot be read."""
        for line in map(_in_whole_characters, lines_of(block)):
            try:
                yield [self._decode(line)], late
            except _UNREADABLE:
                self.damaged += 1
                if (name := self._named_in(line)) is not None:
                    yield [Output(request_id=name, status="errored", reason="unreadable")], True

    def _named_in(self, line: bytes) -> str | None:
        """Return which request a line answers that is whole but not as we know it: paid for, not to be bought again."""
        try:
            fields = msgspec.json.decode(line.decode(), type=dict[str, object])
        except _UNREADABLE:
            return None
        names = [name for key in _ID_FIELDS if isinstance(name := fields.get(key), str)]
        places = self._lookup.places(names).tolist()
        return next((name for name, place in zip(names, places, strict=True) if place >= 0), None)


def _in_whole_characters(line: bytes) -> bytes:
    """Return the line with each half of a surrogate pair replaced: who stops inside a character writes one."""
    if not _SURROGATE.search(line):
        return line
    try:
        return json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace")
    except _UNREADABLE:
        return line
