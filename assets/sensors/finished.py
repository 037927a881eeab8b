"""Asks for the answers of an experiment once every request that was asked for has reached its end."""

import dagster as dg

from assets.jobs import rank
from assets.partitions import experiments
from assets.resources import Workers
from pipeline.ids import ExperimentName
from pipeline.operations.answers import rows_digest
from pipeline.operations.worker import Worker
from pipeline.slices import slices_of


@dg.sensor(job=rank, minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING)
def finished_experiments(workers: Workers) -> dg.SensorResult:
    """Ask for `rankings` of experiments whose rows are complete, once for each state of the rows."""
    with workers.watch() as watch:
        if watch is None:
            return dg.SensorResult(skip_reason="another tick is still at work")
        watch.runs()
        worker = watch.worker
        finished = {name: rows_digest(worker, name) for name in worker.experiment_names() if is_finished(worker, name)}
    if not finished:
        return dg.SensorResult(skip_reason="no experiment is finished")
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(job_name=rank.name, run_key=f"{rank.name}|{name}|{rows}", partition_key=name)
            for name, rows in finished.items()
        ],
        dynamic_partitions_requests=[experiments.build_add_request(list(finished))],
    )


def is_finished(worker: Worker, name: ExperimentName) -> bool:
    """Say whether something of the experiment was asked for and all of that has reached its end."""
    asked = [each for run in worker.runs(name) for each in slices_of(run.state) if each.is_asked]
    return bool(asked) and all(each.is_finished for each in asked)
