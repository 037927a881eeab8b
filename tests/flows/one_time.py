"""Workers and a simulator that live in the same time, which passes only when one of them sleeps: hours in a second."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import httpx

from pipeline.clock import FixedClock
from pipeline.operations.reading.auditing import audit_ledger
from pipeline.operations.workers.run import Notice, Run
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator, SimulatorSettings, environment, parse_faults
from pipeline.storage.local import LocalStore
from pipeline.storage.log import read_commits
from tests.flows.studies import problems, rows


class AnotherMachine:
    """The same time on a machine that was started at another moment and whose wall clock is off."""

    def __init__(self, clock: FixedClock, off: float, boot: str) -> None:
        self._clock = clock
        self._off = timedelta(seconds=off)
        self._boot = boot

    def now(self) -> datetime:
        return self._clock.now() + self._off

    def monotonic(self) -> float:
        return self._clock.monotonic() + 1e6

    def boot(self) -> str:
        return self._boot

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def nonce(self) -> str:
        return self._clock.nonce()


class World:
    """A worker and a simulator, and room for others."""

    def __init__(self, store: LocalStore, faults: str, latency: float) -> None:
        self.clock = FixedClock(datetime(2026, 11, 16, 9, tzinfo=UTC))
        settings = SimulatorSettings(faults=parse_faults(faults), latency_seconds=latency)
        self.simulator = Simulator(settings, self.clock)
        self.simulator.__enter__()
        self._store = store
        self._beside: list[Worker] = []
        self.worker = self.beside()

    def beside(
        self,
        store: LocalStore | None = None,
        *,
        off: float | None = None,
        boot: str = "another",
        transport: httpx.BaseTransport | None = None,
        notify: Callable[[Notice], None] = lambda _: None,
        **more: str,
    ) -> Worker:
        """Return another worker in the same time; on another machine if its clock is said to be `off`."""
        worker = Worker(
            store or self._store,
            clock=self.clock if off is None else AnotherMachine(self.clock, off, boot),
            settings=Settings({**environment(self.simulator.url), **more}),
            transport=transport,
            notify=notify,
        )
        self._beside.append(worker)
        return worker

    def close(self) -> None:
        for worker in self._beside:
            worker.close()
        self.simulator.__exit__(None, None, None)

    def kinds(self, run: Run) -> list[str]:
        commits = read_commits(self.worker.store, run.run_id)
        return [str(event.__struct_config__.tag) for commit, _ in commits for event in commit.events]

    def check(self) -> None:
        """Whatever was billed is in the table, and the log knows every batch that was made."""
        ledger = self.simulator.ledger
        table = rows(self.worker)
        answered = {row["request_id"] for row in table.to_pylist() if row["status"] == "ok"}
        assert {entry.custom_id for entry in ledger.billed() if entry.delivered} == answered
        assert [finding.problem for finding in audit_ledger(self.worker, ledger.path.read_bytes())] == []
        assert problems(self.worker) == []
