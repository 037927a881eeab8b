"""What answers have cost, as far as the tokens that came with them and the prices known here tell: never a bill."""

from datetime import date
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from pipeline.domain import Price
from pipeline.prices.book import MILLION, Term, dated
from pipeline.prices.money import as_number, usd
from pipeline.wording import counted


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of some answers; input includes cached, output includes reasoning."""

    rows: int
    input: int
    cached: int
    output: int


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What some rows have cost; those without tokens or without a known price are counted and cost nothing here."""

    usd: Decimal = Decimal(0)
    rows: int = 0
    rows_without_tokens: int = 0
    rows_without_price: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    prices_as_of: tuple[date, ...] = ()
    prices_of_file: bool = False

    def __add__(self, other: "Spent") -> "Spent":
        sums = {name: getattr(self, name) + getattr(other, name) for name in Spent.__struct_fields__}
        dates, of_file = tuple(sorted({*sums["prices_as_of"]})), self.prices_of_file or other.prices_of_file
        return Spent(**{**sums, "prices_as_of": dates, "prices_of_file": of_file})

    @property
    def is_priced(self) -> bool:
        """Whether the cost is that of any row at all."""
        return self.rows > self.rows_without_tokens + self.rows_without_price

    def rounded(self) -> "Spent":
        """Return the same for a JSON document."""
        return replace(self, usd=as_number(self.usd))


def spent_on(used: Used, term: Term | None) -> Spent:
    """Return what answers have cost at this price; None is a price that is not known."""
    told = Spent(rows=used.rows, input_tokens=used.input, cached_tokens=used.cached, output_tokens=used.output)
    if term is None:
        return replace(told, rows_without_price=used.rows)
    dates = (term.as_of,) if term.as_of and used.rows else ()
    of_file = term.as_of is None and used.rows > 0
    return replace(told, usd=_cost(used, term.price), prices_as_of=dates, prices_of_file=of_file)


def _cost(used: Used, price: Price) -> Decimal:
    """Return the cost; cached input whose price is not known is counted as dear as any other."""
    cached = price.input if price.cached is None else price.cached
    fresh = price.input * (used.input - used.cached)
    return (fresh + cached * used.cached + price.output * used.output) / MILLION


def told_briefly(spent: Spent) -> str:
    """Return what was spent as one cell of a table."""
    if not spent.rows:
        return "–"
    return usd(spent.usd) if spent.is_priced else "not known"


def told(spent: Spent) -> str:
    """Return what was spent in one sentence without its full stop: an estimate, with what it leaves out."""
    if not spent.rows:
        return "not known yet; no answer has been read"
    said = "not known"
    if spent.is_priced:
        prices = dated(spent.prices_as_of, from_file=spent.prices_of_file)
        said = f"{usd(spent.usd)} at prices {prices}, an estimate, not a bill"
    said += f"; {spent.input_tokens:,} input and {spent.output_tokens:,} output tokens"
    for rows, why in ((spent.rows_without_tokens, "no tokens"), (spent.rows_without_price, "no known price")):
        if rows:
            said += f"; left out: {counted(rows, 'row')} with {why}"
    return said
