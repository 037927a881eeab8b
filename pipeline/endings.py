"""What becomes of a request: how it ended, or that it is sent again.

Pure decisions on what came back and on how the batch fared; who streams lines and writes rows is in `operations`.

Sent again are requests whose line expired, is missing or damaged, came twice with different answers, or failed by the
provider's own fault. Not sent again is what was answered, also where the answer is unreadable, a refusal or cut off,
and what was wrong in itself. How often is limited, but a send that was nobody's fault here does not count.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

from pipeline.domain import Outcome, Output, Status
from pipeline.state import BatchState
from pipeline.tasks.answers import Unparsed

Unsent = Literal["cancelled_before_sending", "no_answer_to_go_on_from", "too_large"]

_UNANSWERED = frozenset({"expired", "missing"})
_FAILURES = frozenset({"errored", "expired", "cancelled"})


class Ending(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of a request, and what was read.

    `again`: another sending may mend it; `unpaid`: the account had no money for this one, so that it burns no send.
    """

    status: Status
    value: Any = None  # Any: what the task's reader made of the answer
    reason: str | None = None
    again: bool = False
    unpaid: bool = False


TWO_OUTPUTS = Ending(status="errored", reason="two_outputs", again=True)  # lines for one request that disagree
_CANCELLED = Ending(status="cancelled", reason="cancelled_at_provider")
_STOPPED = Ending(status="missing", reason="batch_stopped", again=True)
_EXPIRED = Ending(status="expired", reason="batch_expired", again=True)
_NO_LINE = Ending(status="missing", reason="no_line", again=True)
_BESIDE_OTHERS = Ending(status="errored", reason="batch_failed", again=True)
_UNSENT: Mapping[Unsent, Ending] = {
    "cancelled_before_sending": Ending(status="cancelled", reason="cancelled_before_sending"),
    "no_answer_to_go_on_from": Ending(status="cancelled", reason="no_answer_to_go_on_from"),
    "too_large": Ending(status="errored", reason="too_large"),
}
_OUTCOMES = {outcome: Ending(status="ok", value=outcome) for outcome in get_args(Outcome)}


class Sending(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One sending of a batch's requests, as far as it decides what becomes of them.

    `attempts` is how often a request may be sent. `named` are the lines of the input, counted from 1, that the provider
    blamed when it failed the batch whole, each with the reason.
    """

    batch: BatchState
    attempts: int
    is_live: bool
    named: Mapping[int, str]

    @classmethod
    def of(cls, batch: BatchState, *, attempts: int, is_live: bool) -> "Sending":
        """Return this sending of the batch."""
        sent = batch.input.requests if batch.input is not None and batch.end == "failed" else 0
        named = {
            fault.line: fault.reason for fault in batch.faults if fault.line is not None and 1 <= fault.line <= sent
        }
        return cls(batch=batch, attempts=attempts, is_live=is_live, named=named)

    @property
    def spares(self) -> bool:
        """Whether the provider blamed some lines and thereby none of the others."""
        return bool(self.named) and not self.batch.cancel_asked

    @property
    def was_stopped(self) -> bool:
        """Whether the provider ended the batch for the account's sake or its own."""
        return self.batch.fault in {"account", "rate"}


def ending_of(output: Output, read: Callable[[str | None], Any | Unparsed]) -> Ending:  # Any: as in Ending
    """Return what became of the request that the output is for; `read` reads what was answered."""
    if output.status != "answered":
        again = may_be_mended(output)
        return Ending(status=output.status, reason=output.reason, again=again, unpaid=output.unpaid)
    value = read(output.content)
    if type(value) is str and (shared := _OUTCOMES.get(value)):
        return shared
    if isinstance(value, Unparsed):
        return Ending(status=value.status, reason=value.reason)
    return Ending(status="ok", value=value)


def may_be_mended(output: Output) -> bool:
    """Say whether another line, or else another sending, may do better than this output."""
    return output.again or output.status in _UNANSWERED


def speaks(output: Output) -> bool:
    """Say whether the output says something about its request; a failure beside an answer does not."""
    return output.status not in _FAILURES


def differ(one: Output, other: Output) -> bool:
    """Say whether two outputs for one request say different things."""
    return _said(one) != _said(other)


def _said(output: Output) -> tuple[object, ...]:
    return (output.status, output.content, output.finish_reason, output.reason)


def ending_without_line(sending: Sending, line: int | Unsent) -> Ending:
    """Return what became of a request that no line answers: the one on this line of the input, or never sent."""
    if isinstance(line, str):
        return _UNSENT[line]
    batch = sending.batch
    if batch.phase == "refused":
        return Ending(status="errored", reason=batch.code or batch.note)
    if sending.was_stopped:
        return _STOPPED
    if batch.end == "failed":
        return _failed(sending, line)
    if batch.end == "cancelled":
        return _CANCELLED
    return _EXPIRED if batch.end == "expired" else _NO_LINE


def _failed(sending: Sending, line: int) -> Ending:
    """Return the end of a request in a batch that failed whole: lines that were named are at fault, others not."""
    if sending.named and line not in sending.named:
        return _BESIDE_OTHERS
    reason = sending.named.get(line) or next((fault.reason for fault in sending.batch.faults), "batch_failed")
    return Ending(status="errored", reason=reason)


def final_ending(sending: Sending, ending: Ending, line: int | Unsent) -> Ending | None:
    """Return how the request ended, None if it has not: it is to be sent again."""
    if not ending.again:
        return ending
    batch = sending.batch
    if batch.cancel_asked:
        return _CANCELLED if ending.status in _UNANSWERED else ending
    is_innocent = sending.spares and line not in sending.named
    is_unpaid = ending.unpaid and not sending.is_live
    burns = not (sending.was_stopped or is_innocent or is_unpaid)
    return ending if burns and batch.send >= sending.attempts else None
