"""A person at the Dagster UI: click, watch, read. A real webserver, daemon and browser; the judges are simulated."""

import csv
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pipeline.simulator import Simulator, SimulatorSettings
from tests.browser.dagster_server import ROOT, DagsterServer, dagster_server
from tests.browser.person import Person, a_person

DEMO = ROOT / "infra" / "demo"


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with (DEMO / "essays.csv").open(encoding="utf-8", newline="") as file:
        qualities = {row["text"]: float(row["quality"]) for row in csv.DictReader(file)}
    settings = SimulatorSettings(qualities=qualities, sharpness=3.0, bias=0.4, seed=7, latency_seconds=2.0)
    with Simulator(settings) as running:
        yield running


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiments")
    for name in ("essays.yaml", "essays.csv"):
        shutil.copy(DEMO / name, folder / name)
    (folder / "broken.yaml").write_text("name: broken\nsamples: essays.csv\njudge: []\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, simulator: Simulator, experiments: Path
) -> Iterator[DagsterServer]:
    with dagster_server(tmp_path_factory.mktemp("dagster"), simulator, experiments) as running:
        yield running


@pytest.fixture
def person(server: DagsterServer, tmp_path: Path) -> Iterator[Person]:
    with a_person(server, tmp_path) as somebody:
        yield somebody


@pytest.mark.timeout(900)
def test_a_person_clicks_twice_pays_once_and_reads_a_ranking(
    person: Person, server: DagsterServer, simulator: Simulator
) -> None:
    server.until("the partition", lambda: server.partitions("samples")["numPartitions"] == 1)

    person.open("asset-groups", until="submitted_batches")
    person.keep("graph")

    for asset in ("samples", "pairs"):
        person.materialize(f"assets/{asset}?view=partitions")
        server.until(f"green {asset}", partial(server.is_green, asset, 1))
    assert list(simulator.ledger.billed()) == [], "nothing is sent before somebody materializes submitted_batches"

    server.until("segments", lambda: server.partitions("submitted_batches")["numPartitions"] == 4)
    person.materialize("assets/submitted_batches?view=partitions")
    for asset, count in (("submitted_batches", 4), ("comparisons", 4), ("rankings", 1), ("diagnostics", 1)):
        server.until(f"green {asset}", partial(server.is_green, asset, count), seconds=300)
    assert simulator.ledger.paid_twice() == []
    assert len(list(simulator.ledger.billed())) == 760

    segment = "essays--default--openai--gpt-6-luna--none--forward--s000"
    person.open(f"assets/comparisons?view=partitions&partition={segment}", until="input tokens")
    person.keep("comparisons")
    person.open("assets/comparisons?view=checks", until="conservation")
    person.page.get_by_text("conservation").first.click()
    person.keep("checks")
    person.open("assets/rankings?view=partitions&partition=essays", until="reliability")
    person.keep("rankings")
    person.metadata("picture").get_by_text("Show Markdown").click()
    person.keep("ranking-picture")
    assert person.page.locator("img[src^='data:image/svg']").count() == 1
    person.open("assets/samples?view=checks", until="experiment_files_readable")
    person.page.get_by_text("experiment_files_readable").first.click()
    person.keep("bad-file")
    person.page.get_by_text("did you mean judges?").first.wait_for()
    handful = [run for run in server.runs() if run["jobName"] == "collect"]
    assert len(handful) <= 4
