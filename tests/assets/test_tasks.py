"""Tasks other than pairs in Dagster: the same assets and sensors carry them, chains and conversations included."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.ids import ExperimentName
from pipeline.operations.reading.answers import ranking_of
from pipeline.ranking import Ranking, RankingOptions
from pipeline.simulator.faults import Fault
from tests.assets.dagster_home import Home, failure

SKILLS = {"fine": 2.0, "plain": 0.0, "poor": -2.0}


@pytest.fixture
def answers(tmp_path: Path) -> None:
    """Prompts, an experiment that answers them with three models, and one that judges the answers."""
    lines = [{"id": f"p{number}", "text": f"What about matter number {number}?"} for number in range(12)]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    writers = "[{provider: openai, model: [fine, plain, poor]}]"
    (tmp_path / "answers.yaml").write_text(
        f"name: answers\nsamples: prompts.jsonl\ntask: generation\njudges: {writers}\n"
    )
    (tmp_path / "judged.yaml").write_text(
        "name: judged\nsamples: generations://answers\npairs: {design: groups}\n"
        "judges: [{provider: openai, model: [judge-one, judge-two]}]\n"
    )


def carried(here: Home, name: str) -> None:
    """Send one experiment and let the sensors carry it to its end, launching what they ask for."""
    here.materialize("samples", "pairs", keys=[name])
    mine = [key for key in here.segments() if key.startswith(f"{name}--")]
    here.materialize("submitted_batches", keys=mine)
    until = time.monotonic() + 60
    while name not in here.green("rankings"):
        assert time.monotonic() < until, f"{name} does not come to its end"
        for sensor in ("batch_status", "finished_experiments"):
            here.launch(here.tick(sensor))


@pytest.mark.usefixtures("answers")
def test_what_models_wrote_is_judged_and_ranked_by_clicking(home: Callable[..., Home]) -> None:
    here = home(skills=SKILLS, sharpness=2.0, seed=3)
    here.tick("experiment_files")
    too_early = failure(here.materialize("samples", keys=["judged"], raises=False))
    assert "answers" in too_early
    carried(here, "answers")
    carried(here, "judged")
    assert {"answers", "judged"} <= here.green("rankings")
    ranking = ranking_of(here.worker, ExperimentName("judged"), RankingOptions())
    assert isinstance(ranking, Ranking)
    assert [standing.contestant for standing in ranking.standings] == list(SKILLS)
    assert here.simulator.ledger.paid_twice() == []


@pytest.mark.usefixtures("answers")
def test_samples_and_pairs_say_what_was_not_there_to_be_judged(home: Callable[..., Home]) -> None:
    here = home(skills=SKILLS, faults={"answer.refusal": Fault(value=0.25, times=1)})
    here.tick("experiment_files")
    carried(here, "answers")
    made = here.materialize("samples", "pairs", keys=["judged"])
    for asset in ("samples", "pairs"):
        (found,) = made.asset_materializations_for_node(asset)
        assert "has no text to judge for 3 of 12 samples: 3 refused" in str(
            found.metadata["not there to be judged"].value
        )


def test_the_turns_of_conversations_become_segments_as_they_come(home: Callable[..., Home], tmp_path: Path) -> None:
    here = home(skills=SKILLS)
    (tmp_path / "talk.yaml").write_text(
        "name: talk\nsamples: samples.csv\ntask: conversation\n"
        "turns: ['Are you sure?', 'Say it in one word.']\njudges: [{provider: openai, model: fine}]\n"
    )
    here.tick("experiment_files")
    here.materialize("samples", "pairs", keys=["talk"])
    too_small = here.materialize("submitted_batches", keys=here.segments(), raises=False, most_requests=17)
    assert failure(too_small).startswith("18 requests would be sent")
    carried(here, "talk")
    assert "talk" in here.green("rankings")
    turns = [key for key in here.segments() if key.startswith("talk--")]
    assert len(turns) == 3
    assert here.green("comparisons") == set(turns)
    assert here.simulator.ledger.totals.requests == 18
