"""Batches at the provider: what they are, and when they move from status to status.

How they are moved is a matter of `moving`, how requests are executed of `running` and the wire modules.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

Phase = Literal["validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"]
ENDED: frozenset[Phase] = frozenset(("completed", "failed", "expired", "cancelled"))
VALIDATED_AT = 0.1  # of the latency: what comes before is validation
FINALIZED_AT = 0.9  # of the latency: what comes after is the writing of files


class LineProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a whole batch is refused: `line` counts from 1."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a create call asked for."""

    wire: str
    input_file_id: str
    endpoint: str
    metadata: Mapping[str, str] | None
    completion_window: str
    output_lifetime: float | None = None
    requests: int | None = None
    model: str | None = None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How the requests of a batch stand."""

    total: int = 0
    completed: int = 0
    failed: int = 0


class Usage(msgspec.Struct, kw_only=True):
    """Tokens of the executed requests of a batch, summed up as they are executed."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class Job(msgspec.Struct, kw_only=True):
    """One batch; changed only under the lock of the engine."""

    batch_id: str
    number: int
    order: Order
    created_at: float
    listed_at: float
    phase: Phase = "validating"
    at: dict[Phase, float] = {}
    model: str | None = None
    problems: tuple[LineProblem, ...] = ()
    counts: Counts = Counts()
    unanswered: int = 0
    usage: Usage | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    source: Path | None = None
    offsets: list[int] = []
    stuck: bool = False
    expires_share: float | None = None
    cancel_share: float | None = None

    @property
    def is_ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.phase in ENDED

    def enter(self, phase: Phase, when: float) -> None:
        """Move on."""
        self.phase = phase
        self.at[phase] = when


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """When batches move."""

    latency: float
    window: float

    def due(self, job: Job) -> float:
        """Return the earliest time at which the batch leaves its phase."""
        begin = job.created_at
        match job.phase:
            case "validating":
                return begin + VALIDATED_AT * self.latency
            case "in_progress":
                return begin + (self.window if self.expires else FINALIZED_AT * self.latency)
            case "finalizing":
                return begin + (self.window if self.expires else self.latency)
            case "cancelling":
                return job.at["cancelling"] + VALIDATED_AT * self.latency
            case _:
                return math.inf

    @property
    def expires(self) -> bool:
        """Whether batches take longer than their provider allows."""
        return self.latency > self.window

    def progress(self, job: Job, now: float) -> float:
        """Return which share of a running batch has been executed by now."""
        if self.latency == 0:
            return 0.5
        begin, end = VALIDATED_AT * self.latency, FINALIZED_AT * self.latency
        return max(0.0, min(1.0, (now - job.created_at - begin) / (end - begin)))
