"""Claims about the data, each named after what must hold; the thresholds come from the experiment's file."""

from collections.abc import Iterable, Iterator

import dagster as dg

from assets import metadata
from assets.inputs import samples
from assets.judging import comparisons, submitted_batches
from assets.resources import Workers
from assets.results import diagnostics, rankings
from pipeline.ids import ExperimentName, SegmentId
from pipeline.operations import by_segment, checking
from pipeline.operations.catalogue import Catalogue, read_catalogue
from pipeline.operations.checking import CheckedShare, Seen
from pipeline.operations.reading import answers
from pipeline.operations.reading.reporting import Waiting, waiting_for_a_person
from pipeline.operations.reading.summaries import is_pairwise
from pipeline.operations.workers.failures import raise_failures
from pipeline.operations.workers.worker import Worker
from pipeline.ranking import RankingOptions, Unrankable
from pipeline.ranking.findings import JudgeFindings
from pipeline.wording import and_more

_WARN = dg.AssetCheckSeverity.WARN
_TO_MEND = "to mend"
_LOOKED_BACK = 20  # results, some of which may be announced and never came
_NOT_IN_BOTH_ORDERS = "Nothing to judge: no pair was judged in both orders. Give the experiment both directions."

_CLAIMS = {
    "conservation": "Every planned request has one row, and the rows agree with the log status by status.",
    "schema_matches_contract": "The rows have the columns and types that downstream readers rely on.",
    "no_duplicate_rows": "No request has two rows.",
    "parse_rate": "Enough of the answers could be read (`checks.parse_rate`).",
    "refusal_rate": "Few enough requests were refused (`checks.refusal_rate`).",
}
_OF_SHARES = ("parse_rate", "refusal_rate")
_OF_ROWS = tuple(name for name in _CLAIMS if name not in _OF_SHARES)


@dg.multi_asset_check(
    specs=[
        dg.AssetCheckSpec(
            name=name,
            asset=comparisons,
            description=claim,
            blocking=name == "conservation",
        )
        for name, claim in _CLAIMS.items()
    ],
    can_subset=True,
)
def rows_of_segments(context: dg.AssetCheckExecutionContext, workers: Workers) -> Iterator[dg.AssetCheckResult]:
    """Read the rows of the segments once and hold every claim against them; of all finished ones, if none is named.

    What the last result found wrong is looked at again, so that no other segment's good rows hide it. Shares are those
    of whole experiments so far.
    """
    with workers.worker(context.log) as worker:
        asked = _segments(context, worker)
        wrong = {SegmentId(each) for each in _found_wrong(context, _OF_ROWS)}
        again = checking.still_finished(worker, wrong.difference(asked))
        chosen = by_segment.choose(worker, [*asked, *again])
        raise_failures(some.run for some in chosen)
        found = checking.look_at(chosen)
        doubted = _found_wrong(context, _OF_SHARES).intersection(worker.experiment_names())
        names = sorted({some.run.experiment.name for some in chosen}.union(map(ExperimentName, doubted)))
        results = (
            _conservation(found),
            _schema(found),
            _duplicates(found),
            _rates("parse_rate", [checking.parse_rate(worker, name) for name in names]),
            _rates("refusal_rate", [checking.refusal_rate(worker, name) for name in names]),
        )
    wanted = {key.name for key in context.selected_asset_check_keys}
    yield from (result for result in results if result.check_name in wanted)


def _found_wrong(context: dg.AssetCheckExecutionContext, claims: Iterable[str]) -> set[str]:
    """Return what the last results of these checks found wrong: segments, or experiments whose shares are."""
    wrong: set[str] = set()
    # Dagster 1.13 exports no reader of earlier results: the instance shows the newest alone, which is ours, planned.
    history = context.instance.event_log_storage.get_asset_check_execution_history
    for name in claims:
        records = history(dg.AssetCheckKey(comparisons.key, name), limit=_LOOKED_BACK)
        last = next((record.evaluation for record in records if _is_told(record.evaluation)), None)
        said = last.metadata.get(_TO_MEND) if last is not None else None
        if isinstance(said, dg.TextMetadataValue) and said.value:
            wrong.update(said.value.split(", "))
    return wrong


def _is_told(found: object) -> bool:
    """Say whether a check has a result; one that is only announced, as ours now, has none."""
    return isinstance(found, dg.AssetCheckEvaluation)


