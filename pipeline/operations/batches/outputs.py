"""What a batch's raw outputs say: which rows they give, and what became of the requests that no line answers."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from pipeline.domain import Output
from pipeline.endings import (
    TWO_OUTPUTS,
    Ending,
    Sending,
    Unsent,
    differ,
    ending_of,
    ending_without_line,
    final_ending,
    may_be_mended,
    speaks,
)
from pipeline.events import is_of_errors
from pipeline.operations.batches.raw_outputs import RawOutputs
from pipeline.operations.batches.rows import NOTHING, Asked, RowBuilder, Rows
from pipeline.operations.workers.requests import Positions
from pipeline.operations.workers.run import Run
from pipeline.state import BatchState
from pipeline.storage.tables import parquet_bytes
from pipeline.tasks import task_named
from pipeline.tasks.lookup import Lookup
from pipeline.wording import counted

_LINES_THAT_TELL = 200
_PLACES_A_BLOCK = 1_024


class Reading:
    """One reading of a batch's outputs: which rows they give, and what was wrong with them."""

    def __init__(self, run: Run, batch: BatchState) -> None:
        self._run = run
        self._batch = batch
        self._answer = task_named(run.config.task).reader(run.config)
        self._asked = Asked.of(run, batch)
        self._lookup = Lookup(self._asked.positions, self._asked.request_ids)
        self._raw = RawOutputs(run, batch, self._lookup)
        plan = run.state.plan
        assert plan is not None, "a batch is only planned in a planned run"
        self._sending = Sending.of(batch, attempts=plan.attempts, is_live=run.is_live)
        self.written = self.foreign = self.doubled = 0
        self._is_read = False

    @property
    def damaged(self) -> int:
        """How many lines nothing could be made of."""
        return self._raw.damaged

    @property
    def spared(self) -> bool:
        """Whether the provider blamed some lines, and so none of the others, when it failed the batch."""
        return self._sending.spares

    def table(self) -> bytes:
        """Return the rows as Parquet; lines that came twice are compared, and where they differ neither counts."""
        body = self._written(contradicted=set())
        if self._repeated:
            contradicted = self._contradicted(self._repeated)
            body = self._written(contradicted=contradicted) if contradicted else body
        self._is_read = True
        return body

    def is_anothers(self) -> bool:
        """Say whether what came back is not ours: no line answers a request of this batch, and lines there are.

        Of a batch that was adopted as only probable they are the proof: without any it may be anybody's.
        """
        is_empty = True
        for output in islice(self._raw.one_by_one(), _LINES_THAT_TELL):
            if self._lookup.places([output.request_id])[0] >= 0:
                return False
            is_empty = False
        return not (is_empty and self._batch.proven)

    def unread(self) -> str | None:
        """Say what came back if it is lines of which not one can be read: paid for, and perhaps ours; else None.

        What a live call answers has its request's name from us, so that each line costs its own row at most.
        """
        return None if self._run.is_live else self._raw.unread()

    def unshown(self) -> str | None:
        """Say what is shown of a batch that was done whole if it is errors of some requests and nothing else.

        Unless the provider tells that there are no answers, those to the others were paid for and exist somewhere.
        """
        batch, sent = self._batch, self._batch.input.requests if self._batch.input else 0
        own = [part.name for part in batch.parts if not part.is_late]
        is_told = batch.end != "completed" or "output" in batch.remote_lines
        if is_told or not own or not all(map(is_of_errors, own)):
            return None
        places = self._lookup.places([output.request_id for output in self._raw.one_by_one()])
        known = len(np.unique(places[places >= 0]))
        return f"errors of {known} of its {counted(sent, 'request')} and no answers" if known < sent else None

    def unpaid(self, again: int) -> str | None:
        """Return the account's fault if each of so many requests got no answer for want of money, else None."""
        if not self._is_read:
            self.table()
        left = [ending for place, (_, ending) in self._waiting.items() if not self._ended[place]]
        faults = [ending.reason for ending in left if ending.unpaid]
        return faults[0] if faults and len(faults) == again else None

    def _written(self, *, contradicted: set[int]) -> bytes:
        self.written = self.foreign = self.doubled = 0
        self._ended: NDArray[np.bool_] = np.zeros(len(self._asked), np.bool_)
        self._waiting: dict[int, tuple[Output, Ending]] = {}
        self._repeated: set[int] = set()
        builder = RowBuilder(self._run, self._batch, self._asked)
        return parquet_bytes(builder.schema, builder.tables(self._rows(contradicted)), metadata={})

    def _rows(self, contradicted: set[int]) -> Iterator[Rows]:
        """Yield the rows that are final, a block of lines at a time, then what became of all other requests."""
        read = self._answer
        for block in self._raw.blocks():
            places, outputs = self._placed(block.outputs)
            self.foreign += len(block.outputs) - len(outputs)
            endings = [ending_of(output, read) for output in outputs]
            found = Rows(places=places, outputs=outputs, endings=endings, size=block.size)
            if contradicted or not self._are_final(places, endings):
                found = self._final_among(found, contradicted, late=block.is_late)
            self._ended[found.places] = True
            yield self._counted(found)
        others = iter(np.flatnonzero(~self._ended).tolist())
        while some := list(islice(others, _PLACES_A_BLOCK)):
            yield self._counted(self._final_without_answer(some))

    def _placed(self, outputs: list[Output]) -> tuple[Positions, list[Output]]:
        """Return the outputs that answer a request of the batch, and the places of those requests."""
        places = self._lookup.places([output.request_id for output in outputs])
        ours = places >= 0
        if ours.all():
            return places, outputs
        return places[ours], [output for output, is_ours in zip(outputs, ours.tolist(), strict=True) if is_ours]

    def _counted(self, rows: Rows) -> Rows:
        self.written += len(rows)
        return rows

    def _are_final(self, places: Positions, endings: list[Ending]) -> bool:
        """Say whether these are the rows of as many requests that have none yet: so it is in nearly every block."""
        nothing_open = True not in [ending.again for ending in endings]
        return nothing_open and not self._ended[places].any() and bool(np.diff(np.sort(places)).all())

    def _final_among(self, rows: Rows, contradicted: set[int], *, late: bool) -> Rows:
        """Return the rows that are final; another line may mend the others, and one too many for a request is noted."""
        final: list[tuple[int, Output, Ending]] = []
        for place, output, ending in rows:
            if self._ended[place]:
                self._repeat(place, output, late=late)
            elif place in contradicted:
                self._waiting[place] = (NOTHING, TWO_OUTPUTS)
            elif ending.again:
                self._waiting[place] = (output, ending)
            else:
                self._ended[place] = True
                final.append((place, output, ending))
        return Rows.of(final, size=rows.size)

    def _final_without_answer(self, places: Iterable[int]) -> Rows:
        """Return the rows of those of these requests that have reached their end without an answer."""
        final: list[tuple[int, Output, Ending]] = []
        for place in places:
            line = self._line(place)
            output, ending = self._waiting.get(place) or (NOTHING, ending_without_line(self._sending, line))
            last = final_ending(self._sending, ending, line)
            if last is not None:
                final.append((place, output, last))
        return Rows.of(final)

    def _repeat(self, place: int, output: Output, *, late: bool) -> None:
        """Count a further line for a request that has its row; one that may say something else is remembered."""
        self.doubled += 1
        if not late and speaks(output):
            self._repeated.add(place)

    def _contradicted(self, repeated: set[int]) -> set[int]:
        """Return the requests among these whose lines differ in what they say."""
        said: dict[int, Output] = {}
        found: set[int] = set()
        for block in self._raw.blocks():
            places, outputs = self._placed(block.outputs)
            for place, output in zip(places.tolist(), outputs, strict=True):
                if place not in repeated:
                    continue
                if place not in said:
                    if not may_be_mended(output):
                        said[place] = output
                elif not block.is_late and speaks(output) and differ(said[place], output):
                    found.add(place)
        return found

    def _line(self, place: int) -> int | Unsent:
        """Return which line of the input a request is, counted from 1, or why it is none."""
        if self._batch.phase == "cancelled":
            return "cancelled_before_sending"
        if self._all_were_sent:
            return place + 1
        if self._sizes[place] == 0:
            return "no_answer_to_go_on_from"
        return self._lines.get(place, "too_large")

    @property
    def _all_were_sent(self) -> bool:
        """Whether every request of the batch has a line in its input: then nobody need measure them again."""
        sent = self._batch.input
        return sent is not None and sent.requests == len(self._asked)

    @cached_property
    def _sizes(self) -> Positions:
        """How long the line of each request is."""
        return self._run.renderer.sizes(self._asked.positions)

    @cached_property
    def _lines(self) -> dict[int, int]:
        """Which line of the input each place is, counted from 1; those that are not sent have none."""
        sent = np.flatnonzero(self._run.fits(self._sizes)).tolist()
        return {place: line for line, place in enumerate(sent, start=1)}
