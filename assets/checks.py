"""Claims about the data, each named after what must hold; the thresholds come from the experiment's file."""

from collections.abc import Iterable, Iterator

import dagster as dg

from assets import metadata
from assets.inputs import samples
from assets.judging import comparisons, submitted_batches
from assets.resources import Workers
from assets.results import diagnostics, rankings
from pipeline.ids import ExperimentName, SegmentId
from pipeline.operations import answers, by_segment, checking
from pipeline.operations.catalogue import Catalogue, read_catalogue
from pipeline.operations.checking import Rate, Seen
from pipeline.operations.failures import raise_failures
from pipeline.operations.reporting import Waiting, waiting_for_a_person
from pipeline.operations.summaries import is_pairwise
from pipeline.operations.worker import Worker
from pipeline.ranking import RankingOptions, Unrankable
from pipeline.ranking.findings import JudgeFindings
from pipeline.wording import and_more

_WARN = dg.AssetCheckSeverity.WARN
_NOT_IN_BOTH_ORDERS = "Nothing to judge: no pair was judged in both orders. Give the experiment both directions."

_CLAIMS = {
    "conservation": "Every planned request has one row, and the rows agree with the log status by status.",
    "schema_matches_contract": "The rows have the columns and types that downstream readers rely on.",
    "no_duplicate_rows": "No request has two rows.",
    "parse_rate": "Enough of the answers could be read (`checks.parse_rate`).",
    "refusal_rate": "Few enough requests were refused (`checks.refusal_rate`).",
}


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
    """Read the rows of the segments once and hold every claim against them; of all finished ones, if none is named."""
    with workers.worker(context.log) as worker:
        chosen = by_segment.choose(worker, _segments(context, worker))
        raise_failures(some.run for some in chosen)
        found = checking.look_at(chosen)
    results = (
        _conservation(found),
        _schema(found),
        _duplicates(found),
        _rate("parse_rate", checking.parse_rate(found)),
        _rate("refusal_rate", checking.refusal_rate(found)),
    )
    wanted = {key.name for key in context.selected_asset_check_keys}
    names = [each.segment.segment_id for each in found]
    seen = {"segments": dg.MetadataValue.text(and_more(names) if names else "none is finished")}
    for result in results:
        if result.check_name in wanted:
            yield result._replace(metadata={**result.metadata, **seen})


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
    wrong: list[list[object]] = [
        [each.segment.segment_id, each.segment.requests, each.rows, each.segment.counts.open]
        for each in found
        if not each.is_conserved
    ]
    return dg.AssetCheckResult(
        check_name="conservation",
        passed=not wrong,
        metadata={
            **metadata.of_counts(checking.total(found)),
            **_listed("wrong", ["segment", "planned", "rows", "open"], wrong),
        },
    )


def _schema(found: list[Seen]) -> dg.AssetCheckResult:
    wrong = [each.segment.segment_id for each in found if not each.is_typed]
    return dg.AssetCheckResult(check_name="schema_matches_contract", passed=not wrong, metadata={"wrong": wrong})


def _duplicates(found: list[Seen]) -> dg.AssetCheckResult:
    doubled = [each.segment.segment_id for each in found if each.is_doubled]
    return dg.AssetCheckResult(
        check_name="no_duplicate_rows",
        passed=not doubled,
        metadata={"rows": sum(each.rows for each in found), "segments with doubled rows": doubled},
    )


def _rate(name: str, found: Rate) -> dg.AssetCheckResult:
    rate = {} if found.rate is None else {"rate": round(found.rate, 4)}
    shown = {**rate, "threshold": found.threshold, "of": found.of}
    told = None if rate else "Nothing to judge yet: no answer came back."
    return dg.AssetCheckResult(check_name=name, passed=found.passed, severity=_WARN, description=told, metadata=shown)


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
