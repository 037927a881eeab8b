"""What published rows have cost, from the tokens that came with them."""

from collections.abc import Iterable
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.operations.workers.run import Run
from pipeline.prices import Spent, Term, Used, spent_on, terms_of
from pipeline.state import BatchState
from pipeline.storage.tables import stream

_TOKENS = ("input_tokens", "cached_tokens", "output_tokens")
_UNTOLD = -1


def spent_by(run: Run, batches: Iterable[BatchState]) -> Spent:
    """Return what the rows of these batches of the run have cost, at the prices of the newest file or of the book."""
    judge = run.config.judge
    terms = terms_of(judge.provider, judge.model, judge.mode, own=run.newest.prices or ())
    published = [batch.rows_key for batch in batches if batch.rows_key]
    rows = stream(run.worker.store, published, columns=[*_TOKENS, "judged_at"])
    return sum((_spent(each, terms) for each in rows), Spent())


def _spent(rows: pa.RecordBatch, terms: tuple[Term, ...]) -> Spent:
    sent, cached, output = (_numbers(rows, name) for name in _TOKENS)
    days = pc.cast(pc.fill_null(pc.cast(rows.column("judged_at"), pa.date32()), date(1970, 1, 1)), pa.date32())
    judged = days.to_numpy(zero_copy_only=False).astype("datetime64[D]")
    left = told = (sent > _UNTOLD) & (output > _UNTOLD)

    def used(some: NDArray[np.bool_]) -> Used:
        tokens = {"input": sent, "cached": np.maximum(cached, 0), "output": output}
        return Used(rows=int(some.sum()), **{name: int(column[some].sum()) for name, column in tokens.items()})

    total = Spent(rows=int((~told).sum()), rows_without_tokens=int((~told).sum()))
    for term in terms:
        days_hold = (judged >= np.datetime64(term.since)) & (judged <= np.datetime64(term.until))
        prompts_hold = np.maximum(sent, 1) > term.above
        if term.up_to is not None:
            prompts_hold &= sent <= term.up_to
        mine = left & days_hold & prompts_hold
        total, left = total + spent_on(used(mine), term), left & ~mine
    return total + spent_on(used(left), None)


def _numbers(rows: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    column = pc.fill_null(pc.cast(rows.column(name), pa.int64()), _UNTOLD)
    numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
    return numbers
