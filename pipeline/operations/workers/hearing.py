"""What a run's models answered, by position, read from the published rows: later turns go on from it."""

from collections.abc import Callable

import numpy as np

from pipeline.state import BatchState, RunState
from pipeline.storage import Store
from pipeline.storage.tables import stream
from pipeline.tasks.columns import Column
from pipeline.tasks.lookup import Lookup
from pipeline.tasks.rendering import Positions

_SEGMENTS_IN_MIND = 8

Answers = list[str | None]


class Heard:
    """The answers of one run; rows never change, so that whoever reads them hears the same."""

    def __init__(self, store: Store, state: Callable[[], RunState], request_ids: Callable[[Positions], Column]) -> None:
        self._store = store
        self._state = state
        self._request_ids = request_ids
        self._known: dict[int, Answers] = {}

    def answers(self, positions: Positions) -> Answers:
        """Return what was answered at these positions, None where no whole answer came."""
        found: Answers = [None] * len(positions)
        for index, segment in enumerate(self._state().segments):
            inside = (positions >= segment.start) & (positions < segment.start + segment.requests)
            if inside.any():
                contents = self._segment(index)
                for at in np.flatnonzero(inside).tolist():
                    found[at] = contents[int(positions[at]) - segment.start]
        return found

    def _segment(self, index: int) -> Answers:
        """Return the answers of a segment; the last few segments whose requests have all ended are kept in mind."""
        known = self._known.get(index)
        if known is not None:
            return known
        batches = [batch for batch in self._state().batches.values() if batch.segment == index]
        contents = self._read(index, batches)
        if sum(batch.counts.ended for batch in batches) == len(contents):
            while len(self._known) >= _SEGMENTS_IN_MIND:
                self._known.pop(next(iter(self._known)))
            self._known[index] = contents
        return contents

    def _read(self, index: int, batches: list[BatchState]) -> Answers:
        segment = self._state().segments[index]
        positions = np.arange(segment.start, segment.start + segment.requests)
        asked = Lookup(positions, self._request_ids(positions))
        contents: Answers = [None] * len(positions)
        published = [batch.rows_key for batch in batches if batch.rows_key]
        for rows in stream(self._store, published, columns=["request_id", "status", "content"]):
            places = asked.places(rows.column("request_id")).tolist()
            answered = zip(places, rows.column("status").to_pylist(), rows.column("content").to_pylist(), strict=True)
            for place, status, content in answered:
                if place >= 0 and status == "ok":
                    contents[place] = content
        return contents
