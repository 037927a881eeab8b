"""The benchmark's own code, on sizes that prove nothing about speed: every case runs, and the checks in it hold."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "infra" / "bench"


@pytest.fixture(autouse=True)
def _bench_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])


def stage(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.parametrize(
    ("name", "size", "cases"),
    [
        ("building", 300, "ours json_loop orjson_loop bytes_only planning_ours planning_counted equality"),
        ("parsing", 300, "ours json_pandas openai_types duck decode_and_write reading equality"),
        ("finding", 300, "ours dictionary polars_join"),
        ("folding", 20, "ours proven from_a_checkpoint json_fold json_proven"),
        ("whole", 300, "ours"),
    ],
)
def test_every_case_of_a_stage_runs_and_says_the_same(name: str, size: int, cases: str, tmp_path: Path) -> None:
    module = stage(name)
    module.prepare(tmp_path, size)
    found = {case: getattr(module, case)(tmp_path, size) for case in cases.split()}
    checks = {
        result[check]
        for result in found.values()
        for check in ("equal", "distinct", "exact", "whole", "ok", "same")
        if check in result
    }
    assert checks <= {1.0}
    assert all(result["cpu"] > 0 for case, result in found.items() if case != "equality")


def test_pairs_are_made_by_both_ways(tmp_path: Path) -> None:
    module = stage("pairing_up")
    assert all(module.__dict__[case](tmp_path, 1_000)["cpu"] > 0 for case in ("ours", "itertools_sample"))


def test_a_case_in_a_process_of_its_own_measures_itself(tmp_path: Path) -> None:
    measuring = stage("measuring")
    seen = measuring.side_by_side([measuring.Case("pairing_up.ours", tmp_path, 500)], rounds=2)
    assert [set(result) for result in seen["pairing_up.ours"]] == [{"cpu", "wall", "rss"}] * 2


@pytest.mark.parametrize("case", ["ours_of_few", "evalica_of_few", "logistic", "resampled", "elo", "elo_loop"])
def test_every_case_of_the_rankings_runs(case: str, tmp_path: Path) -> None:
    assert getattr(stage("ranked"), case)(tmp_path, 4_000)["cpu"] > 0


def test_a_missed_bar_is_said_and_drawn(tmp_path: Path) -> None:
    measuring, chart = stage("measuring"), stage("chart")
    bars = [
        measuring.at_least("A", "over a < loop", [2.0, 4.0, 9.0], 3),
        measuring.at_most("A", "memory", [900.0], 512),
    ]
    assert [bar.is_met for bar in bars] == [True, False]
    assert bars[1].line().startswith("MISSED")
    chart.keep(bars, tmp_path)
    assert "over a &lt; loop" in (tmp_path / "bench.svg").read_text()
    assert '"met": false' in (tmp_path / "bench.json").read_text()


def test_the_table_tells_day_machine_and_every_figure_but_the_checks_that_hold(tmp_path: Path) -> None:
    measuring, chart = stage("measuring"), stage("chart")
    bars = [
        measuring.at_least("A", "over a loop", [2.0, 4.0, 9.0], 3),
        measuring.at_least("A", "over counting", [2579.6], 100),
        measuring.at_most("A", "memory", [900.0], 512, " MB"),
        measuring.at_least("A", "equal bytes", [1.0], 1, ""),
        measuring.at_least("A", "equal rows", [0.0], 1, ""),
    ]
    chart.keep(bars, tmp_path)
    told, _, *lines = chart.table(tmp_path).splitlines()
    assert told.endswith(f"{chart.machine()}:")
    assert lines[2:] == [
        "| A | over a loop | 4× | ≥ 3× | ✓ |",
        "| A | over counting | 2,580× | ≥ 100× | ✓ |",
        "| A | memory | 900 MB | ≤ 512 MB | missed |",
        "| A | equal rows | 0 | ≥ 1 | missed |",
    ]
