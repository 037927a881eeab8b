"""What `rank` and `report` do; a module of its own because its imports are heavy and other commands need none."""

from pathlib import Path

import msgspec
import pyarrow.csv
import pyarrow.parquet

from pipeline.cli.app import chosen, worker_on
from pipeline.cli.screen import complain, print_json, rows, say
from pipeline.errors import ConfigError
from pipeline.operations import answers, summaries
from pipeline.ranking import (
    Ranking,
    RankingOptions,
    Unrankable,
    breakdowns,
    comparisons_from_csv,
    diagnose,
    rank,
    rankings_table,
    report_html,
)


def show_ranking(
    *,
    name: str | None,
    source: Path | None,
    store: str | None,
    options: RankingOptions,
    as_json: bool,
    out: Path | None,
) -> int:
    """Rank, show or write the ranking, and return the exit code."""
    title, found = _ranked(name, source, options, store)
    if isinstance(found, Unrankable):
        complain(found.reason, title="no ranking")
        return 1
    if out is not None:
        _write(out, title, found)
    if as_json:
        print_json(_document(title, found))
    elif out is None:
        _show(title, found)
    for warning in found.warnings:
        complain(warning, title="note")
    if found.unranked:
        complain(f"no readable comparison names {', '.join(found.unranked[:10])}", title="left")
        return 1
    return 0


def write_report(
    *, name: str | None, source: Path | None, store: str | None, options: RankingOptions, out: Path
) -> int:
    """Write the report and return the exit code."""
    if source is not None and name is None:
        table = _imported(source)
        found = diagnose(table, by=options.by)
        parts = breakdowns(table, options)
        page = report_html(table, rank(table, options), found, experiment=source.stem, parts=parts)
    elif name is not None and source is None:
        page = _study_report(name, options, store)
    else:
        raise ConfigError("say what to report on: an EXPERIMENT, or --from FILE.csv")
    try:
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written ({error.strerror})") from error
    say(f"open {out} in any browser")
    return 0


def _ranked(
    name: str | None, source: Path | None, options: RankingOptions, store: str | None
) -> tuple[str, Ranking | Unrankable]:
    if source is not None and name is None:
        return source.stem, rank(_imported(source), options)
    if name is None or source is not None:
        raise ConfigError("say what to rank: an EXPERIMENT, or --from FILE.csv")
    worker = worker_on(store)
    (experiment,) = chosen(worker, [name])
    return name, answers.ranking_of(worker, experiment, options)


def _imported(source: Path) -> pyarrow.Table:
    try:
        return comparisons_from_csv(source.read_bytes(), name=str(source))
    except OSError as error:
        raise ConfigError(f"--from {source}: cannot be read ({error.strerror})") from error


def _document(title: str, found: Ranking) -> dict[str, object]:
    return {
        "experiment": title,
        "contestants": [msgspec.to_builtins(standing) for standing in found.standings],
        "comparisons": found.comparisons,
        "reliability": found.reliability,
        "warnings": found.warnings,
    }


def _write(out: Path, title: str, found: Ranking) -> None:
    table = rankings_table(found, experiment=title)
    try:
        if out.suffix == ".parquet":
            pyarrow.parquet.write_table(table, out)
        elif out.suffix == ".csv":
            pyarrow.csv.write_csv(table, out)
        elif out.suffix == ".json":
            out.write_bytes(msgspec.json.encode(_document(title, found)))
        else:
            raise ConfigError(f"--out {out}: the ending says the format; use .parquet, .csv or .json")
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written ({error.strerror})") from error
    say(f"{len(found.standings)} contestants in {out}")


def _show(title: str, found: Ranking) -> None:
    lines = [
        [
            str(each.rank),
            each.contestant,
            f"{each.score:+.3f}",
            f"{each.low:+.3f} … {each.high:+.3f}",
            f"{each.place_low}–{each.place_high}",
            str(each.wins),
            str(each.losses),
            str(each.ties),
        ]
        for each in found.standings
    ]
    headings = ["rank", "contestant", "score", "95 %", "places", "wins", "losses", "ties"]
    rows(f"ranking of {title}", headings, lines, right=2)
    share = "" if found.reliability is None else f", reliability {found.reliability:.2f}"
    say(f"{found.comparisons:,} comparisons{share}")


def _show_summary(title: str, found: summaries.Summary) -> None:
    rows(f"what {title} found", found.headings, found.lines, right=3)


def _study_report(name: str, options: RankingOptions, store: str | None) -> str:
    worker = worker_on(store)
    (experiment,) = chosen(worker, [name])
    if not summaries.is_pairwise(worker, experiment):
        say(f"{worker.store.url}/{summaries.store_report(worker, experiment)}")
        _show_summary(name, summaries.summary(worker, experiment))
        return summaries.report(worker, experiment)
    found = answers.answers_of(worker, experiment, options)
    stored = answers.store_answers(worker, experiment, found)
    say(f"{worker.store.url}/{stored.ranking}\n{worker.store.url}/{stored.diagnostics}")
    return answers.report(worker, experiment, found)
