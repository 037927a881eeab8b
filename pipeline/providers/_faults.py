"""Requests that failed: what comes of them, and the words and numbers that tell whether they may be sent again."""

from pipeline.domain import Output

_MONEY = (
    "insufficient_quota", "current quota", "insufficient balance", "insufficient funds", "billing", "credit", "payment",
)  # fmt: skip
_SENT_AGAIN = frozenset({408, 409, 429})


def wants_money(words: str) -> bool:
    """Say whether a provider's words mean that the account has no money: a person must see to it."""
    said = words.lower()
    return any(word in said for word in _MONEY)


def blames_provider(status: int) -> bool:
    """Say whether a request that failed with this status of HTTP may be sent again."""
    return status in _SENT_AGAIN or 500 <= status < 600


def errored(request_id: str, reason: str, *, again: bool = False, returned_model: str | None = None) -> Output:
    """Return the output of a request that failed for this reason; `again`: it may be sent again."""
    return Output(
        request_id=request_id,
        status="errored",
        reason=reason,
        again=again,
        unpaid=wants_money(reason),
        returned_model=returned_model,
    )
