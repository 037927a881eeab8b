"""Live runs: the same table as a batch, at a real rate, and nothing asked twice after a kill."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from threading import Thread, Timer

import pytest

from pipeline.clock import SystemClock
from pipeline.errors import StoreError
from pipeline.ids import ExperimentName
from pipeline.operations.cancelling import cancel_all
from pipeline.operations.resuming import Headway, resume
from pipeline.operations.workers.run import Notice
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import parse_faults
from pipeline.storage.local import LocalStore
from pipeline.storage.streams import LONGEST_LINE, decompressed, lines
from tests.conftest import ExperimentFile, Simulate, WorkerFor, environment
from tests.flows.listening import listening
from tests.flows.slow_way import slow_way
from tests.flows.studies import column, counts, finished, problems, rows, submitted

LIVE = "[{{provider: openai, model: gpt-6-luna, mode: live, requests_per_second: {rate}}}]"
MODERATED = b'{"error":{"message":"your input was flagged","code":"moderation"}}'
FORBIDDEN = b'{"error":{"message":"the account has no access to this model","code":"forbidden"}}'


def test_a_live_run_gives_the_same_outcomes_as_a_batch(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    worker = worker_for(simulator)
    finished(worker, experiment_file(name="batch"))
    finished(worker, experiment_file(name="live", judges=LIVE.format(rate=500)))
    outcomes = [
        {(row["first_id"], row["second_id"]): row["outcome"] for row in rows(worker, name).to_pylist()}
        for name in ("batch", "live")
    ]
    assert outcomes[0] == outcomes[1]
    assert simulator.ledger.totals.live == 15
    assert problems(worker) == []


def test_the_rate_is_kept(simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile) -> None:
    worker = worker_for(simulate())
    start = time.monotonic()
    finished(worker, experiment_file(judges=LIVE.format(rate=10)))
    assert time.monotonic() - start >= 14 / 10


def test_limits_and_passing_faults_are_waited_out(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("live.429:1=2,live.500=1,live.dropped=1"))
    worker = worker_for(simulator)
    finished(worker, experiment_file(judges=LIVE.format(rate=500)))
    assert counts(worker)["ok"] == 15
    assert simulator.ledger.totals.live == 15


def test_refusals_and_truncation_are_told_apart_live_too(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    for fault, status in (("answer.refusal", "refused"), ("answer.length", "truncated")):
        worker = worker_for(simulate(faults=parse_faults(fault)))
        finished(worker, experiment_file(name=status, judges=LIVE.format(rate=500)))
        assert counts(worker, status)[status] == 15


def test_a_key_that_is_refused_stops_the_run_and_says_so(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate(faults=parse_faults("live.401"))
    worker = worker_for(simulator)
    end = finished(worker, experiment_file(judges=LIVE.format(rate=500)))
    assert end.is_open
    assert not end.moves_by_itself
    assert "401" in end.reasons[0]


def test_a_cancel_while_the_first_batch_is_called_ends_those_behind_it_too(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    worker, other = worker_for(simulator), worker_for(simulator)
    runs = submitted(worker, experiment_file(judges=LIVE.format(rate=20), more="batch: {segments: 3}"))
    told: list[Headway] = []

    def watch(now: Headway) -> None:
        if now.answered and not told:
            cancel_all(other, other.runs(ExperimentName("essays")))
        told.append(now)
        assert len(told) < 200, "the run does not end"

    assert not resume(worker, runs, interval=0.02, watch=watch).is_open
    ended = counts(worker)
    assert ended["ok"] == simulator.ledger.totals.live < 15
    assert ended["ok"] + ended["cancelled"] == 15
    assert problems(worker) == []


@pytest.mark.parametrize("where", ["/elsewhere/v1", "/openai/nowhere"])
def test_an_address_that_is_wrong_ends_no_request(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, where: str
) -> None:
    simulator = simulate()
    end = finished(
        worker_for(simulator, OPENAI_BASE_URL=simulator.url + where), experiment_file(judges=LIVE.format(rate=500))
    )
    assert (end.counts.open, end.moves_by_itself) == (15, False)
    assert "answered 404" in end.reasons[0]
    worker = worker_for(simulator)
    assert not resume(worker, worker.runs(ExperimentName("essays")), interval=0.02).is_open
    assert simulator.ledger.totals.live == counts(worker)["ok"] == 15


def test_a_kill_loses_no_more_than_a_second(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    simulator = simulate()
    file = experiment_file(samples=20, judges=LIVE.format(rate=60))
    env = {**os.environ, **environment(simulator, PAIRLOG_STORE=str(tmp_path / "store"))}
    command = [sys.executable, "-m", "pipeline.cli", "run", str(file), "--interval", "0.1"]
    first = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while simulator.ledger.totals.live < 80 and time.monotonic() < until:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    assert 80 <= simulator.ledger.totals.live < 190
    worker = worker_for(simulator)
    assert not finished(worker, file).is_open
    assert rows(worker).num_rows == len(set(column(rows(worker), "request_id"))) == 190
    asked = Counter((entry.first, entry.second) for entry in simulator.ledger.billed())
    assert len(asked) == 190
    assert sum(asked.values()) - 190 <= 75
    assert problems(worker) == []


def test_a_refusal_of_the_account_loses_none_of_the_answers_under_way(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    with slow_way(simulator, seconds=0.4, marked=b"number 5.", refusal=FORBIDDEN) as address:
        worker = worker_for(simulator, OPENAI_BASE_URL=address)
        runs = submitted(worker, experiment_file(samples=8, judges=LIVE.format(rate=500)))
        for _ in range(3):
            end = resume(worker, runs, interval=0.01)
            assert (end.is_open, end.moves_by_itself, "403" in end.reasons[0]) == (True, False, True)
        assert simulator.ledger.totals.live == 28 - 7
    finished_at = worker_for(simulator)
    assert not resume(finished_at, finished_at.runs(runs[0].experiment.name), interval=0.01).is_open
    assert simulator.ledger.totals.live == counts(worker)["ok"] == 28
    assert problems(worker) == []


class FullForAWhile(LocalStore):
    """A store that has no room for the second of the answers' objects, so many times."""

    def __init__(self, root: Path, times: int) -> None:
        super().__init__(root)
        self._left = times
        self._taken = 0

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        is_answers = "live-" in key
        if is_answers and self._taken == 1 and self._left:
            self._left -= 1
            raise StoreError(f"{key} could not be stored: no space left on device")
        super().put_stream(key, chunks)
        self._taken += is_answers


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_store_that_is_full_for_a_while_loses_none_of_the_answers_under_way(
    simulate: Simulate,
    worker_for: WorkerFor,
    experiment_file: ExperimentFile,
    tmp_path: Path,
    *,
    interrupted: bool,
) -> None:
    told: list[str] = []

    def notify(notice: Notice) -> None:
        told.append(notice.text)
        if interrupted and "could not be stored" in notice.text and len(told) == 1:
            raise KeyboardInterrupt

    simulator = simulate()
    with slow_way(simulator, seconds=1.2) as address:
        settings = Settings(environment(simulator, OPENAI_BASE_URL=address))
        store = FullForAWhile(tmp_path / "store", times=3)
        with Worker(store, clock=SystemClock(), settings=settings, notify=notify) as worker:
            runs = submitted(worker, experiment_file(samples=16, judges=LIVE.format(rate=40)))
            with contextlib.suppress(KeyboardInterrupt):
                resume(worker, runs, interval=0.01, once=True)
            assert simulator.ledger.totals.live < 120
            assert sum("could not be stored" in text for text in told) == 3
    worker = worker_for(simulator)
    assert not resume(worker, worker.runs(runs[0].experiment.name), interval=0.01).is_open
    assert simulator.ledger.totals.live == counts(worker)["ok"] == 120
    assert problems(worker) == []


