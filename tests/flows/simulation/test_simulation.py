"""Three workers on one store, thousands of histories: nobody pays twice, nothing paid is lost, nothing forks."""

import hashlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.operations.cancelling import cancel_all
from pipeline.operations.reading.auditing import audit
from pipeline.operations.resuming import resume, submit
from pipeline.operations.studies.opening import freeze, open_runs
from pipeline.operations.studies.plans import Plan, plan
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.storage.memory import MemoryStore
from tests.flows.simulation.scheduler import Actor, Scheduler, VirtualClock
from tests.flows.simulation.world import Client, Personality, ProbableClient, Provider, SharedStore
from tests.flows.studies import rows

QUICK = int(os.environ.get("PAIRLOG_SIMULATIONS", "60"))
QUIET = 120.0
ENVIRONMENT = {"PAIRLOG_QUIET_SECONDS": str(QUIET), "PAIRLOG_LEASE_SECONDS": "30", "PAIRLOG_PAUSE_SECONDS": "20"}


def _planned(place: Path, models: str) -> Plan:
    (place / "s.csv").write_text("id,text\n" + "".join(f"s{n},text number {n}\n" for n in range(5)))
    (place / "e.yaml").write_text(
        "name: sim\nsamples: s.csv\nattempts: 4\nbatch: {max_requests: 3}\n"
        f"judges: [{{provider: openai, model: {models}}}]\n"
    )
    return plan(str(place / "e.yaml"))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return _planned(tmp_path_factory.mktemp("study"), "gpt-6-luna")


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """The study with another model beside the first."""
    return _planned(tmp_path_factory.mktemp("grown"), "[gpt-6-luna, gpt-6-sol]")


class History:
    """One history: a seed, three workers, a store and a provider; beside them the study may grow or be cancelled."""

    def __init__(
        self, seed: int, study: Plan, personality: Personality, *, grown: Plan | None = None, is_cancelled: bool = False
    ) -> None:
        exact = personality == "exact"
        self.seed = seed
        self.study = study
        self.grown = grown
        self.is_cancelled = is_cancelled
        self.personality = personality
        self.store = MemoryStore()
        self.scheduler = Scheduler(seed, deaths=0.01, freezes=0.02, longest_freeze=QUIET * 3 if exact else QUIET / 4)
        self.provider = Provider(self.scheduler, personality, faults=0.25, quiet=QUIET)

    def run(self) -> None:
        self.scheduler.add(self._submits)
        for _ in range(2):
            self.scheduler.add(self._resumes)
        self.scheduler.add(self._colleague)
        if self.is_cancelled:
            self.scheduler.add(self._cancels)
        if self.grown:
            self.scheduler.add(self._grows)
        self.scheduler.run(successor=self._grows if self.grown else self._submits, most_deaths=4)

    def worker(self, actor: Actor) -> Worker:
        machine = random.Random(f"{self.seed} {actor.name}")
        off, up = machine.choice((0.0, 0.0, 600.0, -600.0, 86400.0, -86400.0)), machine.uniform(0.0, 1e6)
        clock = VirtualClock(actor, self.scheduler, machine=actor.name, off=off, up=up)
        worker = Worker(SharedStore(self.store, actor), clock=clock, settings=Settings(ENVIRONMENT))
        client = ProbableClient if self.personality == "probable" else Client
        worker._providers["openai"] = client(self.provider, actor)
        worker.name = worker.leases._owner = actor.name
        return worker

    def _submits(self, actor: Actor) -> None:
        self._submit(actor, self.study)

    def _grows(self, actor: Actor) -> None:
        self._person_thinks(actor)
        self._submit(actor, self.grown or self.study)

    def _submit(self, actor: Actor, study: Plan) -> None:
        worker = self.worker(actor)
        runs = open_runs(worker, study, experiment_digest=freeze(worker, study))
        for run in runs:
            submit(run)
        resume(worker, runs, interval=20.0)

    def _cancels(self, actor: Actor) -> None:
        self._person_thinks(actor)
        worker = self.worker(actor)
        for name in worker.experiment_names():
            cancel_all(worker, worker.runs(name))

    def _person_thinks(self, actor: Actor) -> None:
        actor.boundary("a person thinks", seconds=random.Random(f"{self.seed} {actor.name}").uniform(0, 2 * QUIET))

    def _resumes(self, actor: Actor) -> None:
        worker = self.worker(actor)
        for _ in range(4):
            runs = [run for name in worker.experiment_names() for run in worker.runs(name)]
            resume(worker, runs, interval=25.0)
            worker.clock.sleep(60.0)

    def _colleague(self, actor: Actor) -> None:
        """Make batches of the same sizes in the same account, of which we know nothing."""
        chance = random.Random(f"{self.seed} colleague")
        for number in range(3):
            actor.boundary("a colleague", seconds=chance.uniform(0, 2 * QUIET))
            self.provider.make_for_a_colleague(number, requests=chance.choice((1, 3)))

    def problems(self) -> list[str]:
        """Return everything that must never be, checked against the bill."""
        self.provider.settle_everything()
        worker = Worker(self.store, clock=Still(), settings=Settings({}))  # type: ignore[arg-type]
        table = rows(worker, "sim")
        ids = table.column("request_id").to_pylist()
        found = [f"{finding.key}: {finding.problem}" for finding in audit(worker, []).findings]
        asked = 20 if self.grown else 10
        if len(ids) != asked or len(set(ids)) != asked:
            found.append(f"{len(ids)} rows of {len(set(ids))} requests")
        found += [f"{name} was paid {times} times" for name, times in self.provider.billed.items() if times > 1]
        found += [f"{name} of a colleague was cancelled" for name in self.provider.cancelled_of_a_colleague()]
        found += [f"{key} was created {times} times" for key, times in self.provider.creates.items() if times > 1]
        answered = {row["request_id"] for row in table.to_pylist() if row["status"] == "ok"}
        found += [f"{name} was paid and is not in the table" for name in set(self.provider.billed) - answered]
        return found

    def fingerprint(self) -> str:
        log = b"".join(self.store.get(key) for key in self.store.list_from("log"))
        return hashlib.sha256(log + "\n".join(self.scheduler.steps).encode()).hexdigest()


