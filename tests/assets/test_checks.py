"""The checks: each of them fails when its claim does not hold, and says by how much."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.ids import ExperimentName
from pipeline.operations.cancelling import cancel_all
from pipeline.simulator import parse_faults
from tests.assets.dagster_home import Home, with_pairs


def finished(here: Home) -> dict[str, dg.AssetCheckEvaluation]:
    with_pairs(here)
    here.materialize("submitted_batches", keys=here.segments())
    return evaluated(here, "provider_outputs", "comparisons")


def evaluated(here: Home, *assets: str, keys: tuple[str, ...] = ()) -> dict[str, dg.AssetCheckEvaluation]:
    result = here.materialize(*assets, keys=keys or here.segments(), raises=False)
    return {found.check_name: found for found in result.get_asset_check_evaluations()}


def failed(found: dict[str, dg.AssetCheckEvaluation]) -> set[str]:
    return {name for name, each in found.items() if not each.passed}


def test_a_sound_study_passes_every_check(home: Callable[..., Home]) -> None:
    found = finished(home(more="batch: {segments: 3}"))
    assert set(found) >= {"conservation", "schema_matches_contract", "no_duplicate_rows", "parse_rate", "refusal_rate"}
    assert failed(found) == set()


@pytest.mark.parametrize(
    ("fault", "check"), [("answer.unparseable=0.5", "parse_rate"), ("answer.refusal=0.5", "refusal_rate")]
)
def test_answers_that_cannot_be_used_are_held_against_the_threshold(
    home: Callable[..., Home], fault: str, check: str
) -> None:
    found = finished(home(faults=parse_faults(fault)))
    assert failed(found) == {check}
    assert found[check].severity is dg.AssetCheckSeverity.WARN


def test_thresholds_come_from_the_experiment_file(home: Callable[..., Home]) -> None:
    lenient = "checks: {parse_rate: 0.1}"
    assert failed(finished(home(faults=parse_faults("answer.unparseable=0.5"), more=lenient))) == set()


def test_thresholds_are_those_of_the_file_that_was_taken_in_last(
    home: Callable[..., Home], experiment_file: Callable[..., Path]
) -> None:
    both = "directions: [forward, reverse]\n"
    here = home(faults=parse_faults("answer.unparseable=0.5"), bias=3.0, more=both)
    assert failed(finished(here)) == {"parse_rate"}
    for more, expected in (
        ("checks: {parse_rate: 0.1, position_bias: 1.0}", set()),
        ("", {"parse_rate", "position_bias"}),
    ):
        experiment_file(more=both + more)
        here.materialize("pairs", keys=["essays"])
        rows = evaluated(here, "provider_outputs", "comparisons")
        answers = evaluated(here, "rankings", "diagnostics", keys=("essays",))
        assert failed({**rows, **answers}) == expected


def rewrite(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Put other rows under the name of published ones: what a checker must notice, though no writer does it."""
    (path,) = folder.glob("store/comparisons/**/*.parquet")
    table = pq.read_table(path, partitioning=None)
    pq.write_table(change(table), path)


def test_a_lost_row_breaks_conservation(home: Callable[..., Home], tmp_path: Path) -> None:
    here = home()
    finished(here)
    rewrite(tmp_path, lambda rows: rows.slice(1))
    found = evaluated(here, "comparisons")
    assert failed(found) == {"conservation"}
    assert found["conservation"].blocking


def test_a_doubled_row_is_noticed(home: Callable[..., Home], tmp_path: Path) -> None:
    here = home()
    finished(here)
    rewrite(tmp_path, lambda rows: pa.concat_tables([rows.slice(1), rows.slice(1, 1)]))
    assert failed(evaluated(here, "comparisons")) == {"no_duplicate_rows"}


def test_another_type_is_noticed(home: Callable[..., Home], tmp_path: Path) -> None:
    here = home()
    finished(here)
    at = pq.read_schema(next(tmp_path.glob("store/comparisons/**/*.parquet"))).get_field_index("attempt")
    rewrite(tmp_path, lambda rows: rows.set_column(at, "attempt", rows.column("attempt").cast(pa.int64())))
    assert "schema_matches_contract" in failed(evaluated(here, "comparisons"))


def test_a_judge_that_likes_the_first_place_is_found_out(home: Callable[..., Home]) -> None:
    here = home(bias=4.0, samples=12, more="directions: [forward, reverse]")
    finished(here)
    found = evaluated(here, "diagnostics", keys=("essays",))
    assert failed(found) == {"position_bias"}
    assert float(str(found["position_bias"].metadata["worst"].value)) > 0.5


