"""What diagnostics say, as values; no arithmetic."""

import msgspec


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A share of a count, with its 95 % interval."""

    share: float
    low: float
    high: float
    count: int


class PositionBias(msgspec.Struct, frozen=True, kw_only=True):
    """Which position a judge prefers, from pairs judged in both orders.

    Only pairs whose winner changed with the order tell: `to_first` of them went to whoever stood first, `to_second` to
    whoever stood second. `p_value` is the exact two-sided sign test. `bias` is half the log of their ratio: the
    log-odds that standing first is worth, whatever the samples' quality, with an exact interval (None where it has
    no end).
    """

    to_first: int
    to_second: int
    p_value: float
    bias: float | None
    low: float | None
    high: float | None


class JudgeFindings(msgspec.Struct, frozen=True, kw_only=True):
    """One judge with one template: how requests ended, how steady it is, what sways it."""

    judge: str
    template: str
    rows: int
    statuses: dict[str, int]
    ties: int
    first_wins: int
    second_wins: int
    consistency: Share | None
    undecided: int
    position: PositionBias | None
    longer_wins: Share | None

    @property
    def swayed(self) -> float | None:
        """The net share of the pairs judged in both orders that the position alone decided; None without pairs."""
        if self.position is None or self.consistency is None or not self.consistency.count:
            return None
        return abs(self.position.to_first - self.position.to_second) / self.consistency.count


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How often two judges say the same of a pair, raw and beyond chance (Cohen's kappa with its interval)."""

    one: str
    other: str
    pairs: int
    raw: float
    kappa: float | None
    low: float | None
    high: float | None


class Alpha(msgspec.Struct, frozen=True, kw_only=True):
    """Krippendorff's alpha (nominal) of all judges over the pairs that at least two of them judged."""

    judges: int
    pairs: int
    raw: float
    alpha: float | None
    low: float | None
    high: float | None


class SelfPreference(msgspec.Struct, frozen=True, kw_only=True):
    """How often a judge prefers its own maker's contestants, beside what judges of other makers say of the same pairs.

    `difference` and its interval are None where no other maker's judge saw these pairs.
    """

    judge: str
    maker: str
    comparisons: int
    own: float
    others: float | None
    difference: float | None
    low: float | None
    high: float | None


class Cycles(msgspec.Struct, frozen=True, kw_only=True):
    """How many triples of contestants beat one another in a circle; a judge who flips coins makes a quarter."""

    judge: str
    triads: int
    cycles: int

    @property
    def rate(self) -> float | None:
        """The share of circles among the decided triples."""
        return self.cycles / self.triads if self.triads else None


class Influential(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison that holds the leader up: the two contestants as they stood, and their samples."""

    judge: str
    first: str
    second: str
    first_sample: str
    second_sample: str
    winner: str | None


class Influence(msgspec.Struct, frozen=True, kw_only=True):
    """The fewest comparisons found without which the leader is not first; None if a tenth of all is not enough."""

    leader: str
    challenger: str | None
    needed: int | None
    comparisons: int
    rows: tuple[Influential, ...]


class Residual(msgspec.Struct, frozen=True, kw_only=True):
    """Two contestants whose results the scores explain worst.

    `chance` is the probability of a result at least as far from the expected one; `usual` is how many such pairs
    chance alone would show among all that met.
    """

    one: str
    other: str
    comparisons: int
    observed: float
    expected: float
    chance: float
    usual: float


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Comparisons with a similar expected share, and the share seen."""

    expected: float
    observed: float
    comparisons: int


class Diagnostics(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the judges can be trusted; `warnings` say in words what a reader must know."""

    judges: tuple[JudgeFindings, ...]
    agreements: tuple[Agreement, ...]
    alpha: Alpha | None
    self_preferences: tuple[SelfPreference, ...]
    cycles: tuple[Cycles, ...]
    influence: Influence | None
    residuals: tuple[Residual, ...]
    calibration: tuple[Calibration, ...]
    warnings: tuple[str, ...]
