"""Amounts of money as people and programs read them."""

from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal

_CENT = Decimal("0.01")
_MICRO = Decimal("0.000001")
_MOST_PLACES = 12


def usd(amount: Decimal) -> str:
    """Return the amount in dollars and cents: `$12.40`; `< $0.01` where that would look like nothing and is not."""
    shown = amount.quantize(_CENT, ROUND_HALF_UP)
    return f"${shown:,}" if shown or not amount else "< $0.01"


def usd_span(low: Decimal, high: Decimal) -> str:
    """Return both ends of an estimate, the upper one never rounded down; one where they look alike."""
    ends = usd(low), usd(high if high < _CENT else high.quantize(_CENT, ROUND_CEILING))
    return ends[1] if ends[0] == ends[1] else " to ".join(ends)


def usd_limit(amount: Decimal) -> str:
    """Return a limit as it was given, at least to the cent: `$5.00`, `$0.0005`."""
    exponent = amount.normalize().as_tuple().exponent
    places = max(2, min(_MOST_PLACES, -exponent if isinstance(exponent, int) else 0))
    return f"${amount:,.{places}f}"


def usd_above(low: Decimal, high: Decimal) -> str:
    """Return both ends of an estimate that is above a limit; below a cent the upper end alone, to the millionth."""
    if high >= _CENT:
        return usd_span(low, high)
    return f"up to {usd_limit(high.quantize(_MICRO, ROUND_CEILING))}"


def as_number(amount: Decimal) -> Decimal:
    """Return the amount for a JSON document: six places, never written with an exponent."""
    return amount.quantize(_MICRO, ROUND_HALF_UP)
