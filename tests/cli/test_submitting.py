"""Submitting many runs, some of which cannot be sent: the others are, and what was not is named."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from pipeline.clock import SystemClock
from pipeline.errors import ConfigError, PipelineError, StoreError
from pipeline.ids import ExperimentName
from pipeline.operations.catalogue import take_in
from pipeline.operations.resuming import submit_all
from pipeline.operations.studies.opening import freeze, open_runs
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.failures import raise_failures
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator, parse_faults
from pipeline.storage.local import LocalStore
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile, Simulate, environment

THREE = (
    "[{provider: openai, model: gpt-6-luna}, {provider: anthropic, model: claude-haiku-5-5}, "
    "{provider: groq, model: llama-4}]"
)
LEVELS = "[{provider: openai, model: gpt-6-luna, reasoning: [none, low, high]}]"
NONE, LOW, HIGH = (f"essays--default--openai--gpt-6-luna--{level}--forward" for level in ("none", "low", "high"))


def phases(pairlog: Pairlog) -> dict[str, str]:
    """Return the phase of each run's only batch."""
    (experiment,) = json.loads(pairlog("status", "essays", "--json").out)["experiments"]
    return {run["run_id"]: batch["phase"] for run in experiment["runs"] for batch in run["batches"]}


def damage(store: Path, run_id: str) -> None:
    (store / "log" / run_id / f"{0:020d}.json").write_bytes(b"{}")


@pytest.mark.parametrize("fault", ["create.401=1", "create.429:60=9"])
def test_a_provider_that_refuses_is_named_in_the_end_and_the_others_get_their_batches_once(
    pairlog: Pairlog,
    simulator: Simulator,
    simulate: Simulate,
    monkeypatch: pytest.MonkeyPatch,
    experiment_file: ExperimentFile,
    fault: str,
) -> None:
    refusing = simulate(faults=parse_faults(fault))
    for name, value in {
        "ANTHROPIC_API_KEY": "sk-other", "ANTHROPIC_BASE_URL": refusing.anthropic_base_url,
        "GROQ_API_KEY": "sk-third", "GROQ_BASE_URL": simulator.groq_base_url,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    file = experiment_file(judges=THREE)
    called = pairlog("submit", file)
    assert called.code == 1
    assert "not sent: essays--default--anthropic--claude-haiku-5-5--default--forward: " in called.err
    assert called.last_line == "left: 1 batch is not at the provider yet; `pairlog resume` goes on"
    assert sorted(phases(pairlog).values()) == ["refused", "submitted", "submitted"]
    pairlog("submit", file)
    assert len(simulator.ledger.batches) == 2


def test_an_accounts_fault_with_one_model_does_not_keep_others_of_the_provider_from_being_sent(
    pairlog: Pairlog, provide: Simulate, experiment_file: ExperimentFile
) -> None:
    provide(faults=parse_faults("create.404=1"))
    called = pairlog("submit", experiment_file(judges=LEVELS))
    assert (called.code, phases(pairlog)) == (1, {NONE: "refused", LOW: "submitted", HIGH: "submitted"})
    assert f"not sent: {NONE}: " in called.err


@pytest.mark.parametrize("command", [["submit"], ["run", "--interval", "0"]])
def test_a_run_whose_log_is_damaged_is_named_and_the_others_are_sent(
    pairlog: Pairlog,
    simulator: Simulator,
    experiment_file: ExperimentFile,
    tmp_path: Path,
    command: list[str],
) -> None:
    assert pairlog("submit", experiment_file(judges=LEVELS.replace(", high", ""))).code == 0
    damage(tmp_path / ".pairlog", NONE)
    called = pairlog(*command, experiment_file(judges=LEVELS))
    assert called.code == 1
    assert f": {NONE}: log/{NONE}/{0:020d}.json" in called.err
    assert len(simulator.ledger.batches) == 3
    assert "every batch is at its provider" not in called.err


def test_a_missing_key_of_one_provider_stops_all_of_them_before_anything_is_written(
    pairlog: Pairlog,
    simulator: Simulator,
    monkeypatch: pytest.MonkeyPatch,
    experiment_file: ExperimentFile,
    tmp_path: Path,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert pairlog("submit", experiment_file(judges=THREE)).code == 2
    assert not (tmp_path / ".pairlog").exists()
    assert simulator.ledger.files == []


def test_what_a_run_was_opened_with_is_kept_and_said(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    assert pairlog("submit", experiment_file(judges=LEVELS)).code == 0
    same = pairlog("submit", experiment_file(judges=LEVELS))
    other = experiment_file(judges=LEVELS, more="attempts: 5\nbatch: {max_requests: 4}")
    kept = [
        f"`{key}` of this file holds for new runs only; it stays as it was for {NONE} and 2 more"
        for key in ("attempts", "batch")
    ]
    for command in ("plan", "submit"):
        said = pairlog(command, other).err.splitlines()
        assert [line for line in said if "new runs only" in line] == kept
    assert "new runs only" not in same.err
    assert len(simulator.ledger.batches) == 3


class _Failing(LocalStore):
    """A store that does not take objects whose names begin so."""

    def __init__(self, root: Path, beginning: str, error: PipelineError) -> None:
        super().__init__(root)
        self._beginning = beginning
        self._error = error

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        if key.startswith(self._beginning):
            raise self._error
        super().put_stream(key, chunks)


def test_settings_that_turn_out_to_be_wrong_after_something_was_sent_stop_no_other_run(
    simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    store = _Failing(tmp_path / "store", f"requests/{LOW}/", ConfigError("access is denied"))
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulator))) as worker:
        planned = plan(str(experiment_file(judges=LEVELS)))
        runs = open_runs(worker, planned, experiment_digest=freeze(worker, planned))
        submit_all(runs)
    assert [run.failure for run in runs] == [None, "access is denied", None]
    assert len(simulator.ledger.batches) == 2


def test_a_run_that_cannot_be_opened_for_dagster_is_named_and_the_others_are_opened(
    simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    store = _Failing(tmp_path / "store", f"log/{LOW}/", StoreError("the disk is full"))
    file = experiment_file(judges=LEVELS)
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulator))) as worker:
        take_in(worker, plan(str(file)))
        runs = worker.runs(ExperimentName("essays"))
        with pytest.raises(StoreError, match=f"^{LOW}: the disk is full$"):
            raise_failures(runs)
    assert [run.state.plan is not None for run in runs] == [True, False, True]


