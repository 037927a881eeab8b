"""From the rows of an experiment to its answers: ranking, diagnostics and the report. Reads rows, needs no provider."""

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


def store_answers(worker: Worker, name: ExperimentName, answers: Answers) -> tuple[str, str]:
    """Put ranking and diagnostics into the store as tables named after the rows behind them; return their keys."""
    named = _rows_digest(worker, name)
    tables = {
        keys.ranking(name, named): rankings_table(answers.ranking, answers.parts, experiment=name),
        keys.diagnostics(name, named): diagnostics_table(answers.found, experiment=name),
    }
    for key, table in tables.items():
        if not worker.store.exists(key):
            try:
                worker.store.put_new(key, parquet_bytes(table.schema, table.to_batches(), metadata={}))
            except ConflictError:
                continue
    ranking, found = tables
    return ranking, found


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


def _rows_digest(worker: Worker, name: ExperimentName) -> Digest:
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
        "rows": _rows_digest(worker, name)[:16],
    }
