"""Rankings and diagnostics as tables with fixed, documented schemas."""

from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from pipeline.ids import Digest
from pipeline.ranking.breakdowns import Part
from pipeline.ranking.findings import Diagnostics, JudgeFindings
from pipeline.ranking.panel import Panel, PanelModel
from pipeline.ranking.values import Ranking, Unrankable

SCHEMA_VERSION = "1"
_BASIS = (
    ("rows", pa.int64(), "how many rows of the experiment it rests on; of several answers the one with most is newest"),
    ("rows_digest", pa.string(), "the name of those rows, as of the file in the store; null of a file of judged pairs"),
)


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that an answer rests on: how many there were, and the digest that names them."""

    rows: int
    rows_digest: Digest | None = None


_Row = dict[str, str | int | float | bool | None]


def _schema(columns: Sequence[tuple[str, pa.DataType, str]], name: str) -> pa.Schema:
    fields = [pa.field(column, kind, metadata={"description": text}) for column, kind, text in columns]
    return pa.schema(fields, metadata={"pairlog.schema": SCHEMA_VERSION, "pairlog.table": name})


RANKINGS = _schema(
    [
        ("experiment", pa.string(), "the experiment's name"),
        ("dimension", pa.string(), "all, judge, template, group, criterion or panel"),
        ("value", pa.string(), "which judge, template, group or criterion; majority or weighted; empty for all"),
        (
            "method",
            pa.string(),
            "bradley-terry, elo, win-rate or panel-model; the last has rank, score and interval only",
        ),
        ("contestant", pa.string(), "who is ranked"),
        ("rank", pa.int32(), "1 is best; equal scores share a rank"),
        ("score", pa.float64(), "log-odds around a mean of zero; Elo points; or a share"),
        ("low", pa.float64(), "lower end of the score's interval; null where there is none"),
        ("high", pa.float64(), "upper end of the score's interval"),
        ("standard_error", pa.float64(), "of the score, clustered"),
        ("place_low", pa.int32(), "best place the data leave open"),
        ("place_high", pa.int32(), "worst place the data leave open"),
        ("tier", pa.int32(), "everyone below a tier is proven weaker than its best"),
        ("wins", pa.int64(), "comparisons won"),
        ("losses", pa.int64(), "comparisons lost"),
        ("ties", pa.int64(), "comparisons tied"),
        ("win_rate", pa.float64(), "wins and half the ties, as a share"),
        ("win_rate_low", pa.float64(), "lower end of the win rate's interval"),
        ("win_rate_high", pa.float64(), "upper end of the win rate's interval"),
        (
            "bounded",
            pa.bool_(),
            "false where the contestant only won or only lost, alone or with those it both beat and lost to",
        ),
        *_BASIS,
    ],
    "rankings",
)

DIAGNOSTICS = _schema(
    [
        ("experiment", pa.string(), "the experiment's name"),
        ("judge", pa.string(), "provider/model, and the reasoning level if it is not the default"),
        ("template", pa.string(), "the template's name; empty where a finding is about all"),
        ("metric", pa.string(), "what was measured"),
        ("other", pa.string(), "the second judge, the maker, or the status the metric is about; else empty"),
        ("value", pa.float64(), "the measure"),
        ("low", pa.float64(), "lower end of its 95 % interval"),
        ("high", pa.float64(), "upper end of its 95 % interval"),
        ("p_value", pa.float64(), "of the test, where there is one"),
        ("count", pa.int64(), "how many rows, pairs or triples it rests on"),
        *_BASIS,
    ],
    "diagnostics",
)


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    judge: str
    metric: str
    count: int
    value: float | None
    template: str = ""
    other: str = ""
    low: float | None = None
    high: float | None = None
    p_value: float | None = None


def rankings_table(
    result: Ranking | Unrankable,
    parts: Sequence[Part] = (),
    *,
    basis: Basis,
    panel: Panel | None = None,
    experiment: str = "",
) -> pa.Table:
    """Return one row for each contestant of the ranking, of each part that has one and of the panel's two rankings.

    The schema is RANKINGS.
    """
    rows = list(_standings(result, experiment, dimension="all", value=""))
    for part in parts:
        rows += _standings(part.result, experiment, dimension=part.dimension, value=part.value)
    if panel is not None:
        rows += _standings(panel.majority, experiment, dimension="panel", value="majority")
        rows += _common(panel.model, experiment)
    return _made(rows, RANKINGS, basis)


def _made(rows: Iterable[_Row], schema: pa.Schema, basis: Basis) -> pa.Table:
    rests_on = msgspec.structs.asdict(basis)
    return pa.Table.from_pylist([{**row, **rests_on} for row in rows], schema=schema)


def diagnostics_table(
    found: Diagnostics, *, basis: Basis, panel: Panel | None = None, experiment: str = ""
) -> pa.Table:
    """Return one row for each measure; schema DIAGNOSTICS."""
    lines = [line for judge in found.judges for line in _of_judge(judge)]
    lines += _of_several(found)
    if panel is not None and not isinstance(panel.model, Unrankable):
        lines += [
            _Line(judge=one.judge, metric="panel_sharpness", value=one.sharpness, count=len(panel.model.standings))
            for one in panel.model.judges
        ]
    rows = [{"experiment": experiment, **msgspec.structs.asdict(line)} for line in lines]
    return _made(rows, DIAGNOSTICS, basis)


def _common(model: PanelModel | Unrankable, experiment: str) -> Iterable[_Row]:
    if isinstance(model, Unrankable):
        return
    for standing in model.standings:
        yield {
            "experiment": experiment,
            "dimension": "panel",
            "value": "weighted",
            "method": "panel-model",
            **msgspec.structs.asdict(standing),
        }


def _standings(result: Ranking | Unrankable, experiment: str, *, dimension: str, value: str) -> Iterable[_Row]:
    if isinstance(result, Unrankable):
        return
    for standing in result.standings:
        yield {
            "experiment": experiment,
            "dimension": dimension,
            "value": value,
            "method": result.options.method,
            **msgspec.structs.asdict(standing),
        }


def _of_judge(found: JudgeFindings) -> Iterable[_Line]:
    def line(metric: str, value: float | None, count: int, other: str = "") -> _Line:
        return _Line(judge=found.judge, template=found.template, metric=metric, value=value, count=count, other=other)

    for status, count in sorted(found.statuses.items()):
        yield line("status_rate", count / found.rows, found.rows, status)
    decided = found.first_wins + found.second_wins
    answered = decided + found.ties
    if answered:
        yield line("tie_rate", found.ties / answered, answered)
    if decided:
        yield line("first_share", found.first_wins / decided, decided)
    for metric, share in (("reverse_consistency", found.consistency), ("longer_wins", found.longer_wins)):
        if share is not None:
            yield replace(line(metric, share.share, share.count), low=share.low, high=share.high)
    if found.position is not None:
        bias = found.position
        measured = line("position_bias", bias.bias, bias.to_first + bias.to_second)
        yield replace(measured, low=bias.low, high=bias.high, p_value=bias.p_value)


def _of_several(found: Diagnostics) -> Iterable[_Line]:
    for two in found.agreements:
        yield _Line(judge=two.one, other=two.other, metric="raw_agreement", value=two.raw, count=two.pairs)
        yield _Line(
            judge=two.one, other=two.other, metric="cohen_kappa", value=two.kappa, low=two.low, high=two.high,
            count=two.pairs,
        )  # fmt: skip
    if found.alpha is not None:
        every = found.alpha
        yield _Line(
            judge="all judges", metric="krippendorff_alpha", value=every.alpha, low=every.low, high=every.high,
            count=every.pairs,
        )  # fmt: skip
    for own in found.self_preferences:
        yield _Line(
            judge=own.judge, other=own.maker, metric="self_preference", value=own.difference, low=own.low,
            high=own.high, count=own.comparisons,
        )  # fmt: skip
    for circle in found.cycles:
        yield _Line(judge=circle.judge, metric="cycle_rate", value=circle.rate, count=circle.triads)
    if found.influence is not None:
        held = found.influence
        yield _Line(
            judge="all judges", metric="comparisons_holding_the_leader", other=held.leader,
            value=None if held.needed is None else float(held.needed), count=held.comparisons,
        )  # fmt: skip