class Doubtful(LocalStore):
    """A store that keeps each of the answers' objects and says at the first try that it does not."""

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        super().put_stream(key, chunks)
        if "live-" in key:
            raise StoreError(f"cannot create {key}: the folder could not be synced")


def test_answers_that_were_stored_although_the_store_denied_it_are_not_stored_again(
    simulate: Simulate, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    simulator = simulate()
    store = Doubtful(tmp_path / "store")
    with Worker(store, clock=SystemClock(), settings=Settings(environment(simulator))) as worker:
        runs = submitted(worker, experiment_file(judges=LIVE.format(rate=40)))
        assert not resume(worker, runs, interval=0.01).is_open
        assert problems(worker) == []
    kept = [key for key in store.list_from("outputs") if "live-" in key]
    answers = [line for key in kept for line in lines(decompressed(BytesIO(store.get(key)), key=key)) if line]
    assert len(answers) == simulator.ledger.totals.live == 15


class Hangs(LocalStore):
    """A store that takes seconds over the first of the answers' objects."""

    def __init__(self, root: Path, seconds: float) -> None:
        super().__init__(root)
        self._seconds = seconds

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        if "live-" in key:
            seconds, self._seconds = self._seconds, 0.0
            time.sleep(seconds)
        super().put_stream(key, chunks)


def test_a_worker_that_hangs_past_its_lease_begins_no_calls_that_another_makes(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    simulator = simulate()
    settings = Settings(environment(simulator, PAIRLOG_LEASE_SECONDS="1"))
    with Worker(Hangs(tmp_path / "store", 4.0), clock=SystemClock(), settings=settings) as hangs:
        runs = submitted(hangs, experiment_file(samples=20, judges=LIVE.format(rate=50)))
        first = Thread(target=lambda: resume(hangs, runs, interval=0.1))
        first.start()
        while simulator.ledger.totals.live == 0:
            time.sleep(0.01)
        other = worker_for(simulator, PAIRLOG_LEASE_SECONDS="1")
        assert not resume(other, other.runs(runs[0].experiment.name), interval=0.1).is_open
        first.join()
    assert simulator.ledger.totals.live <= 190 + 60
    assert counts(other)["ok"] == 190
    assert problems(other) == []


def test_a_prompt_refused_for_its_content_ends_its_own_rows_only(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    with slow_way(simulator, seconds=0.0, marked=b"number 5.", refusal=MODERATED) as address:
        worker = worker_for(simulator, OPENAI_BASE_URL=address)
        assert not finished(worker, experiment_file(samples=8, judges=LIVE.format(rate=500))).is_open
    assert (counts(worker)["ok"], counts(worker)["errored"]) == (21, 7)
    assert simulator.ledger.totals.live == 21


def test_an_answer_that_does_not_end_is_asked_for_once_and_ends_its_own_rows_only(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    endless = b'{"choices":[{"message":{"content":"%s"}}]}' % (b"x" * LONGEST_LINE)
    with slow_way(simulator, seconds=0.0, marked=b"number 5.", refusal=endless, status=200) as address:
        worker = worker_for(simulator, OPENAI_BASE_URL=address)
        runs = submitted(worker, experiment_file(samples=8, judges=LIVE.format(rate=500)))
        assert not resume(worker, runs, interval=0.01, once=True).is_open
    assert (counts(worker)["ok"], counts(worker)["errored"]) == (21, 7)
    assert set(column(rows(worker), "reason")) == {None, "answer_too_large"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_loses_none_of_the_answers_under_way(
    simulate: Simulate,
    worker_for: WorkerFor,
    experiment_file: ExperimentFile,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    simulator = simulate()
    file = experiment_file(samples=20, judges=LIVE.format(rate=30))
    with slow_way(simulator, seconds=0.5) as address:
        env = os.environ | environment(simulator, PAIRLOG_STORE=str(tmp_path / "store"), OPENAI_BASE_URL=address)
        command = [sys.executable, "-m", "pipeline.cli", "run", str(file), "--interval", "0.1"]
        first = subprocess.Popen(
            command,
            env=env,
            stderr=subprocess.DEVNULL,
            preexec_fn=listening,  # noqa: PLW1509 - nothing else of this process is touched
        )
        until = time.monotonic() + 60
        while simulator.ledger.totals.live < 60 and time.monotonic() < until:
            time.sleep(0.01)
        first.send_signal(number)
        assert first.wait() == 1
    assert 60 <= simulator.ledger.totals.live < 190
    worker = worker_for(simulator)
    assert not finished(worker, file).is_open
    assert simulator.ledger.totals.live == counts(worker)["ok"] == 190
    assert problems(worker) == []


@pytest.mark.usefixtures("interruptible")
def test_a_worker_that_is_interrupted_goes_on_from_what_it_stored(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    with slow_way(simulator, seconds=0.7) as address:
        worker = worker_for(simulator, OPENAI_BASE_URL=address)
        runs = submitted(worker, experiment_file(samples=10, judges=LIVE.format(rate=20)))
        Timer(1.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            resume(worker, runs, interval=0.01)
        assert 0 < simulator.ledger.totals.live < 45
        assert not resume(worker, runs, interval=0.01).is_open
    assert simulator.ledger.totals.live == counts(worker)["ok"] == 45


def test_answers_are_counted_as_they_are_stored(
    simulate: Simulate, worker_for: WorkerFor, experiment_file: ExperimentFile
) -> None:
    worker = worker_for(simulate())
    runs = submitted(worker, experiment_file(judges=LIVE.format(rate=10)))
    seen: list[tuple[int, int]] = []
    end = resume(worker, runs, interval=0, watch=lambda now: seen.append((now.counts.ended, now.answered)))
    assert (end.counts.ok, end.answered) == (15, 0)
    under_way = [answered for ended, answered in seen if ended == 0]
    assert 0 < under_way[0] < 15
    assert under_way == sorted(under_way)
