"""When a cancelled batch has ended: at once where its provider tells that nothing was answered, else after a wait."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from pipeline.operations.cancelling import cancel
from pipeline.operations.reading.reporting import status
from pipeline.operations.resuming import Headway, resume
from tests.conftest import ExperimentFile
from tests.flows.one_time import World
from tests.flows.studies import column, only_batch, rows, submitted
from tests.flows.test_late_files import Early, Shown

Worlds = Callable[..., World]
GEMINI = "[{provider: gemini, model: gemini-3-flash}]"
DAY = 86_400.0
QUIET = 600.0


def told(batch: Shown, *counts: str) -> Shown:
    """The batch with no other counts than these."""
    stats = batch["metadata"].get("batchStats", {})
    return {**batch, "metadata": {**batch["metadata"], "batchStats": {name: stats[name] for name in counts}}}


@pytest.mark.parametrize("has_run", [False, True])
def test_a_cancelled_batch_of_which_every_request_is_said_to_wait_has_ended(
    world: Worlds, experiment_file: ExperimentFile, has_run: bool
) -> None:
    here = world("cancel.share=1.0" if has_run else "", DAY)
    (run,) = submitted(here.worker, experiment_file(judges=GEMINI))
    if has_run:
        here.clock.sleep(DAY / 2)
        resume(here.worker, [run], interval=60, once=True)
    cancel(run)
    here.clock.sleep(DAY)
    began = here.clock.monotonic()
    assert not resume(here.worker, [run], interval=60).is_open
    assert here.clock.monotonic() - began < QUIET
    assert column(rows(here.worker), "status") == ["cancelled"] * 15
    here.check()


def test_what_a_cancelled_batch_may_still_show_is_waited_for_and_it_is_said_until_when(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here = world("", DAY)
    worker = here.beside(transport=Early(lambda _: None, always=lambda batch: told(batch, "requestCount")))
    (run,) = submitted(worker, experiment_file(judges=GEMINI))
    cancel(run)
    here.clock.sleep(DAY)
    seen: list[Headway] = []
    until = here.clock.now() + timedelta(seconds=3 * QUIET)
    resume(worker, [run], interval=60, once=True, watch=seen.append)
    (shown,) = status(worker, [run.experiment.name]).experiments[0].runs[0].batches
    assert only_batch(run).awaits_files
    assert (seen[-1].files, shown.files_until) == (until, until)
    assert shown.note == (
        "the provider calls it cancelled and shows no answers; they are waited for until about "
        f"{until:%H:%M:%S} UTC, since they would be paid for"
    )
    assert not resume(worker, [run], interval=60).is_open
    assert timedelta() <= here.clock.now() - until <= timedelta(seconds=120)
    here.check()
