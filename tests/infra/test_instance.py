"""The shipped dagster.yaml on a real PostgreSQL: it loads, holds a study, and means what its comments say."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.events.log import EventLogEntry
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster._daemon.monitoring.run_monitoring import execute_run_monitoring_iteration
from dagster_postgres import PostgresEventLogStorage, PostgresRunStorage, PostgresScheduleStorage

from assets.definitions import build_defs
from assets.judging import PROVIDER_POOL
from assets.partitions import segments
from assets.resources import Workers
from pipeline.simulator import Simulator
from tests.assets.dagster_home import Home
from tests.conftest import environment
from tests.flows.studies import finished

_THREE_HOURS = 3 * 3600


def test_everything_dagster_keeps_is_in_postgresql(instance: dg.DagsterInstance) -> None:
    assert isinstance(instance.run_storage, PostgresRunStorage)
    assert isinstance(instance.event_log_storage, PostgresEventLogStorage)
    assert isinstance(instance.schedule_storage, PostgresScheduleStorage)
    assert not instance.telemetry_enabled
    assert not instance.nux_enabled


@pytest.fixture
def here(
    instance: dg.DagsterInstance,
    simulate: Callable[..., Simulator],
    experiment_file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Home]:
    """A code location whose instance is production's, with one experiment file."""
    simulator = simulate()
    folder = experiment_file(more="batch: {segments: 2}").parent
    for name, value in environment(simulator, PAIRLOG_EXPERIMENTS=str(folder)).items():
        monkeypatch.setenv(name, value)
    workers = Workers(store=str(tmp_path / "store"))
    with workers.worker(logging.getLogger(__name__)) as worker:
        yield Home(defs=build_defs(workers), workers=workers, worker=worker, simulator=simulator, instance=instance)


def test_the_queue_limits_each_provider_by_the_tag_the_sensors_set(here: Home) -> None:
    here.tick("experiment_files")
    assert here.materialize("samples", "pairs", keys=["essays"]).success
    assert here.materialize("submitted_batches", keys=here.segments()).success
    limits = here.instance.get_concurrency_config().run_queue_config
    assert limits is not None
    (by_provider,) = limits.tag_concurrency_limits
    assert by_provider["value"] == {"applyLimitPerUniqueValue": True}
    assert [asked.tags[by_provider["key"]] for asked in here.tick("batch_status").run_requests or []] == ["openai"]
    assert by_provider["limit"] < limits.max_concurrent_runs


def test_an_empty_database_is_filled_from_the_log_and_nothing_is_paid(here: Home, tmp_path: Path) -> None:
    finished(here.worker, tmp_path / "essays.yaml")
    paid = list(here.simulator.ledger.billed())
    here.tick("experiment_files")
    for sensor in ("batch_status", "batch_status", "finished_experiments"):
        assert all(run.success for run in here.launch(here.tick(sensor)))
    assert len(here.segments()) == 2
    for asset in ("submitted_batches", "provider_outputs", "comparisons"):
        assert here.green(asset) == set(here.segments())
    assert here.green("rankings") == {"essays"}
    assert list(here.simulator.ledger.billed()) == paid


def test_calls_to_providers_leave_a_place_for_other_work(instance: dg.DagsterInstance) -> None:
    config = instance.get_concurrency_config()
    assert config.run_queue_config is not None
    instance.event_log_storage.initialize_concurrency_limit_to_default(PROVIDER_POOL)
    info = instance.event_log_storage.get_concurrency_info(PROVIDER_POOL)
    assert info.slot_count == config.pool_config.default_pool_limit == config.run_queue_config.max_concurrent_runs - 1


def test_two_thousand_segments_are_registered_within_seconds(instance: dg.DagsterInstance) -> None:
    keys = [f"essays--default--openai--gpt-6-luna--none--forward--s{number:04}" for number in range(2000)]
    began = time.monotonic()
    for _ in range(2):
        instance.add_dynamic_partitions(str(segments.name), keys)
        assert instance.get_dynamic_partitions(str(segments.name)) == keys
    assert time.monotonic() - began < 10


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")
def test_a_dagster_run_over_many_segments_announces_them_by_one_event(instance: dg.DagsterInstance) -> None:
    keys = [f"s{number:03}" for number in range(300)]

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(keys), backfill_policy=dg.BackfillPolicy.single_run())
    def cells() -> None: ...

    ends = {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
    done = dg.materialize([cells], instance=instance, tags=ends)
    planned = instance.all_logs(done.run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    assert len(planned) == 1
    assert instance.get_materialized_partitions(cells.key) == set(keys)


def test_a_dagster_run_that_lost_its_machine_is_ended_and_retried(instance: dg.DagsterInstance) -> None:
    lost = _started(instance, seconds_ago=_THREE_HOURS)
    busy = _started(instance, seconds_ago=60)
    with WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as workspace:
        problems = [each for each in execute_run_monitoring_iteration(workspace, logging.getLogger(__name__)) if each]
    assert problems == []
    ended, working = instance.get_run_by_id(lost), instance.get_run_by_id(busy)
    assert ended is not None
    assert working is not None
    assert (ended.status, working.status) == (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED)
    assert ended.tags["dagster/will_retry"] == "true"


def _started(instance: dg.DagsterInstance, *, seconds_ago: float) -> str:
    """Return a Dagster run that began so long ago and of whose process nothing is known."""
    job = build_defs().get_job_def("submit")
    config = {"ops": {"submit_experiment": {"config": {"experiment": "essays", "most_requests": 1}}}}
    run = instance.create_run_for_job(job, run_config=config)
    began = DagsterEvent(event_type_value=DagsterEventType.RUN_START.value, job_name=job.name)
    entry = EventLogEntry(
        error_info=None,
        user_message="",
        level=20,
        run_id=run.run_id,
        timestamp=time.time() - seconds_ago,
        job_name=job.name,
        dagster_event=began,
    )
    instance.handle_new_event(entry)
    return run.run_id
