"""Why requests did not end as ok, counted from the published rows without reading a text."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

import msgspec

from pipeline.errors import StoreError
from pipeline.operations.workers.run import Run
from pipeline.storage.tables import stream

_MOST_OBJECTS = 200  # a store far away takes some seconds for these


class Reasons(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests ended so, by status and reason, the most first; some are `left` that were not looked at."""

    counts: dict[tuple[str, str], int] = {}
    left: int = 0


def reasons_of(runs: Iterable[Run]) -> Reasons:
    """Return why requests of these runs, as of the last look at their logs, did not end as ok."""
    found: Counter[tuple[str, str]] = Counter()
    missed = 0
    for run in runs:
        counts = run.state.counts
        missed += counts.ended - counts.ok
        if counts.ended == counts.ok:
            continue
        batches = (batch for batch in run.state.batches.values() if batch.counts.ended > batch.counts.ok)
        published = [batch.rows_key for batch in islice(batches, _MOST_OBJECTS) if batch.rows_key]
        with suppress(StoreError):  # `audit` tells of rows that cannot be read
            for rows in stream(run.worker.store, published, columns=["status", "reason"]):
                pairs = zip(rows.column("status").to_pylist(), rows.column("reason").to_pylist(), strict=True)
                found.update((status, reason or "no reason given") for status, reason in pairs if status != "ok")
    return Reasons(counts=dict(found.most_common()), left=max(missed - found.total(), 0))
