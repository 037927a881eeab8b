"""Judged pairs from somebody else's file: the same answers and the same page as of an experiment."""

from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from pipeline.domain import Counts
from pipeline.errors import ConfigError
from pipeline.ids import digest
from pipeline.operations.reading.answers import Answers, Ranked, ranked_per, ranked_whole
from pipeline.ranking import (
    Basis,
    Ranking,
    RankingOptions,
    Unrankable,
    breakdowns,
    comparisons_from,
    diagnose,
    panel,
    rank,
    report_html,
)


def answers_of_file(source: Path, options: RankingOptions) -> Answers:
    """Return everything that the judged pairs of a file say; raises ConfigError if it cannot be read."""
    rows = _rows(source)
    return Answers(
        rows=rows,
        basis=Basis(rows=len(rows)),
        ranking=_ranking(rows, source, options),
        found=diagnose(rows, by=options.by, seed=options.seed),
        parts=breakdowns(rows, options),
        panel=panel(rows, options),
        options=options,
    )


def ranked_in_file(source: Path, options: RankingOptions, *, title: str, per: str | None = None) -> Ranked:
    """Return the ranking of a file's judged pairs, with its parts only where they are asked for."""
    if per is not None:
        return ranked_per(answers_of_file(source, options), per, title=title, counts=Counts())
    rows = _rows(source)
    whole, basis = _ranking(rows, source, options), Basis(rows=len(rows))
    return ranked_whole(rows, whole, by=options.by, title=title, basis=basis, counts=Counts())


def report_of_file(source: Path, answers: Answers) -> str:
    """Return the report of a file's answers as one self-contained page."""
    return report_html(
        answers.rows,
        answers.ranking,
        answers.found,
        experiment=source.stem,
        parts=answers.parts,
        panel=answers.panel,
        options=answers.options,
        provenance={
            "pairlog": version("pairlog"),
            "file": source.name,
            "SHA-256 of the file": digest(_read(source)),
        },
    )


def _ranking(rows: pa.Table, source: Path, options: RankingOptions) -> Ranking | Unrankable:
    if not len(rows):
        return Unrankable(reason=f"there are no comparisons to rank: {source.name} has a heading and no rows")
    return rank(rows, options)


def _rows(source: Path) -> pa.Table:
    return comparisons_from(_read(source), name=str(source))


def _read(source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError as error:
        raise ConfigError(f"--from {source}: cannot be read ({error.strerror})") from error
