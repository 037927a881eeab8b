"""Amounts of money as people and programs read them."""

from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal

_CENT = Decimal("0.01")
_MICRO = Decimal("0.000001")


def usd(amount: Decimal) -> str:
    """Return the amount in dollars and cents: `$12.40`; `< $0.01` where that would look like nothing and is not."""
    shown = amount.quantize(_CENT, ROUND_HALF_UP)
    return f"${shown:,}" if shown or not amount else "< $0.01"


def usd_span(low: Decimal, high: Decimal) -> str:
    """Return both ends of an estimate, the upper one never rounded down; one where they look alike."""
    ends = usd(low), usd(high if high < _CENT else high.quantize(_CENT, ROUND_CEILING))
    return ends[1] if ends[0] == ends[1] else " to ".join(ends)


def as_number(amount: Decimal) -> Decimal:
    """Return the amount for a JSON document: six places, never written with an exponent."""
    return amount.quantize(_MICRO, ROUND_HALF_UP)
