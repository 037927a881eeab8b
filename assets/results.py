"""What comes out: the ranking with intervals, and whether the judges can be trusted."""

import base64
from collections.abc import Iterable

import dagster as dg

from assets import metadata
from assets.judging import comparisons
from assets.metadata import GROUP, OWNERS
from assets.partitions import experiments
from assets.resources import Workers
from pipeline.domain import Counts
from pipeline.ids import ExperimentName
from pipeline.operations.reading import answers, summaries
from pipeline.operations.workers.worker import Worker
from pipeline.ranking import Diagnostics, Part, Ranking, RankingOptions, Unrankable, trust, verdict
from pipeline.ranking.report.markup import percent
from pipeline.ranking.report.picture import ranking_svg
from pipeline.wording import and_more, counted

_MOST_SHOWN = 10
_AFTER_ALL_SEGMENTS = dg.AssetDep(comparisons, partition_mapping=dg.AllPartitionMapping())


@dg.asset(
    partitions_def=experiments,
    deps=[_AFTER_ALL_SEGMENTS],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"parquet"},
    code_version="1",
)
def rankings(context: dg.AssetExecutionContext, workers: Workers) -> dg.MaterializeResult[None]:
    """Bradley–Terry scores with intervals, places and tiers, from all rows there are; asked for when they are complete.

    Rows that failed or could not be read never change a score.
    """
    name = ExperimentName(context.partition_key)
    with workers.worker(context.log) as worker:
        if not summaries.is_pairwise(worker, name):
            return dg.MaterializeResult(metadata={**_provisional(worker, name), **_about_measures(worker, name)})
        found = answers.answers_of(worker, name, RankingOptions())
        stored = answers.store_answers(worker, name, found)
        if isinstance(found.ranking, Unrankable):
            raise dg.Failure(description=found.ranking.reason, allow_retries=False)
        so_far = _provisional(worker, name)
        return dg.MaterializeResult(
            metadata={
                **so_far,
                "in short": dg.MetadataValue.text(verdict(found.ranking, unfinished=bool(so_far))),
                **_about_ranking(found.ranking),
                **_about_parts(found.parts),
                "table": dg.MetadataValue.path(f"{worker.store.url}/{stored.ranking}"),
                "report": dg.MetadataValue.path(f"{worker.store.url}/{stored.report}"),
            }
        )


def _provisional(worker: Worker, name: ExperimentName) -> metadata.Metadata:
    """Return how many requests have ended, if not all have: more will change the answer."""
    counts = sum(answers.conservation(worker, name).values(), Counts())
    verb = "has" if counts.ended == 1 else "have"
    said = f"{counts.ended:,} of {counted(counts.planned, 'request')} {verb} ended; the rest is open"
    return {"provisional": dg.MetadataValue.text(said)} if counts.open else {}


def _about_measures(worker: Worker, name: ExperimentName) -> metadata.Metadata:
    """Return what an experiment found that compares nothing: rates, grades, choices or lengths."""
    found = summaries.summary(worker, name)
    stored = summaries.store_report(worker, name)
    return {
        "found": dg.MetadataValue.md(
            metadata.markdown_table(list(found.headings), [list(line) for line in found.lines])
        ),
        "report": dg.MetadataValue.path(f"{worker.store.url}/{stored}"),
    }


def _about_ranking(ranking: Ranking) -> metadata.Metadata:
    picture = base64.b64encode(ranking_svg(ranking).encode()).decode()
    rows = [
        [
            each.rank,
            each.contestant,
            metadata.signed(each.score),
            f"{metadata.signed(each.low)} … {metadata.signed(each.high)}",
            f"{each.place_low}–{each.place_high}",
            each.wins,
            each.losses,
            each.ties,
        ]
        for each in ranking.standings[:_MOST_SHOWN]
    ]
    head = ["", "contestant", "score", "95 %", "places", "won", "lost", "tied"]
    known = ranking.reliability
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(len(ranking.standings)),
        "comparisons": dg.MetadataValue.int(ranking.comparisons),
        **({} if known is None else {"reliability": dg.MetadataValue.float(round(known, 3))}),
        "ranking": dg.MetadataValue.md(metadata.markdown_table(head, rows) + _more(len(ranking.standings))),
        "picture": dg.MetadataValue.md(f"![ranking with intervals](data:image/svg+xml;base64,{picture})"),
        "to know": dg.MetadataValue.md(metadata.markdown_list(ranking.warnings)),
    }


def _more(lines: int) -> str:
    """Return what stands below a table that shows the first lines of so many."""
    left = lines - _MOST_SHOWN
    return f"\n\n{counted(left, 'more is', 'more are')} in the report" if left > 0 else ""


def _about_parts(parts: Iterable[Part]) -> metadata.Metadata:
    """Return the order that each judge, template, criterion or group alone would give, the shortest table first."""
    rows: dict[str, list[list[object]]] = {}
    for part in parts:
        rows.setdefault(f"by {part.dimension}", []).append([part.value, part.comparisons, _order(part.result)])
    return {
        name: dg.MetadataValue.md(
            metadata.markdown_table(["", "comparisons", "best first"], lines[:_MOST_SHOWN]) + _more(len(lines))
        )
        for name, lines in sorted(rows.items(), key=lambda each: len(each[1]))
    }


def _order(found: Ranking | Unrankable) -> str:
    if isinstance(found, Unrankable):
        return found.reason
    return and_more([each.contestant for each in found.standings], most=5)


@dg.asset(
    partitions_def=experiments,
    deps=[rankings, _AFTER_ALL_SEGMENTS],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"parquet"},
    code_version="1",
    automation_condition=dg.AutomationCondition.eager().ignore(dg.AssetSelection.assets(comparisons)),
)
def diagnostics(context: dg.AssetExecutionContext, workers: Workers) -> dg.MaterializeResult[None]:
    """Whether the judges can be trusted: steadiness, position bias, agreement, refusals, cycles."""
    name = ExperimentName(context.partition_key)
    with workers.worker(context.log) as worker:
        if not summaries.is_pairwise(worker, name):
            return dg.MaterializeResult(metadata={**_provisional(worker, name), **_about_measures(worker, name)})
        found = answers.answers_of(worker, name, RankingOptions())
        stored = answers.store_answers(worker, name, found)
        table = dg.MetadataValue.path(f"{worker.store.url}/{stored.diagnostics}")
        about = {**_provisional(worker, name), **_about_judges(found.found), "table": table}
        return dg.MaterializeResult(metadata=about)


def _about_judges(found: Diagnostics) -> metadata.Metadata:
    rows = [
        [
            each.judge,
            each.template,
            each.rows,
            percent(each.statuses.get("ok", 0) / each.rows if each.rows else None, 1),
            percent(None if each.consistency is None else each.consistency.share),
            "–" if each.position is None or each.position.bias is None else metadata.signed(each.position.bias),
            "–" if each.position is None else f"{each.position.p_value:.2g}",
        ]
        for each in found.judges
    ]
    head = ["judge", "template", "rows", "ok", "kept its winner", "bias to the first position", "p"]
    return {
        "in short": dg.MetadataValue.text(trust(found)),
        "judges": dg.MetadataValue.md(metadata.markdown_table(head, rows)),
        "to know": dg.MetadataValue.md(metadata.markdown_list(found.warnings)),
    }


ASSETS = [rankings, diagnostics]
