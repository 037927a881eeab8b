"""What an experiment whose task is not pairwise says: rates, grades, choices or lengths, for people and as a page."""

import msgspec

from pipeline.ids import ExperimentName
from pipeline.operations.reading.absences import absent_in
from pipeline.operations.reading.answers import conservation, provenance, rows_digest, spent_by_judge, unread
from pipeline.operations.reading.results import table_of, task_of
from pipeline.operations.workers.worker import Worker
from pipeline.ranking.measured import Cell, Measured, measured
from pipeline.ranking.report.measures import measures_html
from pipeline.samples.absent import with_absent
from pipeline.storage import keys
from pipeline.storage.objects import put_once
from pipeline.tasks import Scaled

_WORDS = {"share": "share of", "mean": "mean of", "length": "characters of", "choices": "share of"}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A small table for people: headings, and lines of as many cells."""

    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


def is_pairwise(worker: Worker, name: ExperimentName) -> bool:
    """Say whether the experiment compares, so that its contestants can be ranked."""
    return task_of(worker, name).SUBJECT == "pair"


def measures_of(worker: Worker, name: ExperimentName) -> tuple[Measured, ...]:
    """Return what the experiment's rows say so far, by the measures of its task."""
    rows, bounds = table_of(worker, name), _bounds(worker, name)
    measures = task_of(worker, name).MEASURES
    return tuple(measured(rows, measure, bounds=bounds.get(measure.column)) for measure in measures)


def _bounds(worker: Worker, name: ExperimentName) -> dict[str, tuple[float, float]]:
    """Return the ends of the scales on which samples were judged, by column: the widest of all runs."""
    task = task_of(worker, name)
    if not isinstance(task, Scaled):
        return {}
    found: dict[str, list[float]] = {}
    for run in worker.runs(name):
        for column, ends in task.bounds(run.config).items():
            found.setdefault(column, []).extend(ends)
    return {column: (min(ends), max(ends)) for column, ends in found.items()}


def summary(worker: Worker, name: ExperimentName) -> Summary:
    """Return what the experiment's rows say so far in one table."""
    lines = [
        (" ".join(filter(None, (_WORDS[each.measure.kind], each.measure.column, cell.choice))), " · ".join(cell.names),
         f"{cell.value:.3f}", _interval(cell), str(cell.samples))
        for each in measures_of(worker, name)
        for cell in each.cells
    ]  # fmt: skip
    return Summary(headings=("what", "of", "value", "95 %", "samples"), lines=tuple(lines))


def _interval(cell: Cell) -> str:
    return f"none: {cell.why}" if cell.low is None or cell.high is None else f"{cell.low:.3f} … {cell.high:.3f}"


def report(worker: Worker, name: ExperimentName) -> str:
    """Return the report as one self-contained page."""
    return measures_html(
        with_absent(table_of(worker, name), absent_in(worker, name)),
        measures_of(worker, name),
        experiment=name,
        task=worker.runs(name)[0].config.task,
        conservation=conservation(worker, name),
        costs=spent_by_judge(worker, name),
        provenance=provenance(worker, name),
        unread=unread(worker, name),
    )


def store_report(worker: Worker, name: ExperimentName) -> str:
    """Put the report into the store, named after the rows behind it; return its key."""
    key = keys.report(name, rows_digest(worker, name))
    put_once(worker.store, key, lambda: report(worker, name).encode())
    return key
