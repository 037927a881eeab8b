"""The price book: what a million tokens cost at which provider, from when to when, and for how long prompts."""

from collections.abc import Iterable
from datetime import date
from functools import cache
from importlib.resources import files

import msgspec
from msgspec.structs import replace

from pipeline.domain import Mode, OwnPrice, Price

MILLION = 1_000_000  # tokens: so many cost what a price says


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model's prices in both modes; they hold from `since` to `until`, for prompts of `above` to `up_to` tokens."""

    provider: str
    model: str
    standard: Price
    as_of: date
    source: str
    batch: Price | None = None
    since: date = date.min
    until: date = date.max
    above: int = 0
    up_to: int | None = None


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A price with the days and prompts that it holds for; `as_of` is None where the experiment file says it."""

    price: Price
    as_of: date | None = None
    since: date = date.min
    until: date = date.max
    above: int = 0
    up_to: int | None = None

    def holds_on(self, day: date) -> bool:
        """Say whether the price is asked on that day."""
        return self.since <= day <= self.until


_book = msgspec.json.Decoder(tuple[Row, ...])


@cache
def rows() -> tuple[Row, ...]:
    """Return the whole book."""
    return _book.decode(files(__package__).joinpath("book.json").read_bytes())


def terms_of(provider: str, model: str, mode: Mode, *, own: Iterable[OwnPrice] = ()) -> tuple[Term, ...]:
    """Return every known price of the model in this mode, none if there is none; one of the file's own wins."""
    for each in own:
        if (each.provider, each.model, each.mode) == (provider, model, mode):
            return (Term(price=each.price),)
    known = [row for row in rows() if (row.provider, row.model) == (provider, model)]
    found = [(row, row.batch if mode == "batch" else row.standard) for row in known]
    return tuple(_term(row, price) for row, price in found if price is not None)


def dated(dates: Iterable[date], *, from_file: bool) -> str:
    """Return which prices were taken, in words: the days of the book's, and whether some are the file's."""
    return " and ".join([*(f"of {day}" for day in sorted(dates)), *(["of the file"] if from_file else [])])


def _term(row: Row, price: Price) -> Term:
    term = Term(price=price, as_of=row.as_of)
    return replace(term, since=row.since, until=row.until, above=row.above, up_to=row.up_to)
