"""The things Pairlog talks about, as values without behaviour that touches the world.

What a person writes is in `experiment`, what happened is in `events`.
"""

import re
from collections.abc import Collection
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec

from pipeline.ids import Digest, ExperimentName, Origin, RunId, SampleId, digest_of

Direction = Literal["forward", "reverse"]
Answer = Literal["tag", "json"]
Mode = Literal["batch", "live"]
Outcome = Literal["first", "second", "tie"]
Design = Literal["all", "random", "groups"]
Order = Literal["random", "alternate", "balanced", "given"]

_Share = Annotated[float, msgspec.Meta(ge=0, le=1, description="a number from 0 to 1")]

Status = Literal[
    "ok", "unparsed", "refused", "truncated", "errored", "expired", "missing", "cancelled", "inapplicable",
]  # fmt: skip
STATUSES: tuple[Status, ...] = (
    "ok", "unparsed", "refused", "truncated", "errored", "expired", "missing", "cancelled", "inapplicable",
)  # fmt: skip


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One text to be judged."""

    sample_id: SampleId
    text: str
    group: str | None = None
    contestant: str | None = None
    context: str | None = None
    criterion: str | None = None


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge is to look at."""

    name: str
    description: str


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """The words of a question, with placeholders."""

    name: str
    text: str


class Tags(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands around the answer in tag mode."""

    prefix: str = "<BETTER_SAMPLE>"
    suffix: str = "</BETTER_SAMPLE>"


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """A model at a provider with the settings that shape its answers."""

    provider: str
    model: str
    reasoning: str = "default"
    mode: Mode = "batch"
    answer: Answer = "tag"
    endpoint: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of the grid, frozen: whatever shapes a request of the run stands here.

    `origin` is the id of the store it was frozen in: the same run in two stores has two names for every request. It is
    unset in what is only planned, and in runs frozen before stores had one.
    """

    run_id: RunId
    task: str
    task_version: int
    template: Template
    criterion: Criterion
    tags: Tags
    ties: bool
    judge: Judge
    direction: Direction
    repeat: int
    samples: Digest
    pairs: Digest
    requests: int
    share: float = 1.0
    seed: int = 0
    options: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET  # Any: what the task's own keys hold, as JSON
    origin: Origin | msgspec.UnsetType = msgspec.UNSET

    def digest(self) -> Digest:
        """Return the name of this configuration, part of every request id."""
        return digest_of(self)


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A column whose values are summed up by contestant and criterion.

    `kind` says as what: the share of rows that say yes, the mean of a number, the length of a text, or how often each
    word was chosen. `title` stands above it in a report; unless it is given, the column's name tells.
    """

    column: str
    kind: Literal["share", "mean", "length", "choices"]
    by: tuple[str, ...] = ("contestant", "criterion")
    title: str = ""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much fits into one batch."""

    max_requests: int
    max_bytes: int


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's request line with named gaps: encoded once, filled by joining bytes."""

    texts: tuple[bytes, ...]
    slots: tuple[str, ...]

    @classmethod
    def of(cls, line: object) -> "Frame":
        """Return the frame of a line that holds a `gap` wherever something of ours is to stand."""
        texts, slots, rest = [], [], msgspec.json.encode(line)
        while match := _GAP.search(rest):
            texts.append(rest[: match.start()])
            slots.append(match[1].decode())
            rest = rest[match.end() :]
        return cls(texts=(*texts, rest), slots=tuple(slots))


def gap(name: str) -> str:
    """Return the text that stands in a line where the bytes of this name (`[a-z0-9_]+`) will be put."""
    return f"\u241epairlog {name}\u241e"


REQUEST_ID = gap("request_id")
PROMPT = gap("prompt")
_GAP = re.compile(gap("([a-z0-9_]+)").encode())


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One thing said before the model answers, in the words every provider translates into its own."""

    role: Literal["system", "user", "assistant"]
    text: str


QUESTION = (Message(role="user", text=PROMPT),)


class Tokens(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an answer used: input includes cached, output includes reasoning, on every provider."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None


class Output(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What came back for one request, before anyone read an answer in it.

    `again` says that the provider, not the request, was at fault: it may be sent again. `unpaid`: the account had no
    money for it, which burns no send.
    """

    request_id: str
    status: Literal["answered", "refused", "truncated", "errored", "expired", "cancelled"]
    content: str | None = None
    thoughts: str | None = None
    finish_reason: str | None = None
    returned_model: str | None = None
    tokens: Tokens = Tokens()
    reason: str | None = None
    again: bool = False
    unpaid: bool = False
    judged_at: float | None = None


class Counts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the requests of something ended; `planned` is always the sum of the others."""

    planned: int = 0
    ok: int = 0
    unparsed: int = 0
    refused: int = 0
    truncated: int = 0
    errored: int = 0
    expired: int = 0
    missing: int = 0
    cancelled: int = 0
    inapplicable: int = 0

    @property
    def ended(self) -> int:
        """How many requests reached an end."""
        return sum(getattr(self, status) for status in STATUSES)

    @property
    def open(self) -> int:
        """How many requests have not reached an end."""
        return self.planned - self.ended

    def __add__(self, other: "Counts") -> "Counts":
        return Counts.sum_of([self, other])

    @classmethod
    def sum_of(cls, many: "Collection[Counts]") -> "Counts":
        """Return how the requests of all of these ended."""
        return cls(**{name: sum(map(attrgetter(name), many)) for name in cls.__struct_fields__})

    def as_dict(self) -> dict[str, int]:
        """Return the conservation row: planned, each status, open; `inapplicable` only where the judge said so."""
        row = {**msgspec.structs.asdict(self), "open": self.open}
        if not self.inapplicable:
            del row["inapplicable"]
        return row


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a model may be called in live mode; it shapes no request and is no part of a run's configuration."""

    provider: str
    model: str
    requests_per_second: float


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """USD for a million tokens; `cached` is for input the provider had read before, None where that is not known."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None


class OwnPrice(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says a model costs in a mode; it shapes no request and is no part of a run's configuration."""

    provider: str
    model: str
    mode: Mode
    price: Price


class Checks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the rows of an experiment must show to be trusted; shares between 0 and 1.

    `parse_rate` is the least share of answers that could be read, `refusal_rate` the largest of refusals,
    `position_bias` the largest share of the pairs judged in both orders that the place, not the text, may decide.
    """

    parse_rate: _Share = 0.95
    refusal_rate: _Share = 0.05
    position_bias: _Share = 0.15


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen experiment: everything a worker without the file needs."""

    name: ExperimentName
    samples: Digest
    pairs: Digest
    attempts: int
    max_requests: int | None
    max_bytes: int | None
    segments: int | None
    runs: tuple[RunConfig, ...]
    rates: tuple[Rate, ...] = ()
    schema: int = 1
    checks: Checks = Checks()
    prices: tuple[OwnPrice, ...] | msgspec.UnsetType = msgspec.UNSET

    def planned(self) -> "Experiment":
        """Return it as it was before it was frozen in a store: its runs without the store's id."""
        runs = tuple(msgspec.structs.replace(run, origin=msgspec.UNSET) for run in self.runs)
        return msgspec.structs.replace(self, runs=runs)

    def is_led_like(self, other: "Experiment") -> bool:
        """Say whether another version has the same settings that shape no request and may change at any time."""
        return (self.rates, self.checks, self.prices) == (other.rates, other.checks, other.prices)
