"""The code location itself: what it holds, that importing it costs little and touches nothing."""

import subprocess
import sys

import dagster as dg
import pyarrow as pa
import pytest

from assets.definitions import build_defs, defs
from assets.metadata import column_schema
from assets.partitions import Block, blocks, covered
from pipeline.operations.workers.material import PAIRS
from pipeline.tasks import task_named, tasks
from tests.effort import million_steps

GRAPH = {
    "samples": ("experiments", []),
    "pairs": ("experiments", ["samples"]),
    "submitted_batches": ("segments", ["pairs"]),
    "provider_outputs": ("segments", ["submitted_batches"]),
    "comparisons": ("segments", ["provider_outputs"]),
    "rankings": ("experiments", ["comparisons"]),
    "diagnostics": ("experiments", ["comparisons", "rankings"]),
}
CHECKS = {
    "samples": {"experiment_files_readable"},
    "submitted_batches": {"nothing_waits_for_a_person"},
    "comparisons": {"conservation", "schema_matches_contract", "no_duplicate_rows", "parse_rate", "refusal_rate"},
    "rankings": {"every_contestant_ranked"},
    "diagnostics": {"position_bias"},
}


def test_the_graph_is_the_one_of_the_design() -> None:
    graph = build_defs().resolve_asset_graph()
    found = {}
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        partitions = node.partitions_def
        assert isinstance(partitions, dg.DynamicPartitionsDefinition)
        found[key.to_user_string()] = (partitions.name, sorted(each.to_user_string() for each in node.parent_keys))
        assert node.description
        assert node.owners
        assert node.kinds
        assert node.code_version
    assert found == GRAPH
    assert {
        key.to_user_string(): {check.name for check in graph.get(key).check_keys} for key in map(dg.AssetKey, CHECKS)
    } == CHECKS
    assert [check.name for check in graph.asset_check_keys if graph.get(check).blocking] == ["conservation"]


def test_a_column_has_the_type_that_the_reference_names() -> None:
    by_name = {each.name: each.type for each in column_schema(task_named("pairwise").SCHEMA).columns}
    assert (by_name["model"], by_name["repeat"]) == ("string (dictionary)", "int16")
    assert by_name["judged_at"] == "timestamp[us, tz=UTC]"


@pytest.mark.parametrize("schema", [PAIRS, *(task.SCHEMA for task in tasks().values())])
def test_every_column_says_what_it_means(schema: pa.Schema) -> None:
    assert [each.name for each in column_schema(schema).columns if not each.description] == []


def test_every_sensor_is_on_and_no_schedule_is_there() -> None:
    repository = defs.get_repository_def()
    on = {sensor.name for sensor in repository.sensor_defs if sensor.default_status is dg.DefaultSensorStatus.RUNNING}
    assert on == {"experiment_files", "batch_status", "finished_experiments", "stuck_batches", "automation"}
    assert all(sensor.description for sensor in repository.sensor_defs)
    assert repository.schedule_defs == []


def test_importing_is_quick_and_contacts_nobody() -> None:
    probe = (
        "import sys, time\n"
        "asked = []\n"
        "sys.addaudithook(lambda event, _: asked.append(event) if event.startswith('socket.') else None)\n"
        "import assets\n"
        "assert not {'socket.connect', 'socket.getaddrinfo'} & set(asked), asked\n"
        "assert 'scipy.stats' not in sys.modules, 'a second and more, and only reports need it'\n"
        "print(time.process_time())\n"
    )
    for _ in range(2):  # the first one may have to compile
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env={}, check=False)
        assert done.returncode == 0, done.stderr
    assert million_steps(float(done.stdout)) < 75


def test_neighbours_make_one_block() -> None:
    order = ["a", "b", "c", "d", "e", "f"]
    assert blocks(order, {"b", "c", "e", "f", "d"}, longest=3) == [Block(keys=("b", "c", "d")), Block(keys=("e", "f"))]
    assert blocks(order, {"a", "f"}, longest=9) == [Block(keys=("a",)), Block(keys=("f",))]
    assert blocks(order, set(), longest=9) == []


def test_what_dagster_runs_are_at_is_told_by_their_tags() -> None:
    order = ["a", "b", "c", "d"]
    ranged = Block(keys=("b", "c")).tags
    assert covered(order, [ranged, {"dagster/partition": "d"}, {"other": "a"}, {"dagster/partition": "gone"}]) == {
        "b", "c", "d",
    }  # fmt: skip
