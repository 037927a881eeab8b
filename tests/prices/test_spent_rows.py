"""What rows have cost: at the price of their day and length, those without tokens apart."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa

from pipeline.operations.reading.costs import _spent
from pipeline.prices import Spent, terms_of

BEFORE, AFTER = datetime(2026, 12, 31, 23, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


def some_rows(*rows: tuple[int | None, int | None, int | None, datetime | None]) -> pa.RecordBatch:
    sent, cached, output, judged = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            *(pa.array(column, pa.int32()) for column in (sent, cached, output)),
            pa.array(judged, pa.timestamp("us", "UTC")),
        ],
        names=["input_tokens", "cached_tokens", "output_tokens", "judged_at"],
    )


def test_a_row_costs_what_was_asked_on_its_day() -> None:
    rows = some_rows((1000, None, 10, BEFORE), (1000, None, 10, AFTER))
    live = _spent(rows, terms_of("gemini", "gemini-3.8-flash", "live"))
    assert live.usd == (Decimal("0.75") * 1000 + Decimal("3.75") * 10) * 3 / 10**6
    assert live.rows_without_price == 0
    batch = _spent(rows, terms_of("gemini", "gemini-3.8-flash", "batch"))
    assert (batch.usd, batch.rows_without_price) == ((Decimal("0.375") * 1000 + Decimal("1.875") * 10) / 10**6, 1)


def test_a_row_costs_what_is_asked_for_its_length() -> None:
    rows = some_rows((100_000, 0, 0, BEFORE), (100_001, 0, 0, BEFORE), (0, 0, 1, None))
    found = _spent(rows, terms_of("anthropic", "claude-haiku-5-5", "batch"))
    assert found.usd == (Decimal("0.05") * 100_000 + Decimal("0.25") * 100_001 + Decimal("0.25")) / 10**6


def test_rows_without_tokens_or_without_a_price_are_counted_and_cost_nothing() -> None:
    rows = some_rows((None, None, None, BEFORE), (7, None, None, BEFORE), (7, 3, 2, BEFORE))
    assert _spent(rows, ()) == Spent(
        rows=3, rows_without_tokens=2, rows_without_price=1, input_tokens=7, cached_tokens=3, output_tokens=2
    )
