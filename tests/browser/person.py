"""A person at the Dagster UI: what they open, click and see."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, sync_playwright

from tests.browser.dagster_server import DagsterServer

CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]


class Person:
    """Somebody with a browser on one Dagster; keeps pictures of what they see."""

    def __init__(self, page: Page, server: DagsterServer, pictures: Path) -> None:
        self.page = page
        self._server = server
        self._pictures = Path(os.environ.get("PAIRLOG_TEST_ARTEFACTS", pictures))
        self._pictures.mkdir(parents=True, exist_ok=True)

    def open(self, path: str, *, until: str) -> None:
        """Open a page of the UI and wait until the words are seen."""
        self.page.goto(f"{self._server.address}/{path}")
        self.page.get_by_text(until).first.wait_for()

    def materialize(self, path: str, *, take: str = "All") -> None:
        """Click Materialize on the page of an asset or job, take All or Missing partitions, launch."""
        self._start_materializing(path)
        self.page.get_by_text(take, exact=True).first.click()
        self._launch()

    def materialize_one(self, path: str, partition: str) -> None:
        """Click Materialize on the page of an asset or job, tick one partition, launch."""
        self._start_materializing(path)
        self.page.get_by_text("Select a partition or create one").click()
        self.page.get_by_role("menuitem").filter(has_text=partition).click()
        self.page.get_by_text("Launch runs to materialize").click()
        self._launch()

    def _start_materializing(self, path: str) -> None:
        self.page.goto(f"{self._server.address}/{path}")
        self.page.locator("button:enabled", has_text="Materialize").first.click()

    def _launch(self) -> None:
        button = self.page.locator("button:enabled", has_text="Launch").last
        button.click()
        button.wait_for(state="hidden")

    def metadata(self, label: str) -> Locator:
        """Return what stands beside a label among the metadata of the page."""
        return self.page.locator("tr").filter(has=self.page.get_by_text(label, exact=True))

    def table(self, label: str) -> list[list[str]]:
        """Return the cells of the table that stands beside a label, without its head."""
        lines = self.metadata(label).locator("table tbody tr")
        lines.first.wait_for()
        return [line.locator("td").all_inner_texts() for line in lines.all()]

    def keep(self, name: str) -> None:
        """Keep a picture once the page has come to rest."""
        self.page.wait_for_timeout(1500)
        self.page.screenshot(path=str(self._pictures / f"dagster-{name}.png"))


@contextmanager
def a_person(server: DagsterServer, pictures: Path) -> Iterator[Person]:
    """Seat somebody at a browser for as long as the block runs."""
    chromium = shutil.which("chromium")
    assert chromium, "there is no chromium on PATH; `make test` installs it"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=CHROMIUM)
        page = browser.new_page(viewport={"width": 1500, "height": 1100})
        page.set_default_timeout(60_000)
        yield Person(page, server, pictures)
        browser.close()
