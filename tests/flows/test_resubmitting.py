"""A file that is submitted again: what shapes no request is taken from the newest one, everything else stays."""

from collections.abc import Callable
from pathlib import Path

from pipeline.domain import Checks, Rate
from pipeline.ids import ExperimentName
from pipeline.operations.resuming import resume
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.simulator import Simulator
from tests.flows.studies import counts, problems, submitted

LIVE = "[{{provider: openai, model: gpt-6-luna, mode: live, requests_per_second: {rate}}}]"
ESSAYS = ExperimentName("essays")


def seen_by(worker: Worker) -> Run:
    (run,) = worker.runs(ESSAYS)
    run.refresh()
    return run


def test_the_rate_of_the_newest_file_holds_for_whoever_resumes_without_it(
    simulate: Callable[..., Simulator], worker_for: Callable[..., Worker], experiment_file: Callable[..., Path]
) -> None:
    simulator = simulate()
    submitted(worker_for(simulator), experiment_file(judges=LIVE.format(rate=0.01)))
    submitted(worker_for(simulator), experiment_file(judges=LIVE.format(rate=500)))
    other = worker_for(simulator)
    assert seen_by(other).newest.rates == (Rate(provider="openai", model="gpt-6-luna", requests_per_second=500),)
    assert not resume(other, other.runs(ESSAYS), interval=0.01).is_open
    assert counts(other)["ok"] == 15
    assert problems(other) == []


def test_settings_that_are_taken_back_are_taken_back(
    simulate: Callable[..., Simulator], worker_for: Callable[..., Worker], experiment_file: Callable[..., Path]
) -> None:
    simulator = simulate()
    found: list[Checks] = []
    for more in ("", "checks: {parse_rate: 0.5}", "checks: {parse_rate: 0.2}", "checks: {parse_rate: 0.5}", ""):
        submitted(worker_for(simulator), experiment_file(more=more))
        found.append(seen_by(worker_for(simulator)).newest.checks)
    assert [each.parse_rate for each in found] == [0.95, 0.5, 0.2, 0.5, 0.95]
    assert problems(worker_for(simulator)) == []
    assert len(simulator.ledger.batches) == 1


def test_a_file_without_other_settings_adds_nothing_to_the_log(
    simulate: Callable[..., Simulator], worker_for: Callable[..., Worker], experiment_file: Callable[..., Path]
) -> None:
    simulator = simulate()
    (run,) = submitted(worker_for(simulator), experiment_file())
    commits = run.refresh().commits
    submitted(worker_for(simulator), experiment_file())
    submitted(worker_for(simulator), experiment_file(more="directions: [forward, reverse]"))
    assert run.refresh().commits == commits
