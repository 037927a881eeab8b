"""What a study will cost, as `plan` tells it."""

import json
from decimal import Decimal

import pytest

from pipeline.simulator import Simulator
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile

BOTH = "[{provider: openai, model: gpt-6-luna, reasoning: [none, low]}]"
UNPRICED = "[{provider: openai, model: gpt-6-luna}, {provider: openai, model: of-next-year}]"
OWN = (
    "[{provider: openai, model: gpt-6-luna}, "
    "{provider: openai, model: of-next-year, max_output_tokens: 2000, price: {input: 1, output: 1000000}}]"
)


def decimals(text: str) -> dict[str, object]:
    """Return a document with its numbers as they are written."""
    found: dict[str, object] = json.loads(text, parse_float=Decimal)
    return found


def test_plan_estimates_each_run_and_all_and_says_what_it_assumes(
    pairlog: Pairlog, experiment_file: ExperimentFile
) -> None:
    file = experiment_file(judges=BOTH, more="directions: [forward, reverse]")
    found = json.loads(pairlog("plan", file, "--json").out)
    for end in ("low", "high"):
        assert found["cost_usd"][end] == pytest.approx(sum(run["cost_usd"][end] for run in found["runs"]), abs=4e-6)
    assert [run["output_tokens_a_request"]["high"] for run in found["runs"]] == [500, 500, 4_596, 4_596]
    assert (found["cost_without"], found["prices_as_of"]) == ([], ["2026-11-16"])
    said = pairlog("plan", file).err
    assert "≈ USD is an estimate at prices of 2026-11-16, not a bill, without what is sent again" in said
    assert "10 to 500 tokens a request: gpt-6-luna (none)" in said
    assert "$0.00040 to $0.0024" in said
    assert "$0.0016 to $0.041" in said


def test_plan_takes_the_batch_price_for_batches_and_the_full_one_for_live_calls(
    pairlog: Pairlog, experiment_file: ExperimentFile
) -> None:
    ends = []
    for mode in ("batch", "live"):
        judge = f"{{provider: openai, model: gpt-6-luna, reasoning: none, max_output_tokens: 100000, mode: {mode}}}"
        found = json.loads(pairlog("plan", experiment_file(judges=f"[{judge}]"), "--json").out)
        ends.append(found["cost_usd"]["high"])
    assert ends[1] == pytest.approx(2 * ends[0], rel=0.01)


def test_plan_names_a_price_that_is_not_known_and_what_to_write(
    pairlog: Pairlog, experiment_file: ExperimentFile
) -> None:
    file = experiment_file(judges=UNPRICED)
    found = json.loads(pairlog("plan", file, "--json").out)
    assert [run["cost_usd"] is None for run in found["runs"]] == [False, True]
    assert found["cost_without"] == [{"provider": "openai", "model": "of-next-year", "mode": "batch"}]
    assert found["cost_usd"] == found["runs"][0]["cost_usd"]
    said = pairlog("plan", file).err
    assert "not known" in said
    assert (
        "note: no price is known for openai of-next-year (batch): add `price: {input: …, output: …}` at the judge, in "
        "USD for a million tokens (0 for a model of your own); the sum is without it"
    ) in said


def test_a_price_in_the_file_is_counted_with(pairlog: Pairlog, experiment_file: ExperimentFile) -> None:
    found = decimals(pairlog("plan", experiment_file(judges=OWN), "--json").out)
    runs = found["runs"]
    assert isinstance(runs, list)
    assert runs[1]["cost_usd"]["high"] // 1 == 15 * 2_000
    assert (found["cost_without"], found["prices_as_of"]) == ([], ["2026-11-16"])
    said = pairlog("plan", experiment_file(judges=OWN)).err
    assert "an estimate at prices of 2026-11-16 and of the file, not a bill" in said


def test_plan_says_what_the_new_requests_of_a_study_that_grew_cost(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    assert pairlog("submit", experiment_file()).code == 0
    again = pairlog("plan", experiment_file()).err
    assert again.rstrip().endswith("already; 0 of these requests are new")
    grown = "[{provider: openai, model: gpt-6-luna}, {provider: openai, model: gpt-6-sol, reasoning: none}"
    said = pairlog("plan", experiment_file(judges=f"{grown}]")).err
    assert "already; 15 of these requests are new, for ≈ $0.0080 to $0.048\n" in said
    unpriced = f"{grown}, {{provider: openai, model: of-next-year}}]"
    said = pairlog("plan", experiment_file(judges=unpriced)).err
    assert "; 30 of these requests are new, for ≈ $0.0080 to $0.048, those without a known price left out\n" in said
