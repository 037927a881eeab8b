"""Tells a person what only a person can put right: held batches, stuck ones, answers that will soon be deleted."""

import dagster as dg

from assets.checks import about_waiting, nothing_waits_for_a_person
from assets.judging import submitted_batches
from assets.resources import Workers
from pipeline.ids import digest_of
from pipeline.operations.reading.reporting import Waiting, waiting_for_a_person


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reports batches that are held, stuck or about to lose their answers.",
)
def stuck_batches(context: dg.SensorEvaluationContext, workers: Workers) -> dg.SensorResult:
    """Report batches that are held, stuck or about to lose their answers, as a check of `submitted_batches`."""
    with workers.watch() as watch:
        if watch is None:
            return dg.SensorResult(skip_reason="another tick is still at work", cursor=context.cursor)
        waiting = waiting_for_a_person(watch.runs(), watch.worker.clock.now())
    seen = digest_of([(each.run_id, each.batch_id, each.phase) for each in waiting])
    evaluation = dg.AssetCheckEvaluation(
        asset_key=submitted_batches.key,
        check_name=nothing_waits_for_a_person.check_key.name,
        passed=not waiting,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=about_waiting(waiting),
    )
    return dg.SensorResult(
        skip_reason="; ".join(map(_said, waiting)) or "nothing waits",
        asset_events=[evaluation] if seen != context.cursor else [],
        cursor=seen,
    )


def _said(each: Waiting) -> str:
    return f"{each.run_id} {each.batch_id}: {each.attention.reason}"
