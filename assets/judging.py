"""What the judges are asked and what they answer, segment by segment: send, fetch, read.

Each asset advances the log and reports where it stands. Materializing a cell twice, a backfill, a retry or a second
daemon finds the work done and costs nothing.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

import dagster as dg
from pydantic import Field

from assets import metadata
from assets.inputs import pairs
from assets.metadata import GROUP, OWNERS
from assets.partitions import segments
from assets.resources import Workers
from assets.summaries import (
    NOT_BACK,
    NOT_FINISHED,
    NOT_SENT,
    about_outputs,
    about_rows,
    about_sent,
    is_sent,
    report,
    why,
)
from pipeline.ids import SegmentId
from pipeline.operations import by_segment
from pipeline.operations.budgets import Limits, check_budget, check_cost_of, wanted_by
from pipeline.operations.by_segment import Chosen
from pipeline.operations.workers.worker import Worker
from pipeline.segments import is_going_on
from pipeline.tasks import task_named

PROVIDER_POOL = "provider_api"
LIMITS = Limits("most_requests", "most_cost")
_IN_ONE_DAGSTER_RUN = dg.BackfillPolicy.single_run()


class Budget(dg.Config):
    """How much a Dagster run may send; what is already at the provider does not count."""

    most_requests: int | None = Field(default=None, description="Send nothing if it would be more requests than this.")
    most_cost: float | None = Field(default=None, description="Send nothing if it may cost more than this, in USD.")

    def check(self, worker: Worker, chosen: Sequence[Chosen]) -> None:
        """Raise ConfigError if the segments that nobody asked for yet lead to more than may be sent or spent."""
        remedy = "Raise it, or choose fewer segments"
        check_budget(wanted_by(chosen), self.most_requests, limit=LIMITS.requests, remedy=remedy)
        if (most := self.dollars()) is not None:
            check_cost_of(worker, chosen, most, limit=LIMITS.cost)

    def dollars(self) -> Decimal | None:
        """Return the most that may be spent, as it was written."""
        return None if self.most_cost is None else Decimal(str(self.most_cost))


@dg.asset(
    partitions_def=segments,
    deps=[dg.AssetDep(pairs, partition_mapping=dg.AllPartitionMapping())],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"batch"},
    code_version="1",
    pool=PROVIDER_POOL,
    backfill_policy=_IN_ONE_DAGSTER_RUN,
)
def submitted_batches(
    context: dg.AssetExecutionContext, config: Budget, workers: Workers
) -> dg.MaterializeResult[None]:
    """Segments handed to their provider: announced in the log before, recorded after, never paid for twice.

    This is the one asset that costs money, and only a person or a schedule of theirs materializes it. What is
    rate-limited or waits for credit stays in the log and continues by itself.
    """
    with workers.proven(context.log) as worker:
        chosen = _chosen(context, worker)
        config.check(worker, chosen)
        found = by_segment.send(chosen)
        report(context, chosen, found, about=about_sent, done=is_sent, missing=NOT_SENT)
    return dg.MaterializeResult()


@dg.asset(
    partitions_def=segments,
    deps=[submitted_batches],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"jsonl"},
    code_version="1",
    pool=PROVIDER_POOL,
    backfill_policy=_IN_ONE_DAGSTER_RUN,
)
def provider_outputs(context: dg.AssetExecutionContext, workers: Workers) -> dg.MaterializeResult[None]:
    """What came back, byte for byte, stored before anything reads it; also of batches that expired or failed."""
    with workers.proven(context.log) as worker:
        chosen = _chosen(context, worker)
        found = by_segment.fetch(chosen)
        report(
            context,
            chosen,
            found,
            about=about_outputs,
            done=lambda _, each: each.is_fetched,
            missing=NOT_BACK,
        )
    return dg.MaterializeResult()


@dg.asset(
    partitions_def=segments,
    deps=[provider_outputs],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"parquet"},
    code_version="1",
    output_required=False,
    backfill_policy=_IN_ONE_DAGSTER_RUN,
    metadata={"dagster/column_schema": metadata.column_schema(task_named("pairwise").SCHEMA)},
)
def comparisons(context: dg.AssetExecutionContext, workers: Workers) -> Iterator[dg.MaterializeResult[None]]:
    """One typed row for every request of the segment, whatever became of it; failures are rows too, never ties.

    What got no answer is sent again at once, up to the experiment's `attempts`. A cell turns green when all its
    requests have reached their end.
    """
    with workers.proven(context.log) as worker:
        chosen = _chosen(context, worker)
        found = by_segment.publish(chosen)
        waiting = [each for _, each in found if not each.is_finished]
        if waiting and all(map(is_going_on, waiting)) and not any(some.run.failure for some in chosen):
            for each in waiting:
                context.log.warning("%s: %s", each.segment_id, why(each))
        else:
            report(
                context,
                chosen,
                found,
                about=about_rows,
                done=lambda _, each: each.is_finished,
                missing=NOT_FINISHED,
            )
            yield dg.MaterializeResult()


def _chosen(context: dg.AssetExecutionContext, worker: Worker) -> list[Chosen]:
    keys = context.partition_keys
    if not keys:
        raise dg.Failure(description="this Dagster run names no segment; choose at least one", allow_retries=False)
    return by_segment.choose(worker, (SegmentId(key) for key in keys))


ASSETS = [submitted_batches, provider_outputs, comparisons]
