"""From the rows of an experiment to its answers: ranking, diagnostics and the report. Reads rows, needs no provider."""

from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version

import msgspec
import pyarrow as pa

from pipeline.domain import Counts
from pipeline.errors import ConflictError
from pipeline.ids import Digest, ExperimentName, digest_of
from pipeline.operations.material import load_samples
from pipeline.operations.results import comparisons
from pipeline.operations.worker import Worker
from pipeline.ranking import (
    Diagnostics,
    Part,
    Ranking,
    RankingOptions,
    Unrankable,
    breakdowns,
    diagnose,
    diagnostics_table,
    rank,
    rankings_table,
    report_html,
)
from pipeline.storage import keys
from pipeline.storage.tables import parquet_bytes


class Answers(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What an experiment says: the ranking, its parts, and whether the judges can be trusted."""

    rows: pa.Table
    ranking: Ranking | Unrankable
    found: Diagnostics
    parts: tuple[Part, ...]


def ranking_of(worker: Worker, name: ExperimentName, options: RankingOptions) -> Ranking | Unrankable:
    """Return the ranking of the experiment's rows so far."""
    return rank(comparisons(worker, name), options)


def answers_of(worker: Worker, name: ExperimentName, options: RankingOptions) -> Answers:
    """Return everything the experiment's rows say so far."""
    rows = comparisons(worker, name)
    return Answers(
        rows=rows,
        ranking=rank(rows, options),
        found=diagnose(rows, by=options.by, lengths=_lengths(worker, name), seed=options.seed),
        parts=breakdowns(rows, options),
    )


def report(worker: Worker, name: ExperimentName, answers: Answers) -> str:
    """Return the report as one self-contained page."""
    return report_html(
        answers.rows,
        answers.ranking,
        answers.found,
        experiment=name,
        parts=answers.parts,
        conservation=_conservation(worker, name),
        provenance=_provenance(worker, name),
    )


class StoredAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Where the tables and the page of an experiment's answers lie."""

    ranking: str
    diagnostics: str
    report: str


def store_answers(worker: Worker, name: ExperimentName, answers: Answers) -> StoredAnswers:
    """Put ranking, diagnostics and report into the store, named after the rows behind them; return their keys."""
    named = rows_digest(worker, name)
    stored = StoredAnswers(
        ranking=keys.ranking(name, named), diagnostics=keys.diagnostics(name, named), report=keys.report(name, named)
    )
    ranking = rankings_table(answers.ranking, answers.parts, experiment=name)
    found = diagnostics_table(answers.found, experiment=name)
    _put_once(worker, stored.ranking, lambda: parquet_bytes(ranking.schema, ranking.to_batches(), metadata={}))
    _put_once(worker, stored.diagnostics, lambda: parquet_bytes(found.schema, found.to_batches(), metadata={}))
    _put_once(worker, stored.report, lambda: report(worker, name, answers).encode())
    return stored


def _put_once(worker: Worker, key: str, made: Callable[[], bytes]) -> None:
    """Put an object named after what it was made of; that it is there already is success."""
    if not worker.store.exists(key):
        with suppress(ConflictError):
            worker.store.put_new(key, made())


def _lengths(worker: Worker, name: ExperimentName) -> dict[str, float]:
    found: dict[str, float] = {}
    for _, experiment in worker.experiments(name):
        samples = load_samples(worker.store, experiment)
        found |= {sample: float(len(text)) for sample, text in zip(samples.ids(), samples.texts(), strict=True)}
    return found


def _conservation(worker: Worker, name: ExperimentName) -> dict[str, Counts]:
    return {
        run.run_id: state.counts if (state := run.refresh()).plan else Counts(planned=run.config.requests)
        for run in worker.runs(name)
    }


def rows_digest(worker: Worker, name: ExperimentName) -> Digest:
    """Return the name of the rows as they are now."""
    published = [
        (run.run_id, batch.batch_id, batch.rows.digest)
        for run in worker.runs(name)
        for batch in run.refresh().batches.values()
        if batch.rows is not None
    ]
    return digest_of(published)


def _provenance(worker: Worker, name: ExperimentName) -> dict[str, str]:
    """Return how the report came to be: versions and the digests of what went into it."""
    versions = worker.experiments(name)
    return {
        "pairlog": version("pairlog"),
        "store": worker.store.url,
        "experiment": ", ".join(digest[:16] for digest, _ in versions),
        "samples": ", ".join(sorted({experiment.samples[:16] for _, experiment in versions})),
        "pairs": ", ".join(sorted({experiment.pairs[:16] for _, experiment in versions})),
        "rows": rows_digest(worker, name)[:16],
    }
