"""Creates that land after they were given up, at a provider that shows no key of ours: found by their ids."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pipeline.events import Adopted, Submitted
from pipeline.operations.cancelling import cancel
from pipeline.operations.reading.auditing import audit_ledger
from pipeline.operations.resuming import resume
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile
from tests.flows.one_time import World
from tests.flows.studies import column, counts, rows, submitted

ANTHROPIC = "[{provider: anthropic, model: claude-haiku-5-5}]"
OPENAI = "[{provider: openai, model: gpt-6-luna}]"


@pytest.mark.parametrize("latency", [0.0, 900.0])
def test_a_create_that_lands_after_it_was_given_up_and_cancelled_is_found(
    world: Callable[..., World], experiment_file: ExperimentFile, latency: float
) -> None:
    here = world("create.late:900=1", latency)
    (run,) = submitted(here.worker, experiment_file(judges=ANTHROPIC))
    cancel(run)
    assert not resume(here.worker, [run], interval=30).is_open
    assert here.kinds(run).index("voided") < here.kinds(run).index("adopted")
    assert len(here.simulator.ledger.creates) == 1
    here.check()


def test_a_cancelled_attempt_that_never_lands_ends_after_two_quiet_periods(
    world: Callable[..., World], experiment_file: ExperimentFile
) -> None:
    here = world("create.dropped=1")
    started = here.worker.clock.monotonic()
    (run,) = submitted(here.worker, experiment_file(judges=ANTHROPIC))
    cancel(run)
    assert not resume(here.worker, [run], interval=30).is_open
    assert column(rows(here.worker), "status") == ["cancelled"] * 15
    assert 1200 <= here.worker.clock.monotonic() - started <= 1400
    here.check()


def test_a_batch_that_lands_beside_its_successor_is_waited_for_and_its_bill_is_shown(
    world: Callable[..., World], experiment_file: ExperimentFile
) -> None:
    """Nothing on this wire can stop the second payment; but it does not go unseen."""
    here = world("create.late:900=1", 1000.0)
    (run,) = submitted(here.worker, experiment_file(judges=ANTHROPIC))
    assert not resume(here.worker, [run], interval=30).is_open
    assert counts(here.worker)["ok"] == 15
    (batch,) = run.state.batches.values()
    assert {batch.remote_id, *batch.superseded} == {each.batch_id for each in here.simulator.ledger.batches}
    found = {finding.problem for finding in audit_ledger(here.worker, here.simulator.ledger.path.read_bytes())}
    assert found == {"was paid for again after its answer had been delivered"}


class Interrupted(LocalStore):
    """A way to the store on which something else happens once, just before the first rows are published."""

    def __init__(self, root: Path, meanwhile: Callable[[], object]) -> None:
        super().__init__(root)
        self._meanwhile: list[Callable[[], object]] = [meanwhile]

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        body = b"".join(chunks)
        while self._meanwhile and key.startswith("log/") and b'"rows-published"' in body:
            self._meanwhile.pop()()
        super().put_stream(key, (body,))


@pytest.mark.parametrize("judges", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("told", [Submitted, Adopted])
def test_a_create_that_is_told_of_while_cancelled_rows_are_being_published_is_followed(
    world: Callable[..., World],
    experiment_file: ExperimentFile,
    tmp_path: Path,
    judges: str,
    told: type[Submitted] | type[Adopted],
) -> None:
    here = world("create.lost=1,list.lag:86400")
    (run,) = submitted(here.worker, experiment_file(judges=judges))
    cancel(run)
    (made,) = here.simulator.ledger.batches
    while run.provider.status(made.batch_id).end is None:
        pass  # it is answered, and paid for, before its input is taken away

    def turns_up() -> None:
        (batch,) = run.refresh().batches.values()
        assert batch.phase == "cancelled"
        run.record(told(batch_id=batch.batch_id, attempt=batch.attempt, remote_id=made.batch_id))

    with here.beside(Interrupted(tmp_path / "store", turns_up)) as other:
        assert not resume(other, other.runs(run.experiment.name), interval=30).is_open
    assert column(rows(here.worker), "status") == ["ok"] * 15
    here.check()
