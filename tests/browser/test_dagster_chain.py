"""A chain by clicking: three models write, two judges compare what they wrote, and the hidden order is read off."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pipeline.simulator import Simulator, SimulatorSettings
from pipeline.wording import and_more
from tests.browser.dagster_server import DagsterServer, dagster_server
from tests.browser.person import Person, a_person

SKILLS = {"fine": 2.0, "plain": 0.0, "poor": -2.0}
PROMPTS = 16


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator(SimulatorSettings(skills=SKILLS, sharpness=2.0, seed=3)) as running:
        yield running


@pytest.fixture
def server(tmp_path: Path, simulator: Simulator) -> Iterator[DagsterServer]:
    folder = tmp_path / "experiments"
    folder.mkdir()
    prompts = [
        {
            "id": f"prompt {number}",
            "text": f"What about matter number {number}?",
            "criterion": f"Statement {number % 2}: keep to it.",
            "statement": f"s{number % 2}",
        }
        for number in range(PROMPTS)
    ]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    (folder / "answers.yaml").write_text(
        "name: answers\nsamples: prompts.jsonl\ntask: generation\n"
        f"judges: [{{provider: openai, model: [{', '.join(SKILLS)}]}}]\n"
    )
    (folder / "judged.yaml").write_text(
        "name: judged\nsamples: generations://answers\npairs: {design: groups}\n"
        "judges: [{provider: openai, model: [judge-one, judge-two]}]\n"
    )
    with dagster_server(tmp_path / "dagster", simulator, folder) as running:
        yield running


@pytest.fixture
def person(server: DagsterServer, tmp_path: Path) -> Iterator[Person]:
    with a_person(server, tmp_path) as somebody:
        yield somebody


@pytest.mark.timeout(900)
def test_a_person_lets_three_models_write_and_two_judges_find_their_hidden_order(
    person: Person, server: DagsterServer, simulator: Simulator
) -> None:
    server.until("the partitions", lambda: server.partitions("samples")["numPartitions"] == 2)
    for done, (name, segments) in enumerate({"answers": 3, "judged": 3 + 2}.items(), start=1):
        person.materialize_one("locations/pairlog/jobs/make_pairs", name)
        server.until(f"pairs of {name}", partial(server.is_green, "pairs", done))
        person.materialize("assets/submitted_batches?view=partitions", take="Missing")
        server.until(f"rows of {name}", partial(server.is_green, "comparisons", segments), seconds=300)
    server.until("both rankings", lambda: server.is_green("rankings", 2))

    person.open("assets/rankings?view=partitions&partition=answers", until="found")
    person.keep("chain-answers")
    person.open("assets/rankings?view=partitions&partition=judged", until="reliability")
    person.keep("chain-rankings")
    assert [row[1] for row in person.table("ranking")] == list(SKILLS)
    order = and_more(list(SKILLS), most=5)
    assert person.table("by criterion") == [["s0", str(PROMPTS * 3), order], ["s1", str(PROMPTS * 3), order]]
    assert simulator.ledger.paid_twice() == []
    assert simulator.ledger.totals.requests == PROMPTS * 3 + PROMPTS * 3 * 2
