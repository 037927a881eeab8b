"""Every provider through the whole engine: the same table from all, and one bill whatever happens to a create."""

from pathlib import Path

import httpx
import pyarrow.compute as pc
import pytest

from pipeline import providers
from pipeline.clock import SystemClock
from pipeline.ids import ExperimentName
from pipeline.operations.reading.auditing import audit_ledger
from pipeline.operations.resuming import resume
from pipeline.operations.workers.worker import Worker
from pipeline.ranking import RankingOptions, Unrankable, rank
from pipeline.settings import Settings
from pipeline.simulator import Simulator, parse_faults
from pipeline.storage import Store
from pipeline.storage.local import LocalStore
from pipeline.storage.memory import MemoryStore
from tests.conftest import ExperimentFile, Simulate
from tests.contracts.trials import ADAPTERS
from tests.flows.studies import check_against_ledger, column, counts, finished, only_batch, problems, rows, submitted

BATCH = [name for name in providers.names() if "batch" in providers.module(name).MODES]
LIVE = [name for name in providers.names() if "live" in providers.module(name).MODES]
PACE = {"PAIRLOG_QUIET_SECONDS": "0.4", "PAIRLOG_PAUSE_SECONDS": "0.05", "PAIRLOG_LEASE_SECONDS": "5"}


def a_worker(store: Store, simulator: Simulator, *names: str, **more: str) -> Worker:
    environment = dict(PACE)
    for name in names:
        adapter = ADAPTERS[name]
        environment |= {**adapter.offline, **adapter.environment(simulator)}
    return Worker(store, clock=SystemClock(), settings=Settings(environment | more))


def a_judge(name: str, mode: str = "batch") -> str:
    rate = ", requests_per_second: 300" if mode == "live" else ""
    return f'{{provider: {name}, model: "{ADAPTERS[name].model}", mode: {mode}{rate}}}'