def _segments(context: dg.AssetCheckExecutionContext, worker: Worker) -> list[SegmentId]:
    """Return the segments that the Dagster run is about; all that are finished if it names none."""
    if _is_partitioned(context):
        return [SegmentId(key) for key in context.partition_keys]
    return checking.finished_segments(worker)


def _experiments(context: dg.AssetCheckExecutionContext, worker: Worker) -> list[ExperimentName]:
    """Return the experiments that the Dagster run is about; all of them if it names none."""
    if _is_partitioned(context):
        return [ExperimentName(key) for key in context.partition_keys]
    return worker.experiment_names()


def _compared(context: dg.AssetCheckExecutionContext, worker: Worker) -> list[ExperimentName]:
    """Return those among them that compare; the others have no positions and no ranking."""
    return [name for name in _experiments(context, worker) if is_pairwise(worker, name)]


def _is_partitioned(context: dg.AssetCheckExecutionContext) -> bool:
    return bool(context.has_partition_key or context.has_partition_key_range)


def _conservation(found: list[Seen]) -> dg.AssetCheckResult:
    wrong = [each for each in found if not each.is_conserved]
    rows: list[list[object]] = [
        [each.segment.segment_id, each.segment.requests, each.rows, each.segment.counts.open] for each in wrong
    ]
    listed = _listed("wrong", ["segment", "planned", "rows", "open"], rows)
    return _claim("conservation", found, wrong, {**metadata.of_counts(checking.total(found)), **listed})


def _schema(found: list[Seen]) -> dg.AssetCheckResult:
    return _claim("schema_matches_contract", found, [each for each in found if not each.is_typed], {})


def _duplicates(found: list[Seen]) -> dg.AssetCheckResult:
    rows = dg.MetadataValue.int(sum(each.rows for each in found))
    return _claim("no_duplicate_rows", found, [each for each in found if each.is_doubled], {"rows": rows})


def _claim(name: str, found: list[Seen], wrong: list[Seen], known: metadata.Metadata) -> dg.AssetCheckResult:
    """Return whether none of the segments is wrong, which were looked at, and which are to be looked at again."""
    names = [each.segment.segment_id for each in found]
    about = {**known, "segments": dg.MetadataValue.text(and_more(names) if names else "none is finished")}
    if wrong:
        about[_TO_MEND] = _to_mend(each.segment.segment_id for each in wrong)
    return dg.AssetCheckResult(check_name=name, passed=not wrong, metadata=about)


def _to_mend(names: Iterable[str]) -> dg.MetadataValue:
    return dg.MetadataValue.text(", ".join(names))


def _rates(name: str, found: list[CheckedShare]) -> dg.AssetCheckResult:
    """Return whether the share is good in every experiment; the first that is not is shown, else the first."""
    judged = [each for each in found if each.rate is not None]
    shown = next((each for each in judged if not each.passed), judged[0] if judged else None)
    if shown is None:
        told = "Nothing to judge yet: no answer came back."
        return dg.AssetCheckResult(check_name=name, passed=True, severity=_WARN, description=told)
    rows: list[list[object]] = [
        [each.experiment, round(each.rate or 0.0, 4), each.threshold, each.of] for each in judged
    ]
    return dg.AssetCheckResult(
        check_name=name,
        passed=shown.passed,
        severity=_WARN,
        metadata={
            "experiment": shown.experiment,
            "rate": round(shown.rate or 0.0, 4),
            "threshold": shown.threshold,
            "of": shown.of,
            **({} if shown.passed else {_TO_MEND: _to_mend(each.experiment for each in judged if not each.passed)}),
            **(_listed("experiments", ["experiment", "rate", "threshold", "of"], rows) if len(rows) > 1 else {}),
        },
    )


def _listed(name: str, head: list[str], rows: list[list[object]]) -> metadata.Metadata:
    return {name: dg.MetadataValue.md(metadata.markdown_table(head, rows))} if rows else {}


