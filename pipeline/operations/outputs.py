"""What a batch's raw outputs say: which rows they give, and what became of the requests that no line answers."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.domain import Output
from pipeline.operations.raw_outputs import RawOutputs
from pipeline.operations.rows import NOTHING, Asked, Ending, RowBuilder, Rows
from pipeline.operations.worker import Positions, Run
from pipeline.state import BatchState
from pipeline.storage.tables import parquet_bytes
from pipeline.tasks import task_named
from pipeline.tasks.answers import Unparsed
from pipeline.tasks.lookup import Lookup

_FAILURES = frozenset({"errored", "expired", "cancelled"})
_LINES_THAT_TELL = 200
_MONEY = ("insufficient_quota", "billing", "credit")
_PLACES_A_BLOCK = 1_024
_UNANSWERED = frozenset({"expired", "missing"})
_TWO_OUTPUTS = Ending(status="errored", reason="two_outputs", again=True)


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
        self._again = batch.send < plan.attempts and not batch.cancel_asked
        self._waits_for_money = not batch.cancel_asked and not run.is_live
        self._named = self._named_lines()
        self.spared = bool(self._named) and not batch.cancel_asked
        self.written = self.foreign = self.doubled = 0
        self._is_read = False

    @property
    def damaged(self) -> int:
        """How many lines nothing could be made of."""
        return self._raw.damaged

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
        read = [output.request_id for output in self._raw.first(_LINES_THAT_TELL)]
        if not read:
            return not self._batch.proven
        return bool((self._lookup.places(read) < 0).all())

    def unpaid(self, again: int) -> str | None:
        """Return the account's fault if each of so many requests got no answer for want of money, else None."""
        if not self._is_read:
            self.table()
        left = [output for place, (output, _) in self._waiting.items() if output.again and not self._ended[place]]
        faults = [output.reason for output in left if _wants_money(output.reason)]
        return faults[0] if faults and len(faults) == again else None

    def _written(self, *, contradicted: set[int]) -> bytes:
        self.written = self.foreign = self.doubled = 0
        self._ended: NDArray[np.bool_] = np.zeros(len(self._asked), np.bool_)
        self._waiting: dict[int, tuple[Output, Ending]] = {}
        self._repeated: set[int] = set()
        builder = RowBuilder(self._run, self._batch, self._asked)
        return parquet_bytes(builder.schema, builder.batches(self._rows(contradicted)), metadata={})

    def _rows(self, contradicted: set[int]) -> Iterator[Rows]:
        """Yield the rows that are final, a block of lines at a time, then what became of all other requests."""
        for block, late in self._raw.blocks():
            places, outputs = self._placed(block)
            self.foreign += len(block) - len(outputs)
            found = Rows(places=places.tolist(), outputs=outputs, endings=list(map(self._ending, outputs)))
            if contradicted or not self._are_final(places, found.endings):
                found = self._final_among(found, contradicted, late=late)
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

    def _ending(self, output: Output) -> Ending:
        """Return what an output says."""
        if output.status != "answered":
            again = output.again or output.status in _UNANSWERED
            return Ending(status=output.status, reason=output.reason, again=again)
        answer = self._answer(output.content)
        if isinstance(answer, Unparsed):
            return Ending(status=answer.status, reason=answer.reason)
        return Ending(status="ok", value=answer)

    def _are_final(self, places: Positions, endings: list[Ending]) -> bool:
        """Say whether these are the rows of as many requests that have none yet: so it is in nearly every block."""
        nothing_open = True not in [ending.again for ending in endings]
        return nothing_open and not self._ended[places].any() and bool(np.diff(np.sort(places)).all())

    def _final_among(self, rows: Rows, contradicted: set[int], *, late: bool) -> Rows:
        """Return the rows that are final; another line may mend the others, and one too many for a request is noted."""
        final = Rows()
        for place, output, ending in rows:
            if self._ended[place]:
                self._repeat(place, output, late=late)
            elif place in contradicted:
                self._waiting[place] = (NOTHING, _TWO_OUTPUTS)
            elif ending.again:
                self._waiting[place] = (output, ending)
            else:
                self._ended[place] = True
                final.add(place, output, ending)
        return final

    def _final_without_answer(self, places: Iterable[int]) -> Rows:
        """Return the rows of those of these requests that have reached their end without an answer."""
        final = Rows()
        for place in places:
            output, ending = self._waiting.get(place) or (NOTHING, self._unanswered(place))
            last = self._last(place, ending)
            if last is not None:
                final.add(place, output, last)
        return final

    def _repeat(self, place: int, output: Output, *, late: bool) -> None:
        """Count a further line for a request that has its row; one that may say something else is remembered."""
        self.doubled += 1
        if not late and output.status not in _FAILURES:
            self._repeated.add(place)

    def _contradicted(self, repeated: set[int]) -> set[int]:
        """Return the requests among these whose lines differ in what they say."""
        said: dict[int, tuple[object, ...]] = {}
        found: set[int] = set()
        for block, late in self._raw.blocks():
            places, outputs = self._placed(block)
            for place, output in zip(places.tolist(), outputs, strict=True):
                if place not in repeated:
                    continue
                if place not in said:
                    if not (output.again or output.status in _UNANSWERED):
                        said[place] = _meaning(output)
                elif said[place] != _meaning(output) and not late and output.status not in _FAILURES:
                    found.add(place)
        return found

    def _unanswered(self, place: int) -> Ending:
        """Return the end of a request that nothing came back for."""
        batch = self._batch
        if batch.phase == "cancelled":
            return Ending(status="cancelled", reason="cancelled_before_sending")
        if not self._all_were_sent:
            if self._sizes[place] == 0:
                return Ending(status="cancelled", reason="no_answer_to_go_on_from")
            if place not in self._lines:
                return Ending(status="errored", reason="too_large")
        if batch.phase == "refused":
            return Ending(status="errored", reason=batch.code or batch.note)
        if batch.fault in {"account", "rate"}:
            return Ending(status="missing", reason="batch_stopped", again=True)
        if batch.end == "failed":
            return self._failed(self._lines[place])
        if batch.end == "cancelled":
            return Ending(status="cancelled", reason="cancelled_at_provider")
        if batch.end == "expired":
            return Ending(status="expired", reason="batch_expired", again=True)
        return Ending(status="missing", reason="no_line", again=True)

    def _failed(self, line: int) -> Ending:
        """Return the end of a request in a batch that failed whole: lines that were named are at fault, others not."""
        if self._named and line not in self._named:
            return Ending(status="errored", reason="batch_failed", again=True)
        reason = self._named.get(line) or next((fault.reason for fault in self._batch.faults), "batch_failed")
        return Ending(status="errored", reason=reason)

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

    def _named_lines(self) -> dict[int, str]:
        if self._batch.end != "failed":
            return {}
        known = set(self._lines.values())
        return {fault.line: fault.reason for fault in self._batch.faults if fault.line in known}

    def _last(self, place: int, ending: Ending) -> Ending | None:
        """Return how the request ended, None if it has not."""
        if ending.again:
            stopped = self._batch.fault in {"account", "rate"} and not self._batch.cancel_asked
            innocent = self.spared and self._lines.get(place) not in self._named
            unpaid = self._waits_for_money and _wants_money(ending.reason)
            if self._again or stopped or innocent or unpaid:
                return None
            if self._batch.cancel_asked and ending.status in _UNANSWERED:
                return msgspec.structs.replace(ending, status="cancelled", reason="cancelled_at_provider")
        return ending


def _wants_money(reason: str | None) -> bool:
    """Say whether a request failed for the account's want of money: that burns no send, not even the last."""
    return any(word in (reason or "").lower() for word in _MONEY)


def _meaning(output: Output) -> tuple[object, ...]:
    return (output.status, output.content, output.finish_reason, output.reason)
