"""Commands that answer the question a study was made for: rank, report."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pipeline.cli.app import JsonOption, StoreOption, app

NameArgument = Annotated[str | None, typer.Argument(metavar="EXPERIMENT", help="Or --from a file.")]
FromOption = Annotated[
    Path | None,
    typer.Option("--from", help="A CSV of judged pairs: first_id, second_id, winner_id.", metavar="FILE.csv"),
]
ByOption = Annotated[Literal["contestant", "sample"], typer.Option("--by", help="What is ranked.")]


@app.command()
def rank(
    name: NameArgument = None,
    source: FromOption = None,
    by: ByOption = "contestant",
    method: Annotated[Literal["bradley-terry", "elo", "win-rate"], typer.Option("--method")] = "bradley-terry",
    ties: Annotated[Literal["half", "davidson"], typer.Option("--ties", help="How ties count.")] = "half",
    position: Annotated[bool, typer.Option("--position", help="Fit each judge's liking for the first place.")] = False,
    interval: Annotated[Literal["sandwich", "bootstrap"], typer.Option("--interval")] = "sandwich",
    as_json: JsonOption = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Ends in .parquet, .csv or .json.")] = None,
    store: StoreOption = None,
) -> int:
    """Score what was compared, with intervals, best first."""
    from pipeline.cli.ranked import show_ranking
    from pipeline.ranking import RankingOptions

    options = RankingOptions(method=method, by=by, ties=ties, position=position, interval=interval)
    return show_ranking(name=name, source=source, store=store, options=options, as_json=as_json, out=out)


@app.command()
def report(
    name: NameArgument = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html")] = Path("report.html"),
    source: FromOption = None,
    by: ByOption = "contestant",
    store: StoreOption = None,
) -> int:
    """Write one self-contained page with the ranking, the judges' diagnostics and plots."""
    from pipeline.cli.ranked import write_report
    from pipeline.ranking import RankingOptions

    return write_report(name=name, source=source, store=store, options=RankingOptions(by=by), out=out)