@dg.asset_check(asset=diagnostics)
def position_bias(context: dg.AssetCheckExecutionContext, workers: Workers) -> dg.AssetCheckResult:
    """Of the pairs judged in both orders, few enough were decided by the position alone (`checks.position_bias`)."""
    with workers.worker(context.log) as worker:
        names = _compared(context, worker)
        runs = [run for name in names for run in worker.runs(name) if run.refresh().plan]
        checks = [run.newest.checks for run in runs]
        found = [answers.answers_of(worker, name, RankingOptions()).found for name in names]
    most = min((each.position_bias for each in checks), default=1.0)
    judges = [judge for each in found for judge in each.judges]
    worst = max((judge.swayed for judge in judges if judge.swayed is not None), default=None)
    return dg.AssetCheckResult(
        passed=worst is None or worst <= most,
        severity=_WARN,
        description=_NOT_IN_BOTH_ORDERS if worst is None else None,
        metadata={
            **({} if worst is None else {"worst": round(worst, 4)}),
            "threshold": most,
            **_listed("judges", ["judge", "to the first", "to the second", "share", "p"], _by_place(judges)),
        },
    )


def _by_place(judges: Iterable[JudgeFindings]) -> list[list[object]]:
    """Return, for each judge, how many pairs changed their winner with the order, and the net share of all pairs."""
    rows: list[list[object]] = []
    for each in judges:
        if each.position is not None and each.swayed is not None:
            p_value = f"{each.position.p_value:.2g}"
            rows.append([each.judge, each.position.to_first, each.position.to_second, round(each.swayed, 4), p_value])
    return rows


@dg.asset_check(asset=rankings)
def every_contestant_ranked(context: dg.AssetCheckExecutionContext, workers: Workers) -> dg.AssetCheckResult:
    """Every contestant of the samples has a place."""
    with workers.worker(context.log) as worker:
        names = _compared(context, worker)
        found = [answers.ranking_of(worker, name, RankingOptions()) for name in names]
    unranked = [
        missing for each in found for missing in ([each.reason] if isinstance(each, Unrankable) else each.unranked)
    ]
    return dg.AssetCheckResult(passed=not unranked, severity=_WARN, metadata={"unranked": unranked})


@dg.asset_check(asset=samples)
def experiment_files_readable(context: dg.AssetCheckExecutionContext, workers: Workers) -> dg.AssetCheckResult:
    """Every file in the experiments' folder can be run; a bad one does not hold up the others."""
    with workers.worker(context.log) as worker:
        catalogue = read_catalogue(worker)
    return dg.AssetCheckResult(
        passed=not catalogue.bad, description=to_mend(catalogue), metadata=about_files(catalogue)
    )


def to_mend(catalogue: Catalogue) -> str | None:
    """Return what is wrong with the files that cannot be read, or None if all can."""
    return "\n\n".join(catalogue.bad.values()) or None


def about_files(catalogue: Catalogue) -> metadata.Metadata:
    """Return which experiment files can be read, and what is wrong with the others."""
    return {
        "files": dg.MetadataValue.int(len(catalogue.files) + len(catalogue.bad)),
        "readable": dg.MetadataValue.text(", ".join(sorted(catalogue.files)) or "none"),
        "to fix": dg.MetadataValue.text(", ".join(catalogue.bad) or "none"),
    }


@dg.asset_check(asset=submitted_batches)
def nothing_waits_for_a_person(context: dg.AssetCheckExecutionContext, workers: Workers) -> dg.AssetCheckResult:
    """No batch is held, stuck at its provider, or about to lose its answers."""
    with workers.worker(context.log) as worker:
        runs = [run for name in worker.experiment_names() for run in worker.runs(name)]
        for run in runs:
            run.refresh()
        waiting = waiting_for_a_person(runs, worker.clock.now())
    return dg.AssetCheckResult(passed=not waiting, severity=_WARN, metadata=about_waiting(waiting))


def about_waiting(waiting: Iterable[Waiting]) -> metadata.Metadata:
    """Return the batches that need a person as a table."""
    rows: list[list[object]] = [
        [each.run_id, each.batch_id, each.phase, each.attention.reason, "; ".join(each.attention.remedies)]
        for each in waiting
    ]
    head = ["run", "batch", "phase", "what it waits for", "settle it by"]
    return {"waiting": dg.MetadataValue.int(len(rows)), **_listed("batches", head, rows)}


CHECKS = [
    rows_of_segments,
    position_bias,
    every_contestant_ranked,
    experiment_files_readable,
    nothing_waits_for_a_person,
]
