"""What a study has cost, as `status` and `report` tell it."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from pipeline.prices import usd
from pipeline.simulator import Simulator
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile

BOTH = "[{provider: openai, model: gpt-6-luna, reasoning: [none, low]}]"


def test_status_and_report_tell_what_the_rows_have_cost(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    assert pairlog("run", experiment_file(judges=BOTH), "--interval", 0).code == 0
    (plain,) = json.loads(pairlog("status", "--json").out)["experiments"]
    assert "cost" not in plain
    (found,) = json.loads(pairlog("status", "--cost", "--json").out)["experiments"]
    cost = found["cost"]
    assert cost["rows"] == 30
    assert cost["usd"] == pytest.approx((cost["input_tokens"] * 0.05 + cost["output_tokens"] * 0.25) / 1e6, abs=1e-6)
    assert cost["output_tokens"] == sum(run["cost"]["output_tokens"] for run in found["runs"])
    said = pairlog("status", "--cost").err
    assert f"cost so far: {usd(Decimal(str(cost['usd'])))} at prices of 2026-11-16, an estimate, not a bill; " in said
    assert pairlog("report", "essays", "--out", "essays.html").code == 0
    page = (tmp_path / "essays.html").read_text()
    assert "Tokens and cost" in page
    assert "at prices of 2026-11-16, an estimate, not a bill" in page


def test_status_and_report_say_where_a_price_is_not_known_until_the_file_gives_one(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    judge = "{provider: openai, model: of-next-year, max_output_tokens: 2000"
    assert pairlog("run", experiment_file(judges=f"[{judge}}}]"), "--interval", 0).code == 0
    assert "cost so far: not known; " in (said := pairlog("status", "--cost").err)
    assert "left out: 15 rows with no known price" in said
    assert pairlog("report", "essays", "--out", "essays.html").code == 0
    assert "not known" in (tmp_path / "essays.html").read_text()
    priced = experiment_file(judges=f"[{judge}, price: {{input: 1, output: 1000000}}}}]")
    assert pairlog("submit", priced).code == 0
    (found,) = json.loads(pairlog("status", "--cost", "--json").out)["experiments"]
    cost = found["cost"]
    assert cost["usd"] == pytest.approx(cost["input_tokens"] / 1e6 + cost["output_tokens"], abs=1e-6)
    assert (cost["prices_as_of"], cost["prices_of_file"]) == ([], True)
    assert len(simulator.ledger.batches) == 1


def test_status_tells_the_cost_of_each_run_and_that_none_is_known_before_an_answer_is_read(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    priced = "{provider: openai, model: gpt-6-luna, price: {input: 0, output: 100000}}"
    judges = f"[{priced}, {{provider: openai, model: of-next-year}}]"
    file = experiment_file(judges=judges)
    assert pairlog("submit", file).code == 0
    said = pairlog("status", "--cost").err
    assert "cost so far: not known yet; no answer has been read\n" in said
    assert pairlog("run", file, "--interval", 0).code == 0
    (found,) = json.loads(pairlog("status", "--cost", "--json").out)["experiments"]
    said, dollars = pairlog("status", "--cost").err, f"${found['cost']['usd']:,.2f}"
    assert "≈ USD" in said
    assert (said.count(dollars), said.count("not known")) == (3, 1), "of the run, of all, in the sentence; of the other"
    assert "≈ USD" not in pairlog("status").err
