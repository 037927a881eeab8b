"""The report in a real browser: nothing runs over the edge of a phone, nothing is fetched, and a picture is kept."""

import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest

from pipeline.domain import Counts
from pipeline.ranking import RankingOptions, breakdowns, diagnose, panel, rank
from pipeline.ranking.report import report_html
from tests.ranking.studies import a_study

QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--hide-scrollbars",
)  # fmt: skip
PROBE = """<script>
const over = [...document.querySelectorAll("main > *, section > *")].filter(
  (part) => part.getBoundingClientRect().right > innerWidth + 1);
document.title = `over=${over.length} width=${document.documentElement.scrollWidth} of=${innerWidth} `
  + `asked=${performance.getEntriesByType("resource").length} tables=${document.querySelectorAll("table").length}`;
</script>"""

PAPER = 688  # A4 without its margins, at 96 pixels an inch
WIDEST = """<script>
const ends = [...document.querySelectorAll("body *")].map((part) => Math.floor(part.getBoundingClientRect().right));
document.title = `widest=${Math.max(...ends)}`;
</script>"""

WORDS = """<script>
const broken = [...document.querySelectorAll("table.matrix thead th")].flatMap((cell) => {
  const room = cell.getBoundingClientRect().width;
  return cell.innerText.split(/[\\s/-]+/).filter((word) => {
    const alone = Object.assign(document.createElement("span"), {textContent: word});
    alone.style.cssText = "position:absolute;white-space:nowrap";
    cell.append(alone);
    const wide = alone.getBoundingClientRect().width;
    alone.remove();
    return wide > room;
  });
});
document.title = `broken=${broken.join()}.`;
</script>"""


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.fail("there is no chromium on PATH: `make test` installs it, or your system's packages have it")
    return found


def browse(*arguments: str) -> str:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            [chromium(), *QUIET, f"--user-data-dir={profile}", *arguments],
            capture_output=True, text=True, timeout=90, check=True,
        )  # fmt: skip
    return done.stdout


@pytest.fixture(scope="module")
def artefacts() -> Path:
    """Where pictures and paper are kept for a person to look at."""
    folder = Path(__file__).parents[2] / ".artifacts"
    folder.mkdir(exist_ok=True)
    return folder


MAKERS = {"gpt-6-luna": 0.9, "claude-haiku-5-5": -0.2, "gemini-3.8-flash": 0.0}


def a_page(contestants: int, *, between: str = "-", more: tuple[str, ...] = ()) -> str:
    makers = MAKERS | dict.fromkeys(more, 0.0)
    names = [f"{('gpt', 'claude', 'llama')[at % 3]}-with-a-long-name-{at}" for at in range(contestants)]
    names = [name.replace("-", between) for name in names]
    table = a_study(contestants, judges=makers, ties=0.05, names=names)
    lengths = {name: float(len(name) * 37 % 101) for name in names}
    return report_html(
        table,
        rank(table, RankingOptions(position=True)),
        diagnose(table, lengths=lengths),
        experiment="essays",
        parts=breakdowns(table),
        panel=panel(table),
        conservation={
            "essays--default--openai--gpt-6-luna--default--forward": Counts(planned=len(table) + 9, ok=len(table))
        },
        provenance={"samples": "0123456789abcdef" * 4},
    )


@pytest.fixture(scope="module")
def page() -> str:
    return a_page(18)


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("contestants", [2, 18, 60])
def test_nothing_runs_over_the_edge_and_nothing_is_fetched(contestants, width, tmp_path):
    page = a_page(contestants)
    probed = tmp_path / "probed.html"
    open_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    probed.write_text(open_policy.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    seen = browse(f"--window-size={width},3000", "--dump-dom", probed.as_uri())
    title = re.search(r"over=(\d+) width=(\d+) of=(\d+) asked=(\d+) tables=(\d+)", seen)
    assert title is not None
    over, whole, inner, asked, tables = (int(value) for value in title.groups())
    assert (over, asked) == (0, 0)
    assert whole <= inner
    assert tables > 7


def test_on_a_phone_no_word_above_a_column_is_broken(tmp_path):
    page = a_page(6, more=("gemini-3.8-flash (low)", "gemini-3.8-flash (medium)", "gemini-3.8-flash (high)"))
    probed = tmp_path / "probed.html"
    open_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    probed.write_text(open_policy.replace("</body>", f"{WORDS}</body>"), encoding="utf-8")
    seen = browse("--window-size=400,3000", "--dump-dom", probed.as_uri())
    assert "<title>broken=.</title>" in seen, re.search(r"<title>.*</title>", seen)


@pytest.mark.parametrize("contestants", [2, 24, 25, 60])
@pytest.mark.parametrize("between", ["-", "_"])
def test_nothing_runs_over_the_edge_of_paper(contestants, between, tmp_path):
    page = a_page(contestants, between=between).replace("@media print", "@media all")
    probed = tmp_path / "probed.html"
    open_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    probed.write_text(open_policy.replace("</body>", f"{WIDEST}</body>"), encoding="utf-8")
    seen = browse(f"--window-size={PAPER},3000", "--dump-dom", probed.as_uri())
    found = re.search(r"<title>widest=(\d+)</title>", seen)
    assert found is not None
    assert int(found[1]) <= PAPER


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("light", ["day", "night"])
def test_a_picture_of_the_page_is_kept(page, width, light, tmp_path, artefacts):
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    picture = artefacts / f"report-{width}-{light}.png"
    picture.unlink(missing_ok=True)
    night = ["--blink-settings=preferredColorScheme=0"] if light == "night" else []
    browse(f"--window-size={width},6000", *night, f"--screenshot={picture}", file.as_uri())
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (width, 6000)
    assert len(data) > 50_000


def test_the_page_prints(page, tmp_path, artefacts):
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    paper = artefacts / "report.pdf"
    paper.unlink(missing_ok=True)
    browse(f"--print-to-pdf={paper}", "--no-pdf-header-footer", file.as_uri())
    assert paper.read_bytes().startswith(b"%PDF-")