def test_one_grid_of_all_providers_gives_one_table_with_the_hidden_order(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    qualities = {f"The text that has number {number}.": float(number) for number in range(6)}
    simulator = simulate(qualities=qualities, sharpness=6.0)
    judges = [a_judge(name) for name in BATCH] + [a_judge(name, "live") for name in LIVE]
    with a_worker(store, simulator, *{*BATCH, *LIVE}) as worker:
        finished(worker, experiment_file(judges=f"[{', '.join(judges)}]"))
        table = rows(worker)
        assert table.num_rows == 15 * len(judges)
        assert set(column(table, "status")) == {"ok"}
        assert {count > 0 for count in column(table, "input_tokens")} == {True}
        for run in set(column(table, "run_id")):
            found = rank(table.filter(pc.equal(table.column("run_id").cast("string"), run)), RankingOptions())
            assert not isinstance(found, Unrankable)
            assert [standing.contestant for standing in found.standings] == ["s5", "s4", "s3", "s2", "s1", "s0"], run
        assert simulator.ledger.paid_twice() == []
        assert problems(worker) == []


@pytest.mark.parametrize("fault", ["create.504_applied=1", "create.lost=1", "create.dropped=1", "create.html=1"])
@pytest.mark.parametrize("name", BATCH)
def test_a_create_whose_answer_is_lost_is_paid_once(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, name: str, fault: str
) -> None:
    simulator = simulate(faults=parse_faults(fault))
    with a_worker(store, simulator, name) as worker:
        finished(worker, experiment_file(judges=f"[{a_judge(name)}]"))
        assert counts(worker)["ok"] == 15
        assert simulator.ledger.totals.requests == 15
        check_against_ledger(worker, simulator.ledger)


@pytest.mark.parametrize("name", ["openai", "together"])
def test_a_create_that_is_applied_after_it_was_given_up_finds_its_input_gone(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, name: str
) -> None:
    simulator = simulate(latency_seconds=1.5, faults=parse_faults("create.late:1.0=1"))
    with a_worker(store, simulator, name) as worker:
        finished(worker, experiment_file(judges=f"[{a_judge(name)}]"), interval=0.05)
        assert simulator.ledger.totals.requests == counts(worker)["ok"] == 15
        check_against_ledger(worker, simulator.ledger)


@pytest.mark.parametrize(
    ("name", "place", "elsewhere"),
    [("vertex", "GOOGLE_CLOUD_LOCATION", "europe-west4"), ("bedrock", "AWS_REGION", "eu-west-1")],
)
def test_what_was_created_in_one_region_is_not_sent_again_from_another(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, name: str, place: str, elsewhere: str
) -> None:
    simulator = simulate(faults=parse_faults("create.lost=1"))
    with a_worker(store, simulator, name) as worker:
        submitted(worker, experiment_file(judges=f"[{a_judge(name)}]"))
    with a_worker(store, simulator, name, **{place: elsewhere}) as worker:
        end = resume(worker, worker.runs(ExperimentName("essays")), interval=0.1)
        assert len(simulator.ledger.batches) == 1
        assert "in another region" in end.reasons[0]
    with a_worker(store, simulator, name) as worker:
        assert not resume(worker, worker.runs(ExperimentName("essays")), interval=0.1).is_open
        assert simulator.ledger.totals.requests == counts(worker)["ok"] == 15
        check_against_ledger(worker, simulator.ledger)


def test_what_runs_in_one_region_is_neither_lost_nor_made_again_from_another(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator, name = simulate(latency_seconds=0.3), "bedrock"
    with a_worker(store, simulator, name) as worker:
        submitted(worker, experiment_file(judges=f"[{a_judge(name)}]"))
    with a_worker(store, simulator, name, AWS_REGION="eu-west-1") as worker:
        end = resume(worker, worker.runs(ExperimentName("essays")), interval=0.1)
        assert (len(simulator.ledger.batches), end.counts.open) == (1, 15)
        assert "in another region" in end.reasons[0]
    with a_worker(store, simulator, name) as worker:
        assert not resume(worker, worker.runs(ExperimentName("essays")), interval=0.1).is_open
        assert simulator.ledger.totals.requests == counts(worker)["ok"] == 15
        check_against_ledger(worker, simulator.ledger)


@pytest.mark.parametrize(("name", "key"), [("openai", "OPENAI_API_KEY"), ("bedrock", "AWS_ACCESS_KEY_ID")])
def test_what_was_created_with_a_key_that_was_replaced_since_is_found_by_our_own(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, name: str, key: str
) -> None:
    simulator = simulate(faults=parse_faults("create.lost=1"))
    with a_worker(store, simulator, name, **{key: "replaced-since"}) as worker:
        submitted(worker, experiment_file(judges=f"[{a_judge(name)}]"))
    with a_worker(store, simulator, name) as worker:
        assert not resume(worker, worker.runs(ExperimentName("essays")), interval=0.1).is_open
        assert simulator.ledger.totals.requests == counts(worker)["ok"] == 15
        check_against_ledger(worker, simulator.ledger)


def test_several_candidates_without_a_key_wait_until_their_ids_tell(
    simulate: Simulate, store: LocalStore, tmp_path: Path, experiment_file: ExperimentFile
) -> None:
    """Another pipeline makes a batch of the same size in the same account while our create is uncertain."""
    simulator = simulate(latency_seconds=1.0)
    with (
        a_worker(store, simulator, "anthropic") as ours,
        a_worker(LocalStore(tmp_path / "other"), simulator, "anthropic") as theirs,
    ):
        simulator.engine.faults.replace(parse_faults("create.lost=2"))
        judges = f"[{a_judge('anthropic')}]"
        theirs_runs = submitted(theirs, experiment_file(name="other", judges=judges))
        ours_runs = submitted(ours, experiment_file(judges=judges))
        assert len(simulator.ledger.batches) == 2
        assert {batch.phase for run in ours_runs for batch in run.state.batches.values()} == {"uncertain"}
        for worker, runs, name in ((ours, ours_runs, "essays"), (theirs, theirs_runs, "other")):
            resume(worker, runs, interval=0.1)
            assert counts(worker, name)["ok"] == 15
        assert simulator.ledger.totals.requests == 30
        assert simulator.ledger.cancels == []
        assert simulator.ledger.paid_twice() == []


@pytest.mark.parametrize("name", BATCH)
def test_the_same_study_in_two_stores_is_read_by_each_from_its_own_batch(
    simulate: Simulate, store: LocalStore, tmp_path: Path, experiment_file: ExperimentFile, name: str
) -> None:
    simulator = simulate(latency_seconds=1.0, faults=parse_faults("create.lost=2"))
    file = experiment_file(judges=f"[{a_judge(name)}]")
    with (
        a_worker(store, simulator, name) as ours,
        a_worker(LocalStore(tmp_path / "other"), simulator, name) as theirs,
    ):
        opened = [(worker, submitted(worker, file)) for worker in (ours, theirs)]
        billed: dict[str, set[str]] = {}
        for worker, runs in opened:
            resume(worker, runs, interval=0.1)
            assert counts(worker)["ok"] == 15
        for entry in simulator.ledger.billed():
            billed.setdefault(str(entry.batch_id), set()).add(str(entry.custom_id))
        remote = {batch.remote_id: batch.batch_id for batch in simulator.ledger.batches}
        followed = [str(only_batch(run).remote_id) for _, runs in opened for run in runs]
        assert sorted(followed) == sorted(remote)
        for (worker, _), remote_id in zip(opened, followed, strict=True):
            assert set(column(rows(worker), "request_id")) == billed[remote[remote_id]]
            assert problems(worker) == []
        assert simulator.ledger.totals.requests == 30
        assert simulator.ledger.paid_twice() == []


@pytest.mark.parametrize("name", BATCH)
def test_the_ledger_and_the_log_call_a_batch_by_the_same_name(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile, name: str
) -> None:
    simulator = simulate()
    with a_worker(store, simulator, name) as worker, a_worker(MemoryStore(), simulator, name) as stranger:
        finished(worker, experiment_file(judges=f"[{a_judge(name)}]", more="batch: {segments: 2}"))
        for ledger in (
            simulator.ledger.path.read_bytes(),
            httpx.get(f"{simulator.url}/simulator/ledger").content,
        ):
            assert audit_ledger(worker, ledger) == []
            assert len(audit_ledger(stranger, ledger)) == 2


def test_a_batch_that_failed_whole_and_was_made_again_is_known_to_the_log(
    simulate: Simulate, store: LocalStore, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("run.token_limit=1"))
    with a_worker(store, simulator, "openai") as worker:
        finished(worker, experiment_file(judges=f"[{a_judge('openai')}]"))
        assert len(simulator.ledger.batches) == 2
        assert audit_ledger(worker, simulator.ledger.path.read_bytes()) == []