@pytest.mark.parametrize("names", [["parse_rate"], ["conservation", "refusal_rate"]])
def test_checks_can_be_executed_alone_and_say_which_segments_they_are_about(
    home: Callable[..., Home], names: list[str]
) -> None:
    here = home(more="batch: {segments: 2}")
    finished(here)
    job = here.defs.get_repository_def().get_implicit_global_asset_job_def()
    keys = {dg.AssetCheckKey(dg.AssetKey("comparisons"), name) for name in names}
    alone = job.get_subset(asset_selection=set(), asset_check_selection=keys)
    result = alone.execute_in_process(instance=here.instance, resources=here.defs.resources)
    found = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert set(found) == set(names)
    assert failed(found) == set()
    about = {name: each.metadata for name, each in found.items()}
    if "conservation" in about:
        assert about["conservation"]["segments"].value == f"{here.segments()[0]} and 1 more"
    assert {shown["experiment"].value for name, shown in about.items() if name.endswith("_rate")} == {"essays"}


def test_a_check_tells_of_the_whole_experiment_so_far_whichever_segments_came_last(home: Callable[..., Home]) -> None:
    here = with_pairs(home(more="batch: {segments: 3}"))
    here.materialize("submitted_batches", keys=here.segments())
    for ended, key in enumerate(here.segments(), start=1):
        found = evaluated(here, "provider_outputs", "comparisons", keys=(key,))
        assert found["parse_rate"].metadata["of"].value == 5 * ended
        assert found["parse_rate"].metadata["experiment"].value == "essays"


def test_what_a_check_found_wrong_is_looked_at_again_until_it_is_mended(
    home: Callable[..., Home], tmp_path: Path
) -> None:
    here = with_pairs(home(more="batch: {segments: 2}"))
    here.materialize("submitted_batches", keys=here.segments())
    first, second = here.segments()
    evaluated(here, "provider_outputs", "comparisons", keys=(first,))
    (path,) = tmp_path.glob("store/comparisons/**/*.parquet")
    sound = path.read_bytes()
    rewrite(tmp_path, lambda rows: rows.slice(1))
    assert failed(evaluated(here, "comparisons", keys=(first,))) == {"conservation"}
    found = evaluated(here, "provider_outputs", "comparisons", keys=(second,))
    assert failed(found) == {"conservation"}
    assert found["conservation"].metadata["to mend"].value == first
    path.write_bytes(sound)
    assert failed(evaluated(here, "comparisons", keys=(second,))) == set()


def test_no_other_experiments_good_answers_hide_a_share_that_is_too_small(
    home: Callable[..., Home], experiment_file: Callable[..., Path]
) -> None:
    here = home(faults=parse_faults("answer.unparseable=0.5"))
    assert failed(finished(here)) == {"parse_rate"}
    experiment_file(name="lenient", more="checks: {parse_rate: 0.0}")
    here.tick("experiment_files")
    here.materialize("samples", "pairs", keys=["lenient"])
    other = here.segments()[-1]
    here.materialize("submitted_batches", keys=[other])
    found = evaluated(here, "provider_outputs", "comparisons", keys=(other,))
    assert failed(found) == {"parse_rate"}
    assert found["parse_rate"].metadata["to mend"].value == "essays"
    table = str(found["parse_rate"].metadata["experiments"].value).splitlines()[2:]
    assert [line.split(" | ")[0] for line in table] == ["| essays", "| lenient"]


def test_a_share_of_no_answers_is_nothing_to_judge_yet(home: Callable[..., Home]) -> None:
    found = finished(home(faults=parse_faults("answer.refusal=1.0")))
    assert failed(found) == {"refusal_rate"}
    assert "rate" not in found["parse_rate"].metadata
    assert str(found["parse_rate"].description) == "Nothing to judge yet: no answer came back."


def test_what_a_person_cancelled_makes_no_judge_look_less_unwilling(home: Callable[..., Home]) -> None:
    more = "batch: {segments: 3}\nchecks: {refusal_rate: 0.5}"
    here = with_pairs(home(faults=parse_faults("answer.refusal=1.0"), more=more))
    first = here.segments()[0]
    here.materialize("submitted_batches", keys=[first])
    here.materialize("provider_outputs", "comparisons", keys=[first], raises=False)
    cancel_all(here.worker, here.worker.runs(ExperimentName("essays")))
    found = evaluated(here, "comparisons", keys=(first,))
    assert failed(found) == {"refusal_rate"}
    assert found["refusal_rate"].metadata["rate"].value == 1.0


def test_a_bias_without_both_orders_is_nothing_to_judge(home: Callable[..., Home]) -> None:
    here = home()
    finished(here)
    bias = evaluated(here, "diagnostics", keys=("essays",))["position_bias"]
    assert bias.passed
    assert "worst" not in bias.metadata
    assert str(bias.description).startswith("Nothing to judge: no pair was judged in both orders")
