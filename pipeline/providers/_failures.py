"""Batches that failed whole: whose fault it is, as far as the provider's words tell, and what answers are kept."""

import re
from typing import Literal

import msgspec

from pipeline.events import is_of_errors
from pipeline.providers import RemoteBatch
from pipeline.providers._faults import wants_money

_WAITS = ("token_limit", "rate_limit", "enqueued", "too many requests")
_LINE = re.compile(r"\bline \d{1,7}\b", re.IGNORECASE)
_NO_INPUT = re.compile(
    r"(?:cannot|could not|can't|unable to) (?:find|access|locate|open|download|retrieve)\b.*file|no such file|nosuchkey"
    r"|(?:file|object|specified key)\b.*(?:not (?:be )?found|\b(?:deleted|removed|missing|gone)\b|not exist|no longer)",
    re.IGNORECASE | re.DOTALL,
)
_OWN = re.compile(
    r"server[ _]error|internal[ _](?:server|error)|timeout|timed out|overloaded|unavailable", re.IGNORECASE
)
_CONTENT = re.compile(
    r"invalid|missing|required|\bmust\b|json|duplicate|already used|mismatch|not match|differs|supported|empty"
    r"|no records|too[ _](?:large|long|many)|may have|exceed|schema|parameter|validat|polic|cannot be used|not allowed"
    r"|pars|not exist|not[ _]found",
    re.IGNORECASE,
)


def fault_in(text: str) -> Literal["rate", "account"] | None:
    """Return whose fault a text speaks of: a full queue's, the account's, or neither's.

    A quota that stops a whole batch is the account's; one that stops a call may be that of a minute.
    """
    words = text.lower()
    if any(word in words for word in _WAITS):
        return "rate"
    return "account" if "quota" in words or wants_money(words) else None


def own_fault(text: str) -> Literal["rate"] | None:
    """Return "rate" if a text that names no line blames the provider or a missing input, or blames nothing we know."""
    if _NO_INPUT.search(text) or _OWN.search(text):
        return "rate"
    return None if _CONTENT.search(text) else "rate"


def failure(text: str) -> Literal["rate", "account"] | None:
    """Return whose fault a failed batch is after its only text; None if that names lines or what is wrong in them."""
    return None if _LINE.search(text) else fault_in(text) or own_fault(text)


def keeping_answers(batch: RemoteBatch, *, answered: bool, counted: int | None = None) -> RemoteBatch:
    """Return a batch that failed by no fault of ours with some answers as one that ended early.

    Answers are paid for: they are used, and only the rest is sent again. Those that are `counted` and not shown yet are
    told of, so that they are waited for.
    """
    if batch.end != "failed" or batch.fault is None:
        return batch
    if counted and all(map(is_of_errors, batch.parts)):
        batch = msgspec.structs.replace(batch, lines={"output": counted})
    if batch.fault != "rate" or not (answered or counted):
        return batch
    return msgspec.structs.replace(batch, end="expired", fault=None, faults=())
