"""Two files under one new name at the same time: one is judged and paid for, the other is refused and sends nothing.

One file twice at the same time is one study.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from pipeline.clock import SystemClock
from pipeline.errors import ConfigError
from pipeline.ids import digest
from pipeline.operations.resuming import resume, submit
from pipeline.operations.studies.opening import open_runs
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from pipeline.storage import keys
from pipeline.storage.local import LocalStore
from pipeline.storage.origin import origin_of
from tests.conftest import environment
from tests.flows.studies import check_against_ledger, counts, submitted

Submit = Callable[[], object]
TWO_JUDGES = "[{provider: openai, model: gpt-6-luna, reasoning: [none, low]}]"


class _Meanwhile(LocalStore):
    """A store on which somebody else does something before the first object of this kind is written."""

    def __init__(self, root: Path, kind: str, act: Submit) -> None:
        super().__init__(root)
        self._kind = kind
        self._act: Submit | None = act

    def _others(self, key: str) -> None:
        if key.startswith(self._kind) and self._act is not None:
            act, self._act = self._act, None
            act()

    def put_new(self, key: str, body: bytes) -> None:
        self._others(key)
        super().put_new(key, body)

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        self._others(key)
        super().put_stream(key, chunks)


@pytest.mark.parametrize("kind", ["origin.json", "samples/", "experiments/"])
@pytest.mark.parametrize("salt", range(3))
def test_the_second_of_two_files_is_refused_and_the_first_one_is_judged(
    simulate: Callable[..., Simulator],
    store: LocalStore,
    experiment_file: Callable[..., Path],
    tmp_path: Path,
    kind: str,
    salt: int,
) -> None:
    simulator = simulate()
    settings = Settings(environment(simulator))
    mine = experiment_file(judges=TWO_JUDGES, more=f"criterion: {{name: q{salt}, description: one thing}}")
    other = tmp_path / "other.yaml"
    more = mine.read_text(encoding="utf-8").replace("one thing", "another").replace("[none, low]", "[none, low, high]")
    other.write_text(more, encoding="utf-8")
    with Worker(store, clock=SystemClock(), settings=settings) as first:
        slow = _Meanwhile(tmp_path / "store", kind, lambda: submitted(first, mine))
        with (
            Worker(slow, clock=SystemClock(), settings=settings) as second,
            pytest.raises(ConfigError, match="description"),
        ):
            submitted(second, other)
    with Worker(store, clock=SystemClock(), settings=settings) as third:
        assert not resume(third, third.runs(third.experiment_names()[0]), interval=0.01).is_open
        assert counts(third)["ok"] == counts(third)["planned"] == simulator.ledger.totals.requests == 30
        check_against_ledger(third, simulator.ledger)


@pytest.mark.parametrize("kind", ["origin.json", "samples/", "experiments/"])
def test_two_who_meet_in_a_new_store_with_one_file_work_on_one_study(
    simulate: Callable[..., Simulator],
    store: LocalStore,
    experiment_file: Callable[..., Path],
    tmp_path: Path,
    kind: str,
) -> None:
    simulator, file = simulate(), experiment_file()
    settings = Settings(environment(simulator))
    with Worker(store, clock=SystemClock(), settings=settings) as first:
        slow = _Meanwhile(tmp_path / "store", kind, lambda: submitted(first, file))
        with Worker(slow, clock=SystemClock(), settings=settings) as second:
            (run,) = submitted(second, file)
            assert len(second.experiments(run.experiment.name)) == 1
            assert run.config.origin == origin_of(store, SystemClock())
            assert not resume(second, [run], interval=0.01).is_open
            assert counts(second)["ok"] == simulator.ledger.totals.requests == 15
            check_against_ledger(second, simulator.ledger)


def submitted_without_origin(worker: Worker, file: Path) -> None:
    """Submit as versions did that knew of no origin, into a store that has the material."""
    planned = plan(str(file), worker=worker)
    body = msgspec.json.encode(planned.experiment, order="sorted")
    worker.store.put_new(keys.experiment(planned.experiment.name, digest(body)), body)
    for run in open_runs(worker, planned, experiment_digest=digest(body)):
        submit(run)


@pytest.mark.parametrize("kind", ["experiments/", "log/"])
def test_who_meets_an_earlier_version_in_a_new_store_works_on_its_study(
    simulate: Callable[..., Simulator],
    store: LocalStore,
    experiment_file: Callable[..., Path],
    tmp_path: Path,
    kind: str,
) -> None:
    simulator, file = simulate(), experiment_file()
    settings = Settings(environment(simulator))
    with Worker(store, clock=SystemClock(), settings=settings) as earlier:
        slow = _Meanwhile(tmp_path / "store", kind, lambda: submitted_without_origin(earlier, file))
        with Worker(slow, clock=SystemClock(), settings=settings) as worker:
            assert not resume(worker, submitted(worker, file), interval=0.01).is_open
            assert counts(worker)["ok"] == simulator.ledger.totals.requests == 15
            check_against_ledger(worker, simulator.ledger)
