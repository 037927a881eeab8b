"""From the rows of an experiment to its answers: ranking, diagnostics and the report. Reads rows, needs no provider."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.domain import Counts
from pipeline.errors import ConfigError
from pipeline.events import RowsPublished
from pipeline.ids import Digest, ExperimentName, RunId, digest, digest_of
from pipeline.operations.reading.absences import absent_in
from pipeline.operations.reading.costs import spent_by
from pipeline.operations.reading.results import coded_table_of
from pipeline.operations.workers.material import load_samples
from pipeline.operations.workers.worker import Worker
from pipeline.prices import Spent
from pipeline.ranking import (
    Basis,
    Diagnostics,
    Panel,
    Part,
    Ranking,
    RankingOptions,
    Unrankable,
    breakdowns,
    diagnose,
    diagnostics_table,
    doubts,
    panel,
    rank,
    rankings_table,
    report_html,
)
from pipeline.ranking.columns import judge_labels
from pipeline.samples import Samples
from pipeline.samples.absent import with_absent
from pipeline.state import counts_of
from pipeline.storage import keys
from pipeline.storage.objects import put_once
from pipeline.storage.tables import parquet_bytes, stream
from pipeline.tasks import task_named
from pipeline.wording import and_more

_NAMED = 5
_EXAMPLES = 5
_LOOKED_AT = (
    "run_id", "template", "provider", "model", "reasoning", "pair_id", "first_id", "second_id", "first_contestant",
    "second_contestant", "group", "status", "outcome", "reason", "input_tokens", "cached_tokens", "output_tokens",
    "reasoning_tokens",
)  # fmt: skip


class Answers(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What an experiment says: the ranking, its parts, whether the judges can be trusted, and what was asked for."""

    rows: pa.Table
    basis: Basis
    ranking: Ranking | Unrankable
    found: Diagnostics
    parts: tuple[Part, ...]
    panel: Panel | None = None
    options: RankingOptions = RankingOptions()
    length: bool = False