def test_cancelling_goes_on_with_the_others_where_one_log_is_damaged_and_names_it(
    pairlog: Pairlog,
    provide: Simulate,
    experiment_file: ExperimentFile,
    tmp_path: Path,
) -> None:
    provide(latency_seconds=100_000)
    assert pairlog("submit", experiment_file(judges=LEVELS)).code == 0
    damage(tmp_path / ".pairlog", NONE)
    called = pairlog("cancel", "essays")
    assert called.code == 1
    assert "2 batches are being cancelled" in called.err
    assert f"not cancelled: {NONE}: log/{NONE}/{0:020d}.json" in called.err
    assert called.last_line == "left: 1 run could not be cancelled and may go on costing"
    assert called.err.count("asked the provider to stop batch_") == 2
    for run_id in (LOW, HIGH):
        kinds = [
            event["type"]
            for commit in json.loads(pairlog("events", run_id, "--json").out)
            for event in commit["events"]
        ]
        assert "cancel-asked" in kinds


@pytest.mark.parametrize("command", [["submit"], ["run", "--interval", "0"]])
def test_more_requests_than_allowed_are_refused_before_anything_is_written_or_sent(
    pairlog: Pairlog,
    simulator: Simulator,
    experiment_file: ExperimentFile,
    tmp_path: Path,
    command: list[str],
) -> None:
    file = experiment_file(judges=LEVELS)
    called = pairlog(*command, file, "--most-requests", "44")
    assert called.code == 2
    assert called.last_line == (
        "error: 45 requests would be sent, but --most-requests allows 44; nothing was sent. "
        "Raise it, or ask for less in the file"
    )
    assert not (tmp_path / ".pairlog").exists()
    assert simulator.ledger.batches == []
    assert pairlog(*command, file, "--most-requests", "45").code == 0


def test_only_what_nobody_asked_for_yet_counts_against_the_most_requests(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    two = LEVELS.replace(", high", "")
    assert pairlog("submit", experiment_file(judges=two), "--most-requests", "30").code == 0
    assert pairlog("submit", experiment_file(judges=two), "--most-requests", "0").code == 0
    grown = experiment_file(judges=LEVELS)
    refused = pairlog("submit", grown, "--most-requests", "14")
    assert (refused.code, "15 requests would be sent" in refused.last_line) == (2, True)
    assert pairlog("submit", grown, "--most-requests", "15").code == 0
    assert len(simulator.ledger.batches) == 3


def test_running_an_earlier_smaller_file_again_tells_of_its_own_runs_alone(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    assert pairlog("run", experiment_file(judges=LEVELS), "--interval", "0").code == 0
    called = pairlog("run", experiment_file(judges=LEVELS.replace(", high", "")), "--interval", "0")
    assert called.code == 0
    assert NONE in called.err
    assert HIGH not in called.err
    assert "1 further run is in the store but not in this file: `pairlog status essays` shows all\n" in called.err
    assert called.last_line == "every request has ended: 30 ok, 0 not"


def test_later_turns_count_against_the_most_requests(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    file = experiment_file(samples=3, more="task: conversation\nturns: ['Go on.', 'Why?']")
    refused = pairlog("submit", file, "--most-requests", "8")
    assert (refused.code, "9 requests would be sent" in refused.last_line) == (2, True)
    assert pairlog("submit", file, "--most-requests", "9").code == 0
    assert pairlog("run", file, "--most-requests", "0", "--interval", "0").code == 0


def test_what_may_have_been_created_is_told_with_what_settles_it_and_until_when(
    pairlog: Pairlog, provide: Simulate, monkeypatch: pytest.MonkeyPatch, experiment_file: ExperimentFile
) -> None:
    provide(faults=parse_faults("create.dropped=1"))
    monkeypatch.setenv("PAIRLOG_QUIET_SECONDS", "1")
    assert pairlog("submit", experiment_file()).code == 1
    said = pairlog("status").err
    assert "`pairlog resume` settles it: it is taken over if the provider has it, else sent again" in said
    assert "which it waits for until about " in said
    assert "`pairlog resume` looks for what may be at the provider" in said
    resumed = pairlog("resume", "--interval", "0.1")
    assert resumed.code == 0
    lines = [line for line in resumed.err.splitlines() if line.startswith("looks until ")]
    assert lines
    assert all(line.endswith(" UTC for what may be at the provider") for line in lines)


def test_a_run_that_another_worker_is_sending_is_told_as_such(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    store = LocalStore(tmp_path / ".pairlog")
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulator))) as other:
        assert other.leases.take("essays--default--openai--gpt-6-luna--default--forward") is not None
        called = pairlog("submit", experiment_file())
    assert called.code == 1
    assert "not sent: essays--default--openai--gpt-6-luna--default--forward: another worker is at it" in called.err
    assert simulator.ledger.creates == []
