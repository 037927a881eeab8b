"""Commands that answer the question a study was made for: rank, report."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pipeline.cli.app import JsonOption, StoreOption, app

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="EXPERIMENT", help="Or --from a file. Several over the same samples are ranked together."),
]
NameArgument = Annotated[str | None, typer.Argument(metavar="EXPERIMENT", help="Or --from a file.")]
FromOption = Annotated[
    Path | None,
    typer.Option("--from", help="CSV or Parquet of judged pairs: first_id, second_id, winner_id.", metavar="FILE"),
]
ByOption = Annotated[Literal["contestant", "sample"], typer.Option("--by", help="What is ranked.")]
PerOption = Annotated[
    Literal["judge", "template", "group", "criterion", "panel"] | None,
    typer.Option("--per", help="Also rank each of these alone; panel: all judges by majority and weighted."),
]
MethodOption = Annotated[
    Literal["bradley-terry", "elo", "win-rate"], typer.Option("--method", help="How scores are made.")
]
TiesOption = Annotated[Literal["half", "davidson"], typer.Option("--ties", help="Half a win each, or modelled.")]
PositionOption = Annotated[bool, typer.Option("--position", help="Fit each judge's preference for the first position.")]
LengthOption = Annotated[bool, typer.Option("--length", help="Fit a preference for length, the same for all judges.")]
SureOption = Annotated[Literal["sandwich", "bootstrap"], typer.Option("--intervals", help="How intervals are made.")]
ClusterOption = Annotated[
    Literal["auto", "pair", "group", "row"],
    typer.Option("--cluster", help="Which comparisons depend on one another."),
]
RegularisationOption = Annotated[
    float | None,
    typer.Option("--regularisation", metavar="X", help="At least 0; default: only where the data need it."),
]
ConfidenceOption = Annotated[
    float, typer.Option("--confidence", metavar="SHARE", help="Of the intervals: 0.5 or more, below 1.")
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="For resampling and random orders.")]


@app.command()
def rank(
    names: NamesArgument = None,
    source: FromOption = None,
    by: ByOption = "contestant",
    per: PerOption = None,
    method: MethodOption = "bradley-terry",
    ties: TiesOption = "half",
    position: PositionOption = False,
    length: LengthOption = False,
    intervals: SureOption = "sandwich",
    cluster: ClusterOption = "auto",
    regularisation: RegularisationOption = None,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="A path or URL; ends in .parquet, .csv or .json.")
    ] = None,
    store: StoreOption = None,
) -> int:
    """Score what was compared, with intervals, best first."""
    from pipeline.cli.ranked import Question, show_ranking
    from pipeline.ranking import RankingOptions

    options = RankingOptions(
        by=by, method=method, ties=ties, position=position, intervals=intervals, cluster=cluster,
        regularisation=regularisation, confidence=confidence, seed=seed,
    )  # fmt: skip
    question = Question(names=tuple(names or ()), source=source, store=store, options=options, length=length)
    return show_ranking(question, per=per, as_json=as_json, out=out)


@app.command()
def report(
    name: NameArgument = None,
    out: Annotated[str, typer.Option("--out", metavar="FILE.html", help="A path or URL.")] = "report.html",
    source: FromOption = None,
    by: ByOption = "contestant",
    method: MethodOption = "bradley-terry",
    ties: TiesOption = "half",
    position: PositionOption = False,
    length: LengthOption = False,
    intervals: SureOption = "sandwich",
    cluster: ClusterOption = "auto",
    regularisation: RegularisationOption = None,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = 0,
    store: StoreOption = None,
) -> int:
    """Write one self-contained page: ranking, judges, plots."""
    from pipeline.cli.ranked import Question, write_report
    from pipeline.ranking import RankingOptions

    options = RankingOptions(
        by=by, method=method, ties=ties, position=position, intervals=intervals, cluster=cluster,
        regularisation=regularisation, confidence=confidence, seed=seed,
    )  # fmt: skip
    question = Question(names=(name,) if name else (), source=source, store=store, options=options, length=length)
    return write_report(question, out=out)