class Still:
    def nonce(self) -> str:
        return "0" * 32


def check(
    seed: int, study: Plan, personality: Personality, *, grown: Plan | None = None, is_cancelled: bool = False
) -> History:
    history = History(seed, study, personality, grown=grown, is_cancelled=is_cancelled)
    history.run()
    assert history.problems() == [], f"seed {seed} {personality}"
    return history


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("personality", ["exact", "probable"])
def test_no_history_of_three_workers_pays_twice_or_loses_a_paid_answer(
    study: Plan, personality: Personality, block: int, record_property: Callable[[str, object], None]
) -> None:
    share = max(QUICK // 20, 1)
    number = block + 10 * (personality == "probable")
    for seed in range(number * share, (number + 1) * share):
        check(seed, study, personality)
    record_property(f"told: simulated histories, {personality} proof: seeds without a fault", share)


@pytest.mark.parametrize("is_grown", [False, True], ids=["cancelled", "grown"])
@pytest.mark.parametrize("personality", ["exact", "probable"])
def test_no_history_of_a_study_that_grows_or_is_cancelled_pays_twice_or_loses_a_paid_answer(
    study: Plan, grown: Plan, personality: Personality, is_grown: bool, record_property: Callable[[str, object], None]
) -> None:
    share = max(QUICK // 12, 1)
    first = 10_000 * (1 + is_grown + 2 * (personality == "probable"))
    for seed in range(first, first + share):
        check(seed, study, personality, grown=grown if is_grown else None, is_cancelled=seed % 2 == 0 or not is_grown)
    record_property(f"told: simulated histories, {personality} proof, cancelled or grown: seeds without a fault", share)


@pytest.mark.parametrize("seed", [318, 429, 539, 676, 2352, 2369, 3641])
def test_a_history_that_once_went_wrong_goes_right(study: Plan, seed: int) -> None:
    check(seed, study, "probable")


@pytest.mark.parametrize("seed", [40187])
def test_a_history_of_a_study_that_grows_that_once_went_wrong_goes_right(study: Plan, grown: Plan, seed: int) -> None:
    check(seed, study, "probable", grown=grown)


def test_equal_seeds_give_equal_histories(study: Plan) -> None:
    assert check(7, study, "exact").fingerprint() == check(7, study, "exact").fingerprint()
    assert check(7, study, "exact").fingerprint() != check(8, study, "exact").fingerprint()


def test_the_histories_are_not_all_quiet_ones(study: Plan) -> None:
    histories = [check(seed, study, "exact") for seed in range(1000, 1024)]
    log = b"".join(history.store.get(key) for history in histories for key in history.store.list_from("log"))
    for kind in (b"uncertain", b"adopted", b"voided", b"refused", b"batch-planned"):
        assert kind in log, kind
    assert sum(history.scheduler.killed for history in histories) > 5


def test_a_file_of_the_study_is_not_needed_to_go_on(study: Plan) -> None:
    assert not Path("e.yaml").exists()
    check(5000, study, "exact")
