"""Registers what can be run: a partition for each readable experiment file and each experiment in the store."""

from collections.abc import Sequence

import dagster as dg

from assets.checks import about_files, experiment_files_readable, to_mend
from assets.inputs import pairs, samples
from assets.partitions import experiments
from assets.resources import Workers
from pipeline.ids import digest_of
from pipeline.operations.catalogue import read_catalogue
from pipeline.wording import counted

_MOST_EVENTS = 100


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Adds partitions for experiment files and for what was submitted from elsewhere; reports files to fix.",
)
def experiment_files(context: dg.SensorEvaluationContext, workers: Workers) -> dg.SensorResult:
    """Add partitions for experiment files and for what was submitted from elsewhere; report files to fix."""
    with workers.watch() as watch:
        if watch is None:
            return dg.SensorResult(skip_reason="another tick is still at work", cursor=context.cursor)
        catalogue = read_catalogue(watch.worker)
        frozen = watch.worker.experiment_names()
        names = {*catalogue.files, *frozen}
    known = context.instance.get_dynamic_partitions(str(experiments.name))
    new = sorted(names - set(known))
    seen = digest_of([catalogue.files, catalogue.bad])
    evaluation = dg.AssetCheckEvaluation(
        asset_key=samples.key,
        check_name=experiment_files_readable.check_key.name,
        passed=not catalogue.bad,
        description=to_mend(catalogue),
        metadata=about_files(catalogue),
    )
    said = (
        f"{counted(len(names), 'experiment')}, {len(new):,} of them new; {counted(len(catalogue.bad), 'file')} to fix"
    )
    return dg.SensorResult(
        skip_reason=f"{said}: {'; '.join(catalogue.bad.values())}" if catalogue.bad else said,
        dynamic_partitions_requests=[experiments.build_add_request(new)] if new else [],
        asset_events=[*_caught_up(context.instance, frozen), *([evaluation] if seen != context.cursor else [])],
        cursor=seen,
    )


def _caught_up(instance: dg.DagsterInstance, frozen: Sequence[str]) -> list[dg.AssetMaterialization]:
    """Return the inputs that are in the store without Dagster's knowledge."""
    return [
        dg.AssetMaterialization(asset.key, partition=name)
        for asset in (samples, pairs)
        for name in sorted(set(frozen) - instance.get_materialized_partitions(asset.key))[:_MOST_EVENTS]
    ]
