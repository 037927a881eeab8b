"""What a person settles by hand: held and uncertain batches that are adopted or voided, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.operations.batches.settling import adopt_by_hand, void_by_hand
from pipeline.operations.cancelling import cancel
from pipeline.operations.resuming import resume
from tests.flows.one_time import World
from tests.flows.studies import column, only_batch, rows, submitted

Worlds = Callable[..., World]
ExperimentFile = Callable[..., Path]


def test_nobody_voids_by_hand_what_may_be_on_its_way(world: Worlds, experiment_file: ExperimentFile) -> None:
    here = world("create.late:60=1")
    (run,) = submitted(here.worker, experiment_file(judges="[{provider: anthropic, model: claude-haiku-5-5}]"))
    with pytest.raises(ConfigError, match="may still be on its way"):
        void_by_hand(run, only_batch(run))
    other = here.beside(ANTHROPIC_API_KEY="sk-ant-another")
    (strange,) = other.runs(run.experiment.name)
    with pytest.raises(ConfigError, match=r"another key.*pairlog void .* --force"):
        void_by_hand(strange, only_batch(strange))
    assert not resume(here.worker, [run], interval=10).is_open
    here.check()


@pytest.mark.parametrize("cancelled", [False, True])
def test_what_a_key_that_is_no_more_may_have_made_can_be_settled_by_force(
    world: Worlds, experiment_file: ExperimentFile, *, cancelled: bool
) -> None:
    here = world("create.dropped=1")
    submitted(here.beside(OPENAI_API_KEY="sk-old"), experiment_file())
    (run,) = here.worker.runs(here.worker.experiment_names()[0])
    assert resume(here.worker, [run], interval=60).is_open
    if cancelled:
        cancel(run)
        assert "--force" in str(run.trouble)
    void_by_hand(run, only_batch(run), force=True)
    assert not resume(here.worker, [run], interval=60).is_open
    assert column(rows(here.worker), "status") == ["cancelled" if cancelled else "ok"] * 15
    here.check()


def test_what_is_held_for_good_can_be_settled_by_force(world: Worlds, experiment_file: ExperimentFile) -> None:
    here = world("download.404")
    (run,) = submitted(here.worker, experiment_file())
    assert resume(here.worker, [run], interval=600).is_open
    held = only_batch(run)
    with pytest.raises(ConfigError, match="--force"):
        void_by_hand(run, held)
    here.simulator.engine.faults.replace({})
    void_by_hand(run, held, force=True)
    assert not resume(here.worker, [run], interval=60).is_open
    assert column(rows(here.worker), "status") == ["ok"] * 15


def test_a_person_may_adopt_what_had_been_put_aside(world: Worlds, experiment_file: ExperimentFile) -> None:
    here = world("download.404")
    (run,) = submitted(here.worker, experiment_file())
    resume(here.worker, [run], interval=600)
    held = only_batch(run)
    here.simulator.engine.faults.replace({})
    adopt_by_hand(run, held, str(held.remote_id))
    assert not resume(here.worker, [run], interval=60).is_open
    assert len(here.simulator.ledger.creates) == 1
    here.check()


@pytest.mark.parametrize(
    ("judges", "short"),
    [
        ("[{provider: gemini, model: gemini-3.8-flash}]", "{last}"),
        ("[{provider: gemini, model: gemini-3.8-flash}]", "../batches/{last}"),
        ("[{provider: vertex, model: gemini-3.8-flash}]", "{last}"),
    ],
)
def test_a_batch_may_be_adopted_under_the_short_form_of_its_name(
    world: Worlds, experiment_file: ExperimentFile, judges: str, short: str
) -> None:
    here = world("create.lost=1")
    (run,) = submitted(here.worker, experiment_file(judges=judges))
    (made,) = here.simulator.ledger.creates
    adopt_by_hand(run, only_batch(run), short.format(last=made.batch_id.rpartition("/")[2]))
    assert not resume(here.worker, [run], interval=600, once=True).is_open
    here.check()
