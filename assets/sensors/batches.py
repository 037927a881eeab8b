"""Polls every open batch, and asks Dagster for what became due: many segments in one Dagster run.

The work is done by `pipeline`, as `pairlog resume` does it; who else does it at the same time does no harm.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import dagster as dg
import msgspec

from assets.jobs import collect, send, submit
from assets.judging import comparisons, submitted_batches
from assets.partitions import blocks, covered, segments
from assets.resources import Workers
from assets.summaries import about_sent, is_sent
from pipeline.ids import digest_of
from pipeline.operations.by_segment import asking_for_patience
from pipeline.operations.watching import Round, Watch, oldest
from pipeline.operations.workers.run import Run
from pipeline.segments import SegmentState, is_to_collect, may_go_on, segments_of
from pipeline.state import AT_PROVIDER
from pipeline.wording import counted

_POLLING_SECONDS = 20.0
_LONGEST_BLOCK = 500
_MOST_REQUESTS = 12
_MOST_EVENTS = 200
_RETRY_SECONDS = 600
_STALE = timedelta(minutes=15)  # a Dagster run that lost its machine may be shown as started for hours
_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING,
]  # fmt: skip
_NOTHING_NEW = {"ops": {submitted_batches.op.name: {"config": {"most_requests": 0}}}}
_Found = Sequence[tuple[Run, SegmentState]]


class _View(msgspec.Struct, frozen=True, kw_only=True):
    """What Dagster knows: its segments in order, new ones last, which of them it saw sent and parsed or is at."""

    order: list[str]
    new: list[str]
    sent: set[str]
    parsed: set[str]
    busy: set[str]
    is_submitting: bool


@dg.sensor(
    jobs=[collect, send],
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Polls open batches and asks for what became due; sends nothing that nobody asked for.",
)
def batch_status(context: dg.SensorEvaluationContext, workers: Workers) -> dg.SensorResult:
    """Poll open batches, append what changed, and ask for the materializations that are now due."""
    with workers.watch() as watch:
        if watch is None:
            return dg.SensorResult(skip_reason="another tick is still at work", cursor=context.cursor)
        runs = watch.runs()
        seen = watch.round(runs, seconds=_POLLING_SECONDS, after=context.cursor or "")
        found = [(run, each) for run in runs for each in segments_of(run.state)]
        view = _view(context.instance, found, watch.worker.clock.now())
        requests = [*_requests(watch, found, view)][:_MOST_REQUESTS]
        for run in runs:
            if all(each.segment_id in view.parsed for each in segments_of(run.state)):
                watch.set_aside(run)
        said = _said(watch, runs, seen)
    for trouble in seen.troubles:
        context.log.warning(trouble)
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else said,
        dynamic_partitions_requests=[segments.build_add_request(view.new)] if view.new else [],
        asset_events=_caught_up(found, view),
        cursor=seen.after,
    )


def _view(instance: dg.DagsterInstance, found: _Found, now: datetime) -> _View:
    known = instance.get_dynamic_partitions(str(segments.name))
    there = set(known)
    new = [each.segment_id for _, each in found if each.segment_id not in there]
    order = [*known, *new]
    fresh = dg.RunsFilter(statuses=_UNFINISHED, created_after=now - _STALE)
    unfinished = instance.get_runs(filters=fresh, limit=500)
    return _View(
        order=order,
        new=[str(key) for key in new],
        sent=instance.get_materialized_partitions(submitted_batches.key),
        parsed=instance.get_materialized_partitions(comparisons.key),
        busy=covered(order, (run.tags for run in unfinished)),
        is_submitting=any(run.job_name == submit.name for run in unfinished),
    )


def _requests(watch: Watch, found: _Found, view: _View) -> Iterator[dg.RunRequest]:
    """Yield what is to be collected, then what is to be sent on; neighbouring segments of a provider together."""
    now = watch.worker.clock.now()
    spared = asking_for_patience(run for run, _ in found)

    def is_due(_: Run, each: SegmentState) -> bool:
        return is_to_collect(each, is_shown=each.segment_id in view.parsed)

    def waits(run: Run, each: SegmentState) -> bool:
        is_spared = not run.is_live and run.config.judge.provider in spared
        return not is_spared and may_go_on(each, now, live=run.is_live) and watch.worker.leases.is_free(run.run_id)

    yield from _in_blocks(watch, found, view, name=collect.name, config={}, wanted=is_due)
    if not view.is_submitting:
        yield from _in_blocks(watch, found, view, name=send.name, config=_NOTHING_NEW, wanted=waits)


def _in_blocks(
    watch: Watch,
    found: _Found,
    view: _View,
    *,
    name: str,
    config: Mapping[str, object],
    wanted: Callable[[Run, SegmentState], bool],
) -> Iterator[dg.RunRequest]:
    """Yield a request for each block; `config` holds if other segments come between before Dagster runs it."""
    by_provider: dict[str, dict[str, SegmentState]] = {}
    for run, each in found:
        if each.segment_id not in view.busy and wanted(run, each):
            by_provider.setdefault(run.config.judge.provider, {})[each.segment_id] = each
    period = int(watch.worker.clock.now().timestamp() // _RETRY_SECONDS)
    for provider, wanting in by_provider.items():
        for block in blocks(view.order, wanting, longest=_LONGEST_BLOCK):
            state = [(batch.batch_id, batch.phase) for key in block.keys for batch in wanting[key].batches]
            yield dg.RunRequest(
                job_name=name,
                run_key=f"{name}|{block.keys[0]}..{block.keys[-1]}|{digest_of(state)[:16]}|{period}",
                run_config=config,
                tags={**block.tags, "pairlog/provider": provider},
            )


def _caught_up(found: _Found, view: _View) -> list[dg.AssetMaterialization]:
    """Return what was sent without Dagster's knowledge, from the command line or by a worker that died."""
    known = view.sent | view.busy
    missed = [(run, each) for run, each in found if is_sent(run, each) and each.segment_id not in known]
    return [
        dg.AssetMaterialization(submitted_batches.key, partition=each.segment_id, metadata=about_sent(run, each))
        for run, each in missed[:_MOST_EVENTS]
    ]


def _said(watch: Watch, runs: Sequence[Run], seen: Round) -> str:
    """Return what is awaited, in words."""
    open_ = [batch for run in runs for batch in run.state.batches.active.values() if batch.phase in AT_PROVIDER]
    since = oldest(runs)
    if since is None:
        return "no batch is at its provider"
    minutes = int((watch.worker.clock.now() - since).total_seconds() // 60)
    asked = f"{seen.polled:,} asked after, {seen.ended:,} ended"
    age = f"{minutes // 60} h {minutes % 60:02} min"
    return f"{counted(len(open_), 'batch')} at the provider, the oldest for {age}; {asked}"