class Ranked(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A ranking with the parts that were asked for, and how many requests have ended (none known of a file).

    `doubts` say what makes judges hard to trust, a sentence for each of which there is something to say.
    """

    title: str
    whole: Ranking | Unrankable
    parts: tuple[Part, ...]
    table: pa.Table
    counts: Counts
    doubts: tuple[str, ...] = ()


class SampleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the samples tell about rows: by sample id the length, who it stands for, and its own criterion if any."""

    lengths: dict[str, float]
    contestants: dict[str, str]
    criteria: dict[str, str]

    def everyone(self, by: str) -> list[str]:
        """Return all who should stand in a ranking."""
        return list(self.contestants if by == "sample" else self.contestants.values())


def ranking_of(
    worker: Worker,
    name: ExperimentName,
    options: RankingOptions,
    *,
    length: bool = False,
    beside: Sequence[ExperimentName] = (),
) -> Ranking | Unrankable:
    """Return the ranking of the experiment's rows so far, and of those of the experiments beside it.

    `length` lets the model hold a preference for length.
    """
    nothing = _compares_nothing(worker, name, *beside)
    if nothing is not None:
        return nothing
    return _rank_rows(worker, _rows_of(worker, name, *beside), options, length=length, names=(name, *beside))


def _rank_rows(
    worker: Worker, rows: pa.Table, options: RankingOptions, *, length: bool, names: Sequence[ExperimentName]
) -> Ranking | Unrankable:
    samples = sample_facts(worker, *names)
    lengths = samples.lengths if length else None
    if not len(rows):
        return _nothing_yet(*names)
    return rank(rows, options, lengths=lengths, everyone=samples.everyone(options.by))


def _nothing_yet(*names: ExperimentName) -> Unrankable:
    return Unrankable(reason=f"nothing is judged yet: run `pairlog resume {' '.join(names)}`")


def _compares_nothing(worker: Worker, *names: ExperimentName) -> Unrankable | None:
    """Return why there is nothing to rank if one of the experiments has another task."""
    for each in names:
        task = worker.runs(each)[0].config.task
        if task_named(task).SUBJECT != "pair":
            found = f"`pairlog report {each}` shows what it found"
            return Unrankable(reason=f"{each} is a {task} experiment: it compares nothing; {found}")
    return None


def _rows_of(worker: Worker, *names: ExperimentName) -> pa.Table:
    """Return of each row what rankings and reports look at; the judges' texts would not fit into memory."""
    return pa.concat_tables([coded_table_of(worker, each, columns=_LOOKED_AT) for each in names])


def answers_of(
    worker: Worker,
    name: ExperimentName,
    options: RankingOptions,
    *,
    length: bool = False,
    beside: Sequence[ExperimentName] = (),
) -> Answers:
    """Return everything the experiment's rows say so far, and those of the experiments beside it.

    `length` lets the model hold a preference for length.
    """
    samples = sample_facts(worker, name, *beside)
    tables = [_with_criteria(worker, each, _rows_of(worker, each), samples.criteria) for each in (name, *beside)]
    rows = pa.concat_tables(tables, promote_options="default")
    lengths = samples.lengths if length else None
    return Answers(
        rows=rows,
        basis=_last_seen(worker, name, *beside),
        ranking=rank(rows, options, lengths=lengths, everyone=samples.everyone(options.by))
        if len(rows)
        else _nothing_yet(name, *beside),
        found=diagnose(rows, by=options.by, lengths=samples.lengths, seed=options.seed),
        parts=breakdowns(rows, options),
        panel=panel(rows, options),
        options=options,
        length=length,
    )


def ranked(
    worker: Worker,
    name: ExperimentName,
    options: RankingOptions,
    *,
    length: bool = False,
    per: str | None = None,
    beside: Sequence[ExperimentName] = (),
) -> Ranked:
    """Return the ranking of the experiments' rows so far, with its parts only where they are asked for."""
    names = (name, *beside)
    title = " + ".join(names)
    counts = sum((count for each in names for count in conservation(worker, each).values()), Counts())
    nothing = _compares_nothing(worker, *names)
    if nothing is not None:
        table = rankings_table(nothing, experiment=title, basis=_last_seen(worker, *names))
        return Ranked(title=title, whole=nothing, parts=(), table=table, counts=counts)
    if per is None:
        rows = _rows_of(worker, *names)
        whole = _rank_rows(worker, rows, options, length=length, names=names)
        basis = _last_seen(worker, *names)
        return ranked_whole(rows, whole, by=options.by, title=title, basis=basis, counts=counts)
    found = answers_of(worker, name, options, length=length, beside=beside)
    return ranked_per(found, per, title=title, counts=counts)


def ranked_whole(
    rows: pa.Table, whole: Ranking | Unrankable, *, by: str, title: str, basis: Basis, counts: Counts
) -> Ranked:
    """Return the ranking of the rows without parts."""
    table = rankings_table(whole, experiment=title, basis=basis)
    doubtful = doubts(rows, by=by) if isinstance(whole, Ranking) else ()
    return Ranked(title=title, whole=whole, parts=(), table=table, counts=counts, doubts=doubtful)


def ranked_per(found: Answers, per: str, *, title: str, counts: Counts) -> Ranked:
    """Return the ranking with its parts in one dimension; raises ConfigError if there is only one part."""
    parts = tuple(part for part in found.parts if part.dimension == per)
    together = found.panel if per == "panel" else None
    if not parts and together is None:
        raise ConfigError(f"no ranking per {per}: there is only one {'judge' if per == 'panel' else per} in {title}")
    table = rankings_table(found.ranking, parts, panel=together, experiment=title, basis=found.basis)
    return Ranked(
        title=title, whole=found.ranking, parts=parts, table=table, counts=counts, doubts=found.found.warnings
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
        costs=spent_by_judge(worker, name),
        provenance={**_asked(worker, name, answers.rows), **provenance(worker, name)},
        unread=unread(worker, name),
    )


def unread(worker: Worker, name: ExperimentName) -> list[str]:
    """Return a few answers that no outcome could be read from, as the judge wrote them."""
    found: list[str] = []
    for run in worker.runs(name):
        batches = run.refresh().batches.values()
        published = [
            batch.rows.key for batch in batches if batch.rows and batch.rows.key and batch.rows.counts.unparsed
        ]
        for rows in stream(worker.store, published, columns=["status", "content"]):
            unparsed = rows.filter(pc.equal(rows.column("status"), "unparsed")).column("content")
            found += filter(None, unparsed.to_pylist())
            if len(found) >= _EXAMPLES:
                return found[:_EXAMPLES]
    return found


class StoredAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Where the tables and the page of an experiment's answers lie."""

    ranking: str
    diagnostics: str
    report: str


def store_answers(worker: Worker, name: ExperimentName, answers: Answers) -> StoredAnswers:
    """Put ranking, diagnostics and report into the store, named after the rows behind them; return their keys."""
    basis, named = answers.basis, answers.basis.rows_digest
    assert named is not None, "the rows of a store have a name"
    stored = StoredAnswers(
        ranking=keys.ranking(name, named), diagnostics=keys.diagnostics(name, named), report=keys.report(name, named)
    )
    ranking = rankings_table(answers.ranking, answers.parts, panel=answers.panel, basis=basis)
    diagnostics = diagnostics_table(answers.found, panel=answers.panel, basis=basis)
    put_once(worker.store, stored.ranking, lambda: _in_its_folder(ranking))
    put_once(worker.store, stored.diagnostics, lambda: _in_its_folder(diagnostics))
    put_once(worker.store, stored.report, lambda: report(worker, name, answers).encode())
    return stored


def _in_its_folder(table: pa.Table) -> bytes:
    """Return the table as Parquet without the column that its folder names (`experiment=…`).

    Readers of hive datasets take it from there, some as text and some as categories: no column of that name in the file
    would suit pyarrow.dataset and pandas alike.
    """
    plain = table.drop_columns("experiment")
    return parquet_bytes(plain.schema, [plain], metadata={})


def sample_facts(worker: Worker, *names: ExperimentName) -> SampleFacts:
    """Return what the experiments' samples tell, of all their versions; an id must stand for one text everywhere."""
    lengths: dict[str, float] = {}
    contestants: dict[str, str] = {}
    criteria: dict[str, str] = {}
    seen: dict[str, Digest] = {}
    versions = (each for name in names for _, each in worker.experiments(name))
    for experiment in {each.samples: each for each in versions}.values():
        samples = load_samples(worker.store, experiment)
        ids = samples.ids()
        if len(names) > 1:
            _refuse_other_texts(seen, samples, names)
        lengths |= {sample: float(len(text)) for sample, text in zip(ids, samples.texts(), strict=True)}
        contestants |= dict(zip(ids, samples.contestants(), strict=True))
        named = zip(ids, samples.statements(), samples.criteria(), strict=True)
        criteria |= {sample: statement or own for sample, statement, own in named if own}
    return SampleFacts(lengths=lengths, contestants=contestants, criteria=criteria)


def _refuse_other_texts(seen: dict[str, Digest], samples: Samples, names: Sequence[ExperimentName]) -> None:
    """Note what each id stands for; refuse one that stands for another text than before."""
    for sample, text in zip(samples.ids(), samples.each_text(), strict=True):
        content = digest(text.encode())
        if seen.setdefault(sample, content) != content:
            raise ConfigError(
                f"{' and '.join(names)} cannot be ranked together: "
                f"the sample {sample!r} does not have the same text in all of them"
            )


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


def spent_by_judge(worker: Worker, name: ExperimentName) -> dict[str, Spent]:
    """Return what the experiment's rows so far have cost, by judge as reports call it."""
    runs = worker.runs(name)
    names = ("provider", "model", "reasoning")
    labels = judge_labels(pa.table({each: [getattr(run.config.judge, each) for run in runs] for each in names}))
    found: dict[str, Spent] = {}
    for label, run in zip(labels.to_pylist(), runs, strict=True):
        found[label] = found.get(label, Spent()) + spent_by(run, run.refresh().batches.values())
    return found


def conservation(worker: Worker, name: ExperimentName) -> dict[str, Counts]:
    """Return how the requests of each run ended, and how many have not."""
    return {run.run_id: counts_of(run.refresh(), run.config.requests) for run in worker.runs(name)}


def rows_digest(worker: Worker, name: ExperimentName) -> Digest:
    """Return the name of the rows as they are now."""
    for run in worker.runs(name):
        run.refresh()
    return _name_of(_published(worker, name))


def _last_seen(worker: Worker, *names: ExperimentName) -> Basis:
    """Return what was there of the rows when they were last read: others may have been published meanwhile."""
    published = _published(worker, *names)
    return Basis(rows=sum(rows.counts.ended for _, rows in published), rows_digest=_name_of(published))


def _published(worker: Worker, *names: ExperimentName) -> list[tuple[RunId, RowsPublished]]:
    return [
        (run.run_id, batch.rows)
        for name in names
        for run in worker.runs(name)
        for batch in run.state.batches.values()
        if batch.rows is not None
    ]


def _name_of(published: list[tuple[RunId, RowsPublished]]) -> Digest:
    return digest_of([(run_id, rows.batch_id, rows.digest) for run_id, rows in published])


def _asked(worker: Worker, name: ExperimentName, rows: pa.Table) -> dict[str, str]:
    """Return what the judges were asked: by which criteria and templates, of many the first."""
    runs = [run for _, experiment in worker.experiments(name) for run in experiment.runs]
    described = {run.criterion.name: f"{run.criterion.name} ({run.criterion.description})" for run in runs}
    several = "criterion" in rows.column_names and len(rows)
    criteria = pc.unique(rows["criterion"]).to_pylist() if several else list(described)
    return {
        "criterion": and_more([described.get(each, each) for each in criteria], most=_NAMED),
        "template": and_more(list(dict.fromkeys(run.template.name for run in runs)), most=_NAMED),
    }


def provenance(worker: Worker, name: ExperimentName) -> dict[str, str]:
    """Return how the report came to be: versions and the digests of what went into it."""
    versions = worker.experiments(name)
    return {
        "pairlog": version("pairlog"),
        "store": worker.store.url,
        "experiment": ", ".join(each[:16] for each, _ in versions),
        "samples": ", ".join(sorted({experiment.samples[:16] for _, experiment in versions})),
        "pairs": ", ".join(sorted({experiment.pairs[:16] for _, experiment in versions})),
        "rows": rows_digest(worker, name)[:16],
    }
