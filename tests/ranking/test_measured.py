"""Rates and grades of single samples: intervals that can be believed, and headlines that claim no more."""

import itertools
import re

import numpy as np
import pyarrow as pa
import pytest

from pipeline.domain import Counts, Measure
from pipeline.ranking.measured import measured
from pipeline.ranking.report.measures import measures_html

GRADE = Measure(column="score", kind="mean")
SHARE = Measure(column="compliant", kind="share")


def a_table(column: str, values: dict[str, list[float]], *, groups: bool = True) -> pa.Table:
    rows = [
        {
            "sample_id": f"{name}{number}",
            "contestant": name,
            "group": f"g{number}" if groups else None,
            "model": "m",
            "status": "ok",
            column: value,
        }
        for name, given in values.items()
        for number, value in enumerate(given)
    ]
    schema = pa.schema([(name, pa.string()) for name in ("sample_id", "contestant", "group", "model", "status")])
    return pa.Table.from_pylist(rows, schema.append(pa.field(column, pa.float64())))


def headline(table: pa.Table, measure: Measure, bounds: tuple[float, float] | None = None) -> str:
    found = measured(table, measure, bounds=bounds)
    page = measures_html(
        table, [found], experiment="e", task="t", conservation={"r": Counts(planned=1, ok=1)}, provenance={}
    )
    said = re.search("<h1>(.*?)</h1>", page)
    assert said is not None
    return said[1]


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (["a", "b"], "a and b agree on 50 % of the samples."),
        (["a", "b", "c"], "Judges agree on at least 50 % of the samples; "),
    ],
)
def test_of_two_judges_none_agree_least(models, said):
    rows = pa.concat_tables(
        a_table("compliant", {"x": [1.0, 1.0, float(at == 0), float(at == 0)]}).set_column(3, "model", [[model] * 4])
        for at, model in enumerate(models)
    )
    found = measured(rows, SHARE)
    page = measures_html(rows, [found], experiment="e", task="t", conservation={}, provenance={})
    assert said in page


@pytest.mark.parametrize(
    ("grades", "low", "high", "why"),
    [
        ([3.0], None, None, "needs 3 samples"),
        ([1.0, 3.0], None, None, "needs 3 samples"),
        ([3.0, 3.0, 3.0, 3.0], None, None, "all samples are equal"),
        ([1.0, 1.0, 2.0], 1.0, 2.768, ""),
        ([4.0, 5.0, 5.0], 3.232, 5.0, ""),
        ([2.0, 3.0, 4.0, 3.0, 2.0, 4.0], 2.061, 3.939, ""),
    ],
)
def test_intervals_of_grades_stay_on_the_scale_or_are_left_out(grades, low, high, why):
    (cell,) = measured(a_table("score", {"x": grades}), GRADE, bounds=(1.0, 5.0)).cells
    assert cell.value == pytest.approx(np.mean(grades))
    assert (cell.low, cell.high, cell.why) == (
        low and pytest.approx(low, abs=1e-3),
        high and pytest.approx(high, abs=1e-3),
        why,
    )


def test_the_axis_of_grades_is_their_scale():
    table = a_table("score", {"x": [2.0, 3.0], "y": [3.0, 3.0]})
    found = measured(table, GRADE, bounds=(1.0, 5.0))
    page = measures_html(
        table, [found], experiment="e", task="t", conservation={"r": Counts(planned=1, ok=1)}, provenance={}
    )
    assert '<span class="ends"><span>1.0</span><span>mean</span><span>5.0</span></span>' in page
    assert "none: needs 3 samples" in page


ONE_OF_SIX, FIVE_OF_SIX = [1.0, 0, 0, 0, 0, 0], [1.0, 1, 1, 1, 1, 0]
MANY = [1.0, 0.0] * 20


@pytest.mark.parametrize(
    ("values", "groups", "said"),
    [
        (
            {"x": FIVE_OF_SIX, "y": [1.0, 1, 1, 0, 0, 0]},
            True,
            "x stands first with 83.3 % (43.6 % to 97.0 %), but y cannot",
        ),
        ({"x": FIVE_OF_SIX, "y": ONE_OF_SIX}, True, "but y cannot be told apart from it."),
        ({"x": [1.0] * 3, "y": [0.0] * 3, "z": [0.0] * 3}, True, "but y and z cannot be told apart from it."),
        ({"x": [1.0] * 5, "y": [0.0] * 5, "z": [0.0] * 5}, True, "x stands clearly first with 100.0 %"),
        ({"x": FIVE_OF_SIX, "y": FIVE_OF_SIX}, True, "x and y stand first together with 83.3 %"),
        ({"x": [1.0] * 20, "y": [0.0] * 20}, True, "x stands clearly first with 100.0 %"),
        ({"x": [1.0] * 20, "y": [0.0] * 19}, False, "x stands clearly first with 100.0 %"),
        ({"x": [1.0] * 4, "y": [0.0] * 3}, False, "but y cannot be told apart from it."),
        ({"x": FIVE_OF_SIX}, True, "x stands first with 83.3 %"),
        ({"x": [1.0, *MANY[1:]], "y": [0.0, 0.0, *MANY[2:]]}, True, "but y cannot be told apart from it."),
    ],
)
def test_the_headline_claims_no_more_than_the_samples_tell(values, groups, said):
    assert said in headline(a_table("compliant", values, groups=groups), SHARE)


def test_the_test_of_differences_keeps_its_promise():
    """Where nobody is better, hardly ever somebody is called so: at most one study of twenty."""
    drawn = np.random.default_rng(1)
    claims = 0
    for _ in range(200):
        grades = {name: drawn.integers(1, 6, 8).astype(float).tolist() for name in "abc"}
        claims += "clearly" in headline(a_table("score", grades), GRADE, (1.0, 5.0))
    assert claims <= 10


def test_a_small_steady_difference_is_seen_group_by_group():
    base = [float(step) for step in itertools.islice(itertools.cycle([1, 2, 3, 4]), 16)]
    grades = {"x": [each + 1 for each in base], "y": base}
    assert headline(a_table("score", grades), GRADE, (1.0, 5.0)).startswith("x stands clearly first with 3.50")
