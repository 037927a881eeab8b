"""Judged pairs from somebody else's file: the same answers and the same page as of an experiment."""

from importlib.metadata import version
from pathlib import Path

from pipeline.errors import ConfigError
from pipeline.ids import digest
from pipeline.operations.reading.answers import Answers
from pipeline.ranking import (
    Basis,
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
    """Return everything that the judged pairs of a CSV file say; raises ConfigError if it cannot be read."""
    rows = comparisons_from(_read(source), name=str(source))
    none = Unrankable(reason=f"there are no comparisons to rank: {source.name} has a heading and no rows")
    return Answers(
        rows=rows,
        basis=Basis(rows=len(rows)),
        ranking=rank(rows, options) if len(rows) else none,
        found=diagnose(rows, by=options.by, seed=options.seed),
        parts=breakdowns(rows, options),
        panel=panel(rows, options),
        options=options,
    )


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


def _read(source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError as error:
        raise ConfigError(f"--from {source}: cannot be read ({error.strerror})") from error
