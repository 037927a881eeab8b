"""What judging costs: the price book that comes with the product, and the arithmetic of estimates.

Everything is USD, in decimals. `book.json` holds only prices that somebody read somewhere: one that is not known is not
there, and whoever needs it writes it into the experiment file.
"""

from pipeline.prices.book import Term, terms_of
from pipeline.prices.estimates import Estimate, Load, Span, answer_tokens, estimate, in_all
from pipeline.prices.money import as_number, usd, usd_limit, usd_span
from pipeline.prices.spending import Spent, Used, spent_on, told, told_briefly

__all__ = [
    "Estimate",
    "Load",
    "Span",
    "Spent",
    "Term",
    "Used",
    "answer_tokens",
    "as_number",
    "estimate",
    "in_all",
    "spent_on",
    "terms_of",
    "told",
    "told_briefly",
    "usd",
    "usd_limit",
    "usd_span",
]
