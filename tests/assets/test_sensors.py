"""What runs by itself: it looks, asks for what is due, and never sends what nobody asked for."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from pipeline.clock import FixedClock
from pipeline.ids import ExperimentName, SegmentId
from pipeline.operations.batches.submitting import ask_for
from pipeline.operations.by_segment import all_segments
from pipeline.operations.resuming import resume
from pipeline.simulator import parse_faults
from tests.assets.dagster_home import Home, with_pairs
from tests.flows.studies import check_against_ledger, submitted

SENSORS = ("experiment_files", "batch_status", "finished_experiments", "stuck_batches")


def asked_for(here: Home, sensor: str = "batch_status") -> list[str]:
    return [str(request.job_name) for request in here.tick(sensor).run_requests or []]


def test_no_sensor_ever_asks_to_send_what_nobody_asked_for(home: Callable[..., Home]) -> None:
    here = with_pairs(home(more="batch: {segments: 2}"))
    for _ in range(3):
        for name in SENSORS:
            assert here.tick(name).run_requests in ([], None)
    assert list(here.simulator.ledger.billed()) == []


def test_going_on_sends_nothing_more_when_segments_change_their_order_meanwhile(home: Callable[..., Home]) -> None:
    here = with_pairs(home(more="batch: {segments: 3}"))
    _, second, unasked = here.segments()
    (run,) = here.worker.runs(ExperimentName("essays"))
    ask_for(run, [0, 1])
    data = here.tick("batch_status")
    here.instance.delete_dynamic_partition("segments", second)
    here.instance.add_dynamic_partitions("segments", [second])
    here.launch(data)
    segments = {each.segment_id: each for each in all_segments(here.worker, ExperimentName("essays"))}
    assert not segments[SegmentId(unasked)].is_asked
    here.launch(here.tick("batch_status"))
    assert segments_sent(here) == 2


def segments_sent(here: Home) -> int:
    return sum(each.is_sent for each in all_segments(here.worker, ExperimentName("essays")))


def test_a_bad_file_is_reported_and_does_not_stop_the_others(home: Callable[..., Home], tmp_path: Path) -> None:
    here = home()
    (tmp_path / "broken.yaml").write_text("name: broken\nsamples: samples.csv\njudge: []\n", encoding="utf-8")
    data = here.tick("experiment_files")
    assert here.instance.get_dynamic_partitions("experiments") == ["essays"]
    (evaluation,) = data.asset_events
    assert isinstance(evaluation, dg.AssetCheckEvaluation)
    assert not evaluation.passed
    assert "broken.yaml, line 3: judge is not a known key; did you mean judges?" in str(evaluation.description)
    assert here.tick("experiment_files", cursor=data.cursor).asset_events == [], "the same is not said twice"


def test_two_files_of_one_name_are_told_apart(home: Callable[..., Home], tmp_path: Path) -> None:
    here = home()
    (tmp_path / "twin.yaml").write_text((tmp_path / "essays.yaml").read_text(), encoding="utf-8")
    assert "is taken by" in str(here.tick("experiment_files").skip_message)


def test_a_tick_without_its_cursor_asks_for_the_same(home: Callable[..., Home]) -> None:
    here = with_pairs(home(more="batch: {segments: 4}"))
    here.materialize("submitted_batches", keys=here.segments())
    first, again = here.tick("batch_status"), here.tick("batch_status", cursor="essays")
    assert [request.run_key for request in first.run_requests or []] == [
        request.run_key for request in again.run_requests or []
    ]


def test_finished_segments_are_collected_together(home: Callable[..., Home]) -> None:
    here = with_pairs(home(more="batch: {segments: 15}\ndirections: [forward, reverse]"))
    here.materialize("submitted_batches", keys=here.segments())
    data = here.tick("batch_status")
    assert len(here.segments()) == 30
    assert [request.job_name for request in data.run_requests or []] == ["collect"]
    here.launch(data)
    assert len(here.green("comparisons")) == 30


def test_dagster_catches_up_with_what_the_command_line_did(home: Callable[..., Home], tmp_path: Path) -> None:
    here = home(more="batch: {segments: 3}")
    worker = here.worker
    resume(worker, submitted(worker, tmp_path / "essays.yaml"), interval=0.02)
    here.tick("experiment_files")
    assert here.green("samples") == here.green("pairs") == {"essays"}
    data = here.tick("batch_status")
    assert len(here.green("submitted_batches")) == 3
    here.launch(data)
    assert len(here.green("comparisons")) == 3
    assert asked_for(here, "finished_experiments") == ["rank"]
    assert asked_for(here) == []
    check_against_ledger(worker, here.simulator.ledger)


@pytest.mark.parametrize(("minutes", "asked"), [(1, []), (16, ["collect"])])
def test_a_dagster_run_that_lost_its_machine_holds_nothing_up_for_long(
    home: Callable[..., Home], minutes: int, asked: list[str]
) -> None:
    here = with_pairs(home())
    here.materialize("submitted_batches", keys=here.segments())
    job = here.defs.get_repository_def().get_job("collect")
    run = here.instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, tags={"dagster/partition": here.segments()[0]}
    )
    clock = FixedClock(datetime.now(UTC) + timedelta(minutes=minutes))
    with here.workers.watch() as watch:
        assert watch is not None
        watch.worker.clock = clock
    assert asked_for(here) == asked
    assert here.instance.get_run_by_id(run.run_id)


def test_the_command_line_can_go_on_where_dagster_stopped(home: Callable[..., Home], tmp_path: Path) -> None:
    here = with_pairs(home(more="batch: {segments: 3}"))
    here.materialize("submitted_batches", keys=here.segments()[:1])
    worker = here.worker
    assert not resume(worker, worker.runs(ExperimentName("essays")), interval=0.02).moves_by_itself
    assert sum(each.is_finished for each in all_segments(worker, ExperimentName("essays"))) == 1
    resume(worker, submitted(worker, tmp_path / "essays.yaml"), interval=0.02)
    assert all(each.is_finished for each in all_segments(worker, ExperimentName("essays")))
    check_against_ledger(worker, here.simulator.ledger)


def test_what_expired_is_sent_again_and_its_cell_turns_green_only_then(home: Callable[..., Home]) -> None:
    here = with_pairs(home(faults=parse_faults("expire.share=0.2*1")))
    here.materialize("submitted_batches", keys=here.segments())
    here.launch(here.tick("batch_status"))
    assert here.green("provider_outputs") == set(here.segments())
    assert here.green("comparisons") == set()
    here.launch(here.tick("batch_status"))
    assert here.green("comparisons") == set(here.segments())
    check_against_ledger(here.worker, here.simulator.ledger)


def test_no_key_is_seen_anywhere(home: Callable[..., Home], capfd: pytest.CaptureFixture[str]) -> None:
    here = with_pairs(home())
    runs = [here.materialize("submitted_batches", keys=here.segments()), *here.launch(here.tick("batch_status"))]
    told = json.dumps([str(event) for run in runs for event in run.all_events])
    assert "sk-canary" not in told
    assert "sk-canary" not in "".join(capfd.readouterr())
