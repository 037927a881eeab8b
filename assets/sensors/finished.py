"""Asks for the answers of an experiment once every request that was asked for has reached its end."""

import dagster as dg

from assets.jobs import rank
from assets.partitions import experiments
from assets.resources import Workers


@dg.sensor(
    job=rank,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Asks for the rankings of experiments whose rows are complete.",
)
def finished_experiments(workers: Workers) -> dg.SensorResult:
    """Ask for `rankings` of experiments whose rows are complete, once for each state of the rows."""
    with workers.watch() as watch:
        if watch is None:
            return dg.SensorResult(skip_reason="another tick is still at work")
        finished = watch.ended()
    if not finished:
        return dg.SensorResult(skip_reason="no experiment is finished")
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(job_name=rank.name, run_key=f"{rank.name}|{name}|{rows}", partition_key=name)
            for name, rows in finished.items()
        ],
        dynamic_partitions_requests=[experiments.build_add_request(list(finished))],
    )
