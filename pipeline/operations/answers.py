"""From the rows of an experiment to its answers: ranking, diagnostics and the report. Reads rows, needs no provider."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.domain import Counts
from pipeline.errors import ConflictError
from pipeline.ids import Digest, ExperimentName, digest_of
from pipeline.operations.absences import absent_in
from pipeline.operations.material import load_samples
from pipeline.operations.results import table_of
from pipeline.operations.worker import Worker
from pipeline.ranking import (
    Diagnostics,
    Panel,
    Part,
    Ranking,
    RankingOptions,
    Unrankable,
    breakdowns,
    diagnose,
    diagnostics_table,
    panel,
    rank,
    rankings_table,
    report_html,
)
from pipeline.samples.absent import with_absent
from pipeline.state import counts_of
from pipeline.storage import keys
from pipeline.storage.tables import parquet_bytes
from pipeline.tasks import task_named


class Answers(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What an experiment says: the ranking, its parts, whether the judges can be trusted, and what was asked for."""

    rows: pa.Table
    ranking: Ranking | Unrankable
    found: Diagnostics
    parts: tuple[Part, ...]
    panel: Panel | None = None
    options: RankingOptions = RankingOptions()
    length: bool = False


class Subjects(msgspec.Struct, frozen=True, kw_only=True):
    """What the samples tell about rows: by sample id the length, who it stands for, and its own criterion if any."""

    lengths: dict[str, float]
    contestants: dict[str, str]
    criteria: dict[str, str]

    def everyone(self, by: str) -> list[str]:
        """Return all who should stand in a ranking."""
        return list(self.contestants if by == "sample" else self.contestants.values())


def ranking_of(
    worker: Worker, name: ExperimentName, options: RankingOptions, *, length: bool = False
) -> Ranking | Unrankable:
    """Return the ranking of the experiment's rows so far; `length` lets the model hold a liking for length."""
    task = worker.runs(name)[0].config.task
    if task_named(task).SUBJECT != "pair":
        return Unrankable(
            reason=f"{name} is a {task} experiment: it compares nothing; `pairlog report {name}` shows what it found"
        )
    samples = subjects(worker, name)
    lengths = samples.lengths if length else None
    return rank(table_of(worker, name), options, lengths=lengths, everyone=samples.everyone(options.by))


def answers_of(worker: Worker, name: ExperimentName, options: RankingOptions, *, length: bool = False) -> Answers:
    """Return everything the experiment's rows say so far; `length` lets the model hold a liking for length."""
    samples = subjects(worker, name)
    rows = _with_criteria(worker, name, table_of(worker, name), samples.criteria)
    lengths = samples.lengths if length else None
    return Answers(
        rows=rows,
        ranking=rank(rows, options, lengths=lengths, everyone=samples.everyone(options.by)),
        found=diagnose(rows, by=options.by, lengths=samples.lengths, seed=options.seed),
        parts=breakdowns(rows, options),
        panel=panel(rows, options),
        options=options,
        length=length,
    )


def report(worker: Worker, name: ExperimentName, answers: Answers) -> str:
    """Return the report as one self-contained page."""
    return report_html(
        with_absent(answers.rows, absent_in(worker, name)),
        answers.ranking,
        answers.found,
        experiment=name,
        parts=answers.parts,
        panel=answers.panel,
        options=answers.options,
        length=answers.length,
        conservation=conservation(worker, name),
        provenance=provenance(worker, name),
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
    put_once(
        worker,
        stored.ranking,
        lambda: _in_its_folder(rankings_table(answers.ranking, answers.parts, panel=answers.panel)),
    )
    put_once(worker, stored.diagnostics, lambda: _in_its_folder(diagnostics_table(answers.found, panel=answers.panel)))
    put_once(worker, stored.report, lambda: report(worker, name, answers).encode())
    return stored


def _in_its_folder(table: pa.Table) -> bytes:
    """Return the table as Parquet without the column that its folder names (`experiment=…`).

    Readers of hive datasets take it from there, some as text and some as categories: no column of that name in the file
    would suit pyarrow.dataset and pandas alike.
    """
    plain = table.drop_columns("experiment")
    return parquet_bytes(plain.schema, plain.to_batches(), metadata={})


def put_once(worker: Worker, key: str, made: Callable[[], bytes]) -> None:
    """Put an object named after what it was made of; that it is there already is success."""
    if not worker.store.exists(key):
        with suppress(ConflictError):
            worker.store.put_new(key, made())


def subjects(worker: Worker, name: ExperimentName) -> Subjects:
    """Return what the experiment's samples tell, of all its versions."""
    lengths: dict[str, float] = {}
    contestants: dict[str, str] = {}
    criteria: dict[str, str] = {}
    for experiment in {each.samples: each for _, each in worker.experiments(name)}.values():
        samples = load_samples(worker.store, experiment)
        ids = samples.ids()
        lengths |= {sample: float(len(text)) for sample, text in zip(ids, samples.texts(), strict=True)}
        contestants |= dict(zip(ids, samples.contestants(), strict=True))
        named = zip(ids, samples.statements(), samples.criteria(), strict=True)
        criteria |= {sample: statement or own for sample, statement, own in named if own}
    return Subjects(lengths=lengths, contestants=contestants, criteria=criteria)


def _with_criteria(worker: Worker, name: ExperimentName, rows: pa.Table, own: dict[str, str]) -> pa.Table:
    """Return the rows with what each was judged by: the first sample's own criterion, else the run's."""
    of_run = {
        str(run.run_id): run.criterion.name for _, experiment in worker.experiments(name) for run in experiment.runs
    }
    if not own and len(set(of_run.values())) < 2:
        return rows
    judged_by = pc.call_function("coalesce", [_looked_up(rows["first_id"], own), _looked_up(rows["run_id"], of_run)])
    return rows.append_column("criterion", judged_by)


def _looked_up(column: pa.ChunkedArray, values: Mapping[str, str]) -> pa.ChunkedArray:
    """Return what the column's entries stand for, null where nothing is known."""
    place = pc.index_in(pc.cast(column, pa.string()), value_set=pa.array(list(values), pa.string()))
    return pa.chunked_array([pa.array(list(values.values()), pa.string())]).take(place)


def conservation(worker: Worker, name: ExperimentName) -> dict[str, Counts]:
    """Return how the requests of each run ended, and how many have not."""
    return {run.run_id: counts_of(run.refresh(), run.config.requests) for run in worker.runs(name)}


def rows_digest(worker: Worker, name: ExperimentName) -> Digest:
    """Return the name of the rows as they are now."""
    published = [
        (run.run_id, batch.batch_id, batch.rows.digest)
        for run in worker.runs(name)
        for batch in run.refresh().batches.values()
        if batch.rows is not None
    ]
    return digest_of(published)


def provenance(worker: Worker, name: ExperimentName) -> dict[str, str]:
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
