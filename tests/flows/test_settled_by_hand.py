"""What a person settles by hand: held and uncertain batches that are adopted or voided, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from pipeline.errors import ConfigError
from pipeline.operations.batches.settling import adopt_by_hand, void_by_hand
from pipeline.operations.cancelling import cancel
from pipeline.operations.resuming import resume
from pipeline.simulator import parse_faults
from pipeline.storage.local import LocalStore
from tests.conftest import ExperimentFile
from tests.flows.one_time import World
from tests.flows.studies import column, only_batch, rows, submitted

Worlds = Callable[..., World]


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
    adopt_by_hand(run, only_batch(run), short.format(last=str(made.batch_id).rpartition("/")[2]))
    assert not resume(here.worker, [run], interval=600, once=True).is_open
    here.check()


def test_nobody_adopts_a_batch_without_a_key_while_the_provider_shows_the_right_one(
    world: Worlds, experiment_file: ExperimentFile
) -> None:
    here = world()
    with httpx.Client(base_url=here.simulator.openai_base_url, headers={"Authorization": "Bearer simulated"}) as http:
        file = http.post("/files", data={"purpose": "batch"}, files={"file": ("theirs.jsonl", b"no request\n")})
        wanted = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
        theirs = http.post("/batches", json={"input_file_id": file.json()["id"], **wanted}).json()["id"]
    here.simulator.engine.faults.replace(parse_faults("create.lost=1"))
    (run,) = submitted(here.worker, experiment_file())
    ours = here.simulator.ledger.creates[-1].batch_id
    with pytest.raises(ConfigError, match=rf"{ours} is s000-1 by its key.*pairlog adopt .* s000-1 {ours}"):
        adopt_by_hand(run, only_batch(run), theirs)
    assert not resume(here.worker, [run], interval=600).is_open
    assert column(rows(here.worker), "status") == ["ok"] * 15


@pytest.mark.parametrize(("samples", "told"), [(6, "does not show the requests"), (4, "has 6 requests; s000-1 has 15")])
def test_nobody_adopts_what_its_size_or_its_ids_tell_to_be_a_strangers(
    world: Worlds, experiment_file: ExperimentFile, tmp_path: Path, samples: int, told: str
) -> None:
    here, judges = world(), "[{provider: anthropic, model: claude-haiku-5-5}]"
    stranger = here.beside(LocalStore(tmp_path / "theirs"))
    (theirs,) = submitted(stranger, experiment_file(name="theirs", judges=judges, samples=samples))
    resume(stranger, [theirs], interval=60)
    here.simulator.engine.faults.replace(parse_faults("create.lost=1"))
    (run,) = submitted(here.worker, experiment_file(judges=judges))
    with pytest.raises(ConfigError, match=told):
        adopt_by_hand(run, only_batch(run), str(only_batch(theirs).remote_id))
    assert not resume(here.worker, [run], interval=60).is_open
    assert column(rows(here.worker), "status") == ["ok"] * 15


@pytest.mark.parametrize("force", [False, True])
def test_who_asks_to_void_what_the_provider_has_does_not_take_its_input_away(
    world: Worlds, experiment_file: ExperimentFile, *, force: bool
) -> None:
    here = world("create.lost=1", latency=3600)
    (run,) = submitted(here.worker, experiment_file())
    here.clock.sleep(1800)
    with pytest.raises(ConfigError, match="would be paid for twice; use `pairlog adopt"):
        void_by_hand(run, only_batch(run), force=force)
    assert not resume(here.worker, [run], interval=600).is_open
    assert len(here.simulator.ledger.creates) == 1
    assert column(rows(here.worker), "status") == ["ok"] * 15
    here.check()


@pytest.mark.parametrize("latency", [0, 3600])
def test_who_asks_to_void_with_a_clock_that_is_days_ahead_is_told_what_the_provider_has(
    world: Worlds, experiment_file: ExperimentFile, latency: float
) -> None:
    here = world("create.lost=1", latency)
    ahead = here.beside(off=3 * 86_400)
    (run,) = submitted(ahead, experiment_file(judges="[{provider: anthropic, model: claude-haiku-5-5}]"))
    here.clock.sleep(1800)
    with pytest.raises(ConfigError, match="would be paid for twice; use `pairlog adopt"):
        void_by_hand(run, only_batch(run))
    assert not resume(ahead, [run], interval=600).is_open
    here.check()
