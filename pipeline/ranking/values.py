"""What one asks of a ranking and what comes back, as values; no arithmetic."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from pipeline.errors import ConfigError
from pipeline.wording import and_more

Method = Literal["bradley-terry", "elo", "win-rate"]


class RankingOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to rank.

    `regularisation` is the weight of half the sum of squared scores and effects that is taken off the log-likelihood;
    None means none where the data determine every score and a mild one, announced in a warning, where they do not (a
    contestant only won or only lost). `cluster` says which comparisons are not independent of one another: those of a
    pair, those of a group of samples, or (row) none; auto takes groups where there are at least eight. Where there
    are fewer than two pairs for each free score, pairs tell too little and rows are taken.
    """

    method: Method = "bradley-terry"
    by: Literal["contestant", "sample"] = "contestant"
    ties: Literal["half", "davidson"] = "half"
    regularisation: float | None = None
    position: bool = False
    intervals: Literal["sandwich", "bootstrap"] = "sandwich"
    cluster: Literal["auto", "pair", "group", "row"] = "auto"
    confidence: float = 0.95
    rounds: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        weight = self.regularisation
        if weight is not None and not (math.isfinite(weight) and weight >= 0):
            raise ConfigError(f"regularisation is {weight}; give a number of at least 0")
        if not 0.5 <= self.confidence < 1:
            raise ConfigError(f"confidence is {self.confidence}; give a number of at least 0.5 and below 1")
        if self.rounds < 2:
            raise ConfigError(f"rounds is {self.rounds}; give at least 2")
        refuse_idle(self.method, [option for option, is_given in self._of_the_model() if is_given])

    def _of_the_model(self) -> tuple[tuple[str, bool], ...]:
        """The options that only the Bradley-Terry model has a use for, and whether they are given."""
        return (
            ("--position", self.position),
            ("--ties davidson", self.ties == "davidson"),
            ("--intervals bootstrap", self.intervals == "bootstrap" and self.method != "elo"),
            ("--regularisation", self.regularisation is not None),
        )


def refuse_idle(method: Method, given: Sequence[str]) -> None:
    """Raise ConfigError if options of the Bradley-Terry model are given for another method."""
    if given and method != "bradley-terry":
        them = "it" if len(given) == 1 else "them"
        idle = f"--method {method} has no use for {and_more(given, most=5)}"
        raise ConfigError(f"{idle}: leave {them} out, or take --method bradley-terry")


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant's place.

    `score` is in log-odds around a mean of zero (Elo points for Elo, a share for win rates). `place_low` to
    `place_high` are the places that the data leave open. Tiers count from 1: everyone below a `tier` is proven weaker
    than its best. `bounded` is false where the data put no limit on the score: it only won or only lost, alone or
    with others.
    """

    contestant: str
    rank: int
    score: float
    low: float
    high: float
    standard_error: float
    place_low: int
    place_high: int
    tier: int
    wins: int
    losses: int
    ties: int
    win_rate: float
    win_rate_low: float
    win_rate_high: float
    bounded: bool = True


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted number besides the scores, in log-odds: a judge's preference for the first position, length, ties."""

    name: str
    value: float
    low: float
    high: float


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a ranking says, best contestant first.

    `excluded` counts the rows that were left out, by status. `reliability` is the share of the scores' variance that
    is not error; `separation` the ratio of true spread to error. `unranked` have no readable comparison. `rivals` do
    not share the first rank and are not proven weaker than the first (of several, the surest): the last of them ends
    the first tier.
    """

    options: RankingOptions
    standings: tuple[Standing, ...]
    rivals: tuple[str, ...]
    comparisons: int
    clusters: int
    cluster_kind: str
    excluded: dict[str, int]
    reliability: float | None
    separation: float | None
    effects: tuple[Effect, ...]
    unranked: tuple[str, ...]
    warnings: tuple[str, ...]
    regularisation: float

    @property
    def leaders(self) -> tuple[str, ...]:
        """All who share the first rank."""
        return tuple(standing.contestant for standing in self.standings if standing.rank == 1)

    @property
    def tiers(self) -> tuple[tuple[str, ...], ...]:
        """The tiers, best first: everyone below one is proven weaker than its best."""
        found: dict[int, list[str]] = {}
        for standing in self.standings:
            found.setdefault(standing.tier, []).append(standing.contestant)
        return tuple(tuple(found[tier]) for tier in sorted(found))


def left(unranked: Sequence[str]) -> str:
    """Return the sentence about those who could not be ranked."""
    return f"no readable comparison names {and_more(unranked, most=5)}"


class Unrankable(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no ranking, in one sentence."""

    reason: str
    excluded: dict[str, int] = {}
