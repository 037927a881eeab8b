"""What requests will cost: input as counted beforehand, output as assumed, at the prices of a day.

How much a judge writes nobody knows beforehand. What is assumed stands here, is told with every estimate, and is a
span: `max_output_tokens` of the judge, where given, is its upper end.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction

import msgspec

from pipeline.domain import Judge
from pipeline.prices.book import MILLION, Term, dated

_BYTES_A_TOKEN = (4, 3)  # English prose, and what other texts seldom fall below
_JUDGED = (10, 500)
_WRITTEN = (100, 4_096)
_THOUGHT = {
    "none": 0, "minimal": 1_024, "low": 4_096, "default": 8_192, "medium": 8_192, "high": 16_384, "xhigh": 32_768,
}  # fmt: skip
_MOST_THOUGHT = 49_152


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The least and the most of something counted."""

    low: int
    high: int


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that would be sent: how many at once and as later turns, the bytes of the former, and of the largest."""

    requests: int
    later: int
    bytes: int
    largest: int


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What some requests will probably cost; `as_of` are the dates of the prices, None for those of the file."""

    low: Decimal = Decimal(0)
    high: Decimal = Decimal(0)
    as_of: frozenset[date | None] = frozenset()

    @property
    def dates(self) -> list[date]:
        """The dates of the prices that are the book's."""
        return sorted(day for day in self.as_of if day)

    @property
    def prices(self) -> str:
        """Which prices were taken, in words."""
        return dated(self.dates, from_file=None in self.as_of)

    def of_part(self, *shares: Fraction) -> "Estimate":
        """Return the estimate of a part that is these shares of the whole, by requests and by bytes: between them."""
        low, high = (Decimal(share.numerator) / Decimal(share.denominator) for share in (min(shares), max(shares)))
        return Estimate(low=self.low * low, high=self.high * high, as_of=self.as_of)


def answer_tokens(judge: Judge, *, writes: bool) -> Span:
    """Return how many tokens an answer is assumed to have, thoughts included; `writes`: it is a text, no judgement."""
    low, high = _WRITTEN if writes else _JUDGED
    most = judge.max_output_tokens or high + _THOUGHT.get(judge.reasoning, _MOST_THOUGHT)
    return Span(low=min(low, most), high=most)


def input_tokens(load: Load, answer: Span) -> Span:
    """Return how many tokens the prompts are assumed to have; a later turn takes all before it along."""
    first = max(load.requests, 1)
    turns = -(-(load.requests + load.later) // first)
    low, high = (-(-load.bytes // each) for each in _BYTES_A_TOKEN)
    return Span(
        low=low + load.later * (low // first),
        high=high + load.later * turns * (-(-high // first) + answer.high),
    )


def estimate(load: Load, answer: Span, terms: Sequence[Term], day: date) -> Estimate | None:
    """Return what the requests will probably cost on that day; None where a price for some of them is not known."""
    largest = -(-load.largest // _BYTES_A_TOKEN[1])
    asked = [term for term in terms if term.holds_on(day) and term.above < max(largest, 1)]
    if not any(term.up_to is None or term.up_to >= largest for term in asked):
        return None
    sent, count = input_tokens(load, answer), load.requests + load.later
    prices = [term.price for term in asked]
    return Estimate(
        low=min(price.input * sent.low + price.output * answer.low * count for price in prices) / MILLION,
        high=max(price.input * sent.high + price.output * answer.high * count for price in prices) / MILLION,
        as_of=frozenset(term.as_of for term in asked),
    )


def in_all(estimates: Iterable[Estimate]) -> Estimate:
    """Return the sum of the estimates."""
    every = list(estimates)
    return Estimate(
        low=sum((each.low for each in every), Decimal(0)),
        high=sum((each.high for each in every), Decimal(0)),
        as_of=frozenset().union(*(each.as_of for each in every)),
    )
