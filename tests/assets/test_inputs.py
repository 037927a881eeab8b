"""Samples and pairs as Dagster shows them: of the newest version, and of no texts that the experiment is not about."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.clock import FixedClock
from pipeline.errors import ConfigError
from pipeline.ids import ExperimentName
from pipeline.operations.catalogue import planned_from_file, take_in
from pipeline.operations.studies.opening import newest_version
from pipeline.operations.workers.worker import Worker
from tests.assets.dagster_home import Home, failure, shown, with_pairs

ESSAYS = ExperimentName("essays")


def judges(model: int) -> str:
    return f"[{{provider: openai, model: gpt-{model}}}]"


def test_the_newest_version_is_the_one_that_the_logs_named_last(
    home: Callable[..., Home], experiment_file: Callable[..., Path]
) -> None:
    here = with_pairs(home(judges=judges(0), samples=4))
    for version in range(1, 5):
        file = experiment_file(judges=judges(version), samples=4 + version)
        here.materialize("samples", "pairs", keys=["essays"])
        assert [run.judge.model for run in newest_version(here.worker, ESSAYS).runs] == [f"gpt-{version}"]
    experiment_file(judges=judges(2), samples=6, more="checks: {parse_rate: 0.5}")
    here.materialize("pairs", keys=["essays"])
    assert newest_version(here.worker, ESSAYS).checks.parse_rate == 0.5
    file.unlink()
    result = here.materialize("samples", "pairs", keys=["essays"])
    assert shown(result, "samples")["essays"]["dagster/partition_row_count"] == 6
    assert shown(result, "pairs")["essays"]["dagster/partition_row_count"] == 15


def test_in_one_log_the_order_of_commits_tells_the_newest_version_and_no_clock(
    home: Callable[..., Home], experiment_file: Callable[..., Path]
) -> None:
    here = home()
    here.tick("experiment_files")
    ahead = FixedClock(datetime.now(UTC) + timedelta(hours=3))
    with Worker(here.worker.store, clock=ahead, settings=here.worker.settings) as worker:
        planned = planned_from_file(worker, ESSAYS)
        assert planned is not None
        take_in(worker, planned)
    experiment_file(more="checks: {parse_rate: 0.5}")
    here.materialize("pairs", keys=["essays"])
    assert newest_version(here.worker, ESSAYS).checks.parse_rate == 0.5


def test_samples_that_are_not_those_of_the_runs_are_refused_and_not_stored(
    home: Callable[..., Home], experiment_file: Callable[..., Path], tmp_path: Path
) -> None:
    here = with_pairs(home())
    before = set(tmp_path.glob("store/samples/**/*.parquet"))
    experiment_file(samples=5)
    told = failure(here.materialize("samples", keys=["essays"], raises=False))
    assert "would change (samples: 's5' was removed; pairs; requests: 15 -> 10); take a new name" in told
    assert set(tmp_path.glob("store/samples/**/*.parquet")) == before


def test_a_name_that_no_file_has_is_refused_with_the_one_that_was_meant(home: Callable[..., Home]) -> None:
    here = home()
    with pytest.raises(ConfigError, match=r"^there is no experiment 'esays': no file in .* did you mean essays\?$"):
        planned_from_file(here.worker, ExperimentName("esays"))
    with pytest.raises(ConfigError, match=r"has that name, and .* does not hold it; choose one of essays$"):
        planned_from_file(here.worker, ExperimentName("gone"))


def test_pairs_name_the_judges_whose_price_nobody_knows(
    home: Callable[..., Home], experiment_file: Callable[..., Path]
) -> None:
    unknown = "{provider: openai, model: of-next-year}"
    here = home(judges=f"[{unknown}]")
    told = shown(with_pairs(here).materialize("pairs", keys=["essays"]), "pairs")["essays"]
    assert told["cost of all, about"] == "not known for openai of-next-year (batch)"
    experiment_file(judges=f"[{unknown}, {{provider: openai, model: gpt-6-luna}}]")
    told = shown(here.materialize("pairs", keys=["essays"]), "pairs")["essays"]
    assert str(told["cost of all, about"]).endswith(", not a bill; not known for openai of-next-year (batch)")


def test_pairs_begin_with_what_to_know_before_anything_is_paid_for(home: Callable[..., Home]) -> None:
    here = home(samples=8, more="pairs: {design: random, count: 3, seed: 1}")
    told = shown(with_pairs(here).materialize("pairs", keys=["essays"]), "pairs")["essays"]
    assert next(iter(told)) == "to know"
    assert str(told["to know"]).startswith("- warning: the 3 pairs fall into 2 parts that nothing links and 3 of 8 ")


def test_pairs_of_which_there_is_nothing_to_know_say_nothing(home: Callable[..., Home]) -> None:
    told = shown(with_pairs(home()).materialize("pairs", keys=["essays"]), "pairs")["essays"]
    assert "to know" not in told


def test_pairs_tell_how_much_nobody_asked_for_yet(home: Callable[..., Home]) -> None:
    here = with_pairs(home(more="batch: {segments: 3}"))
    here.materialize("submitted_batches", keys=here.segments()[:1])
    told = shown(here.materialize("pairs", keys=["essays"]), "pairs")["essays"]
    assert (told["requests"], told["requests nobody asked for yet"]) == (15, 10)
    assert told["cost of all, about"] == "$0.00039 to $0.034 at prices of 2026-11-16, an estimate, not a bill"
    head, _, line = str(told["grid"]).splitlines()
    assert head == "| run | requests | segments | not asked for | ≈ input tokens |"
    assert line.startswith("| essays--default--openai--gpt-6-luna--default--forward | 15 | 3 | 10 |")
