"""The most a person agreed to pay, held against the estimate before anything is sent."""

from decimal import Decimal
from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.operations.batches.submitting import ask_for
from pipeline.operations.budgets import check_cost
from pipeline.operations.studies.opening import freeze, open_runs
from pipeline.operations.studies.plans import plan
from pipeline.simulator import Simulator
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile, Simulate, WorkerFor

BOTH = "[{provider: openai, model: gpt-6-luna, reasoning: [none, low]}]"
UNPRICED = "[{provider: openai, model: gpt-6-luna}, {provider: openai, model: of-next-year}]"


@pytest.mark.parametrize("command", ["submit", "run"])
@pytest.mark.parametrize(
    ("judges", "most", "words"),
    [
        (
            BOTH,
            "0.01",
            "error: it may cost $0.00080 to $0.021, but --most-cost allows $0.01; nothing was sent. ",
        ),
        (
            BOTH.replace("[none, low]", "none, max_output_tokens: 20"),
            "0.0001",
            "error: it may cost $0.00040 to $0.00057, but --most-cost allows $0.0001; nothing was sent. ",
        ),
        (UNPRICED, "1000", "error: --most-cost needs prices, and none is known for openai of-next-year (batch); "),
        (
            UNPRICED.replace("of-next-year", "of-next-year, reasoning: [none, low]"),
            "1000",
            "error: --most-cost needs prices, and none is known for openai of-next-year (batch); ",
        ),
    ],
)
def test_more_than_the_most_cost_is_refused_before_anything_is_written_or_sent(
    pairlog: Pairlog,
    simulator: Simulator,
    experiment_file: ExperimentFile,
    tmp_path: Path,
    command: str,
    judges: str,
    most: str,
    words: str,
) -> None:
    file = experiment_file(judges=judges)
    before = sorted(tmp_path.rglob("*"))
    called = pairlog(command, file, "--most-cost", most)
    assert called.code == 2
    assert words in called.err
    assert sorted(tmp_path.rglob("*")) == before
    assert not simulator.ledger.batches


@pytest.mark.parametrize("most", ["nan", "-1", "inf", "cheap"])
def test_a_most_cost_that_is_no_amount_is_refused(pairlog: Pairlog, experiment_file: ExperimentFile, most: str) -> None:
    called = pairlog("submit", experiment_file(), f"--most-cost={most}")
    assert called.code == 2
    assert f"'{most}' is not an amount in USD, such as 12.50" in called.err


def test_only_what_would_be_sent_anew_counts_against_the_most_cost(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    assert pairlog("run", experiment_file(judges=BOTH), "--interval", 0, "--most-cost", "$1").code == 0
    assert pairlog("run", experiment_file(judges=BOTH), "--interval", 0, "--most-cost", 0).code == 0
    more = BOTH.replace("[none, low]", "[none, low, high]")
    assert pairlog("run", experiment_file(judges=more), "--interval", 0, "--most-cost", "0.001").code == 2
    assert len(simulator.ledger.batches) == 2


def test_a_run_that_was_sent_before_needs_no_price(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    assert pairlog("run", experiment_file(judges=UNPRICED), "--interval", 0).code == 0
    assert pairlog("submit", experiment_file(judges=UNPRICED), "--most-cost", 0).code == 0


def test_segments_that_are_left_count_with_the_length_of_their_texts(
    simulate: Simulate, worker_for: WorkerFor, tmp_path: Path
) -> None:
    texts = {"a": "short", "b": 99 * "long "}
    rows = [f"{name}{number},{text},{name}" for name, text in texts.items() for number in range(3)]
    (tmp_path / "samples.csv").write_text("\n".join(["id,text,group", *rows]), encoding="utf-8")
    file = tmp_path / "essays.yaml"
    judge = "{provider: openai, model: m, max_output_tokens: 1, price: {input: 1000, output: 0}}"
    more = "pairs: {design: groups}\nbatch: {max_requests: 3}"
    file.write_text(f"name: essays\nsamples: samples.csv\njudges: [{judge}]\n{more}\n", encoding="utf-8")
    worker = worker_for(simulate())
    planned = plan(str(file), worker=worker)
    (run,) = open_runs(worker, planned, experiment_digest=freeze(worker, planned), asked="segments")
    ask_for(run, [0])
    small, large = run.state.segments
    bill = Decimal(1000 * large.bytes) / 3 / 1_000_000
    assert small.bytes < large.bytes
    check_cost(worker, planned, bill * Decimal("1.01"))
    with pytest.raises(ConfigError, match="it may cost"):
        check_cost(worker, planned, bill * Decimal("0.99"))
