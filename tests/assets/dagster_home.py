"""A code location in the hands of a test: materialize, tick, and look at what Dagster knows afterwards."""

from collections.abc import Iterable

import dagster as dg
import msgspec
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.definitions.sensor_definition import SensorExecutionData

from assets.resources import Workers
from pipeline.operations.workers.worker import Worker
from pipeline.simulator import Simulator

_RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


class Home(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Definitions with their resource, a worker on their store, the provider behind them and an instance in memory."""

    defs: dg.Definitions
    workers: Workers
    worker: Worker
    simulator: Simulator
    instance: dg.DagsterInstance

    def materialize(
        self, *names: str, keys: Iterable[str], raises: bool = True, **config: object
    ) -> dg.ExecuteInProcessResult:
        """Run the assets for these neighbouring partitions, as the UI does."""
        first, *rest = keys
        tags = {_RANGE[0]: first, _RANGE[1]: rest[-1]} if rest else {"dagster/partition": first}
        job = self.defs.get_repository_def().get_implicit_global_asset_job_def()
        selection = [dg.AssetKey(name) for name in names]
        ops = {name: {"config": config} for name in names} if config else {}
        return job.get_subset(asset_selection=set(selection)).execute_in_process(
            instance=self.instance,
            resources=self.defs.resources,
            run_config={"ops": ops},
            tags=tags,
            raise_on_error=raises,
        )

    def tick(self, name: str, cursor: str | None = None) -> SensorExecutionData:
        """Evaluate a sensor and apply what it asks for, as the daemon does, but for the Dagster runs."""
        sensor = self.defs.get_repository_def().get_sensor_def(name)
        asked = dg.build_sensor_context(
            instance=self.instance, cursor=cursor, definitions=self.defs, resources=self.defs.resources
        )
        with asked as context, partition_loading_context(dynamic_partitions_store=self.instance):
            data = sensor.evaluate_tick(context)
        for request in data.dynamic_partitions_requests or []:
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        for event in data.asset_events:
            self.instance.report_runless_asset_event(event)
        return data

    def launch(self, data: SensorExecutionData) -> list[dg.ExecuteInProcessResult]:
        """Run what a tick asked for, each run key once."""
        done = []
        for request in data.run_requests or []:
            job = self.defs.get_repository_def().get_job(str(request.job_name))
            done.append(
                job.execute_in_process(
                    instance=self.instance,
                    run_config=request.run_config,
                    tags=dict(request.tags),
                    partition_key=request.partition_key,
                    raise_on_error=False,
                )
            )
        return done

    def green(self, asset: str) -> set[str]:
        """Return the partitions that Dagster shows as materialized."""
        return self.instance.get_materialized_partitions(dg.AssetKey(asset))

    def segments(self) -> list[str]:
        return list(self.instance.get_dynamic_partitions("segments"))


def with_pairs(here: Home) -> Home:
    here.tick("experiment_files")
    here.materialize("samples", "pairs", keys=["essays"])
    return here


def failure(result: dg.ExecuteInProcessResult) -> str:
    (failed,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    data = failed.step_failure_data
    assert data.user_failure_data is not None
    return str(data.user_failure_data.description)


def shown(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, dict[str, object]]:
    """What each cell of an asset shows after the Dagster run."""
    events = result.get_asset_materialization_events()
    found = [event.materialization for event in events if event.asset_key == dg.AssetKey(asset)]
    return {str(each.partition): {key: value.value for key, value in each.metadata.items()} for each in found}
