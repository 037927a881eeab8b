"""A person at the Dagster UI: click, watch, read. A real webserver, daemon and browser; the judges are simulated."""

import csv
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from pipeline.simulator import Simulator, SimulatorSettings
from tests.browser.dagster_server import ROOT, DagsterServer, dagster_server

CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
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


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    chromium = shutil.which("chromium")
    assert chromium, "there is no chromium on PATH; `make test` installs it"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=CHROMIUM)
        opened = browser.new_page(viewport={"width": 1500, "height": 1100})
        opened.set_default_timeout(60_000)
        yield opened
        browser.close()


def picture(page: Page, name: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("PAIRLOG_TEST_ARTEFACTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(folder / f"dagster-{name}.png"))


def materialize_all(page: Page, server: DagsterServer, asset: str) -> None:
    """Click Materialize, take all partitions, launch."""
    page.goto(f"{server.address}/assets/{asset}?view=partitions")
    page.locator("button:enabled", has_text="Materialize").first.click()
    page.get_by_text("All", exact=True).first.click()
    page.locator("button:enabled", has_text="Launch").last.click()


@pytest.mark.timeout(900)
def test_a_person_clicks_twice_pays_once_and_reads_a_ranking(
    page: Page, server: DagsterServer, simulator: Simulator, tmp_path: Path
) -> None:
    server.until("the partition", lambda: server.partitions("samples")["numPartitions"] == 1)

    page.goto(f"{server.address}/asset-groups")
    page.get_by_text("submitted_batches").first.wait_for()
    page.wait_for_timeout(1500)
    picture(page, "graph", tmp_path)

    for asset in ("samples", "pairs"):
        materialize_all(page, server, asset)
        server.until(f"green {asset}", lambda asset=asset: server.is_green(asset, 1))
    assert list(simulator.ledger.billed()) == [], "nothing is sent before somebody materializes submitted_batches"

    server.until("segments", lambda: server.partitions("submitted_batches")["numPartitions"] == 4)
    materialize_all(page, server, "submitted_batches")
    for asset, count in (("submitted_batches", 4), ("comparisons", 4), ("rankings", 1), ("diagnostics", 1)):
        server.until(f"green {asset}", lambda asset=asset, count=count: server.is_green(asset, count), seconds=300)
    assert simulator.ledger.paid_twice() == []
    assert len(list(simulator.ledger.billed())) == 760

    segment = "essays--default--openai--gpt-6-luna--none--forward--s000"
    page.goto(f"{server.address}/assets/comparisons?view=partitions&partition={segment}")
    page.get_by_text("input tokens").first.wait_for()
    picture(page, "comparisons", tmp_path)
    page.goto(f"{server.address}/assets/comparisons?view=checks")
    page.get_by_text("conservation").first.click()
    page.wait_for_timeout(1500)
    picture(page, "checks", tmp_path)
    page.goto(f"{server.address}/assets/rankings?view=partitions&partition=essays")
    page.get_by_text("reliability").first.wait_for()
    page.wait_for_timeout(1500)
    picture(page, "rankings", tmp_path)
    page.get_by_text("Show Markdown").first.click()
    page.wait_for_timeout(1500)
    picture(page, "ranking-picture", tmp_path)
    assert page.locator("img[src^='data:image/svg']").count() == 1
    page.goto(f"{server.address}/assets/samples?view=checks")
    page.get_by_text("experiment_files_readable").first.click()
    page.wait_for_timeout(1500)
    picture(page, "bad-file", tmp_path)
    page.get_by_text("did you mean judges?").first.wait_for()
    handful = [run for run in server.runs() if run["jobName"] == "collect"]
    assert len(handful) <= 4
