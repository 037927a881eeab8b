"""Hypothesis drives two workers through the protocol: it chooses who moves, when one dies, and how time passes."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline.folding import fold
from pipeline.ids import BatchId
from pipeline.operations.cancelling import cancel
from pipeline.operations.reading.auditing import audit
from pipeline.operations.resuming import advance, headway
from pipeline.operations.studies.opening import freeze, open_runs
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.state import RunState
from pipeline.storage.log import read_commits
from pipeline.storage.memory import MemoryStore
from tests.flows.simulation.scheduler import KilledError, Scheduler, VirtualClock
from tests.flows.simulation.test_simulation import ENVIRONMENT, QUIET, Still
from tests.flows.simulation.world import Client, Provider, SharedStore
from tests.flows.studies import rows

_STUDY = Path(tempfile.mkdtemp(prefix="pairlog-machine-"))
(_STUDY / "s.csv").write_text("id,text\n" + "".join(f"s{n},text number {n}\n" for n in range(4)))
(_STUDY / "e.yaml").write_text(
    "name: sim\nsamples: s.csv\nbatch: {max_requests: 4}\njudges: [{provider: openai, model: gpt-6-luna}]\n"
)
PLAN = plan(str(_STUDY / "e.yaml"))


class Fuse:
    """Stands in for a scheduled worker: passes its boundaries until it burns out."""

    def __init__(self, scheduler: Scheduler, length: int) -> None:
        self._scheduler = scheduler
        self._left = length

    def boundary(self, name: str, *, seconds: float = 0.0) -> None:
        self._scheduler.now += seconds
        self._left -= 1
        if self._left < 0:
            raise KilledError(name)


class Protocol(RuleBasedStateMachine):
    """The model is the bill: whatever was executed and told is in the table once, and nothing was paid twice."""

    @initialize(seed=st.integers(0, 2**20))
    def begin(self, seed: int) -> None:
        self.store = MemoryStore()
        self.scheduler = Scheduler(seed, deaths=0, freezes=0, longest_freeze=0)
        self.provider = Provider(self.scheduler, "exact", faults=0.3, quiet=QUIET)
        self.cancelled = False
        self.phases: dict[BatchId, str] = {}
        with_all = self.worker(10_000)
        open_runs(with_all, PLAN, experiment_digest=freeze(with_all, PLAN))

    def worker(self, length: int) -> Worker:
        fuse = Fuse(self.scheduler, length)
        clock = VirtualClock(fuse, self.scheduler)  # type: ignore[arg-type]
        worker = Worker(SharedStore(self.store, fuse), clock=clock, settings=Settings(ENVIRONMENT))  # type: ignore[arg-type]
        worker._providers["openai"] = Client(self.provider, fuse)  # type: ignore[arg-type]
        worker.name = worker.leases._owner = self.scheduler.nonce()
        return worker

    @rule(length=st.integers(1, 60))
    def a_worker_moves_and_may_die(self, length: int) -> None:
        try:
            for run in self.worker(length).runs(PLAN.experiment.name):
                advance(run)
        except KilledError:
            self.scheduler.now += 1.0

    @rule(seconds=st.sampled_from([1.0, 31.0, QUIET + 1, 500.0]))
    def time_passes(self, seconds: float) -> None:
        self.scheduler.now += seconds

    @precondition(lambda self: not self.cancelled)
    @rule(length=st.integers(1, 40))
    def a_person_cancels(self, length: int) -> None:
        self.cancelled = True
        try:
            for run in self.worker(length).runs(PLAN.experiment.name):
                cancel(run)
        except KilledError:
            self.scheduler.now += 1.0

    def state(self) -> RunState:
        (config,) = PLAN.experiment.runs
        commits = [commit for commit, _ in read_commits(self.store, config.run_id)]
        return fold(RunState(run_id=config.run_id), commits)

    @invariant()
    def what_has_ended_stays_ended_and_everything_is_counted(self) -> None:
        if not hasattr(self, "store"):
            return
        state = self.state()
        for batch_id, phase in self.phases.items():
            assert phase != "published" or state.batches[batch_id].phase == "published"
        self.phases = {batch_id: batch.phase for batch_id, batch in state.batches.items()}
        assert 0 <= state.counts.open <= state.counts.planned == 6
        assert all(times <= 1 for times in self.provider.creates.values())

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        worker = self.worker(1_000_000)
        runs = worker.runs(PLAN.experiment.name)
        for _ in range(400):
            for run in runs:
                advance(run)
            self.scheduler.now += 31.0
            if not headway(runs).is_open:
                break
        else:
            raise AssertionError("never ended")
        self.provider.settle_everything()
        reader = Worker(self.store, clock=Still(), settings=Settings({}))  # type: ignore[arg-type]
        table = rows(reader, "sim")
        assert sorted(set(table.column("request_id").to_pylist())) == sorted(table.column("request_id").to_pylist())
        assert table.num_rows == 6
        assert audit(reader, []).findings == ()
        assert [name for name, times in self.provider.billed.items() if times > 1] == []
        told = {row["request_id"] for row in table.to_pylist() if row["status"] == "ok"}
        assert set(self.provider.billed) <= told


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(max_examples=40, stateful_step_count=25, deadline=None, derandomize=True)
