"""Amounts of money as people and programs read them."""

from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal

_CENT = Decimal("0.01")
_MICRO = Decimal("0.000001")
_MOST_PLACES = 12


def usd(amount: Decimal) -> str:
    """Return the amount in dollars and cents, of less than ten cents the first two digits: `$12.40`, `$0.0021`."""
    return _written(amount, ROUND_HALF_UP)


def usd_span(low: Decimal, high: Decimal) -> str:
    """Return both ends of an estimate, the upper one never rounded down; one where they look alike."""
    ends = usd(low), _written(high, ROUND_CEILING)
    return ends[1] if ends[0] == ends[1] else " to ".join(ends)


def _written(amount: Decimal, rounding: str) -> str:
    """Return the amount to the cent or to its second digit, at most to the millionth."""
    step = max(_MICRO, min(_CENT, Decimal(1).scaleb(amount.adjusted() - 1))) if amount else _CENT
    shown = amount.quantize(step, rounding)
    if shown.adjusted() > amount.adjusted() and shown:
        return _written(shown, rounding)
    return f"${shown:,f}" if shown or not amount else f"< ${_MICRO:f}"


def usd_limit(amount: Decimal) -> str:
    """Return a limit as it was given, at least to the cent: `$5.00`, `$0.0005`."""
    exponent = amount.normalize().as_tuple().exponent
    places = max(2, min(_MOST_PLACES, -exponent if isinstance(exponent, int) else 0))
    return f"${amount:,.{places}f}"


def as_number(amount: Decimal) -> Decimal:
    """Return the amount for a JSON document: six places, never written with an exponent."""
    return amount.quantize(_MICRO, ROUND_HALF_UP)
