"""All judges as one panel: votes, sharpness, and what cannot be ranked."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats

from pipeline.ranking import Ranking, Unrankable, panel
from pipeline.ranking.panel import PanelModel
from tests.ranking.studies import a_study, a_table


def test_the_panel_has_one_vote_a_judge_and_pair():
    loud = [("a", "b", "first"), ("b", "a", "second")] * 10
    quiet = [("a", "b", "second"), ("b", "a", "first")]
    table = a_table(
        [*loud, *quiet, *quiet, ("b", "c", "first"), ("c", "a", "second")],
        model=["loud"] * 20 + ["one"] * 2 + ["two"] * 2 + ["one", "one"],
    )
    both = panel(table)
    assert both is not None
    result = both.majority
    assert isinstance(result, Ranking)
    assert result.comparisons == 3
    assert {one.contestant: (one.wins, one.losses) for one in result.standings} == {
        "b": (2, 0),
        "a": (1, 1),
        "c": (0, 2),
    }


def the_model(table: pa.Table) -> PanelModel:
    both = panel(table)
    assert both is not None
    assert isinstance(both.model, PanelModel)
    return both.model


def test_the_panel_model_trusts_the_sharper_judge_and_knows_its_bias():
    table = a_study(12, judges={"sharp": 0.6, "dull": 0.0}, sharpness={"sharp": 1.5, "dull": 0.3}, seed=4, repeats=3)
    found = the_model(table)
    by_name = {judge.judge: judge for judge in found.judges}
    assert by_name["openai/sharp"].sharpness > 2 * by_name["openai/dull"].sharpness
    assert by_name["openai/sharp"].first_place == pytest.approx(0.6, abs=0.35)
    truth = [-int(one.contestant[1:]) for one in found.standings]
    assert scipy.stats.kendalltau([one.score for one in found.standings], truth).statistic > 0.85
    assert [one.rank for one in found.standings] == [1, 2, 3, 4, 5, 5, 7, 8, 9, 10, 11, 12]  # c04 and c05 won alike


def test_the_panel_models_intervals_hold_the_scores_that_more_of_the_same_would_give():
    kind: dict[str, Any] = {"judges": {"one": 0.4, "two": -0.2}, "sharpness": {"one": 1.2, "two": 0.7}}
    limit = the_model(a_study(6, seed=99, repeats=400, **kind))
    truth = {one.contestant: one.score for one in limit.standings}
    held = []
    for seed in range(40):
        found = the_model(a_study(6, seed=seed, repeats=8, **kind))
        for one in found.standings:
            assert one.low is not None
            assert one.high is not None
            held.append(one.low <= truth[one.contestant] <= one.high)
    assert 0.85 <= np.mean(held) <= 1


def test_a_panel_that_tells_nobody_apart_gives_all_one_rank():
    names = ["a", "b", "c", "d", "e"]
    rows = [(one, other, "first") for one in names for other in names if one != other]
    found = the_model(a_table(rows * 2, model=["one"] * 20 + ["two"] * 20, provider=["openai"] * 40))
    assert [one.rank for one in found.standings] == [1] * 5


def test_a_panel_takes_two_judges():
    assert panel(a_study(5)) is None
    both = panel(a_study(5, judges={"one": 0.0, "two": 0.0}))
    assert both is not None
    assert isinstance(both.majority, Ranking)


def test_a_panel_that_cannot_be_ranked_says_why():
    both = panel(a_table([("a", "b", "tie"), ("b", "a", "tie")], model=["one", "two"]))
    assert both is not None
    assert isinstance(both.majority, Unrankable)
    assert isinstance(both.model, Unrankable)
    assert both.majority.reason.endswith("nothing tells the 2 contestants apart")
    assert both.model.reason.endswith("nothing tells the 2 contestants apart")
