"""The bars as JSON, as a table, and as a picture: how far each is from its floor, on a logarithmic scale."""

import html
import json
import math
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from measuring import Bar

ROW, LEFT, WIDTH = 22, 470, 420
DECADES = 2


def keep(bars: list[Bar], folder: Path) -> None:
    """Write `bench.json` and `bench.svg`."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [
        {"stage": bar.stage, "name": bar.name, "median": bar.median, "values": bar.values, "unit": bar.unit.strip(),
         "limit": bar.limit, "least": bar.least, "met": bar.is_met}
        for bar in bars
    ]  # fmt: skip
    result = {"date": datetime.now(UTC).date().isoformat(), "machine": machine(), "bars": found}
    (folder / "bench.json").write_text(json.dumps(result, indent=1))
    (folder / "bench.svg").write_text(drawn(bars))


def machine() -> str:
    """Return what the figures were measured on, in a few words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GiB, {system}"


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    models = [line for line in told.read_text().splitlines() if line.startswith("model name")] if told.exists() else []
    return models[0].partition(": ")[2] if models else platform.processor()


def table(folder: Path) -> str:
    """Return the figures of `bench.json` in Markdown; checks of equality are left out where they hold."""
    result = json.loads((folder / "bench.json").read_text())
    shown = [bar for bar in result["bars"] if bar["unit"] or not bar["met"]]
    rows = [
        f"| {bar['stage']} | {bar['name']} | {_number(bar['median'])}{_unit(bar)} | "
        f"{'≥' if bar['least'] else '≤'} {bar['limit']:g}{_unit(bar)} | {'✓' if bar['met'] else 'missed'} |"
        for bar in shown
    ]
    head = ["| stage | figure | measured | bar | |", "|---|---|---|---|---|"]
    return "\n".join([f"Measured {result['date']}, {result['machine']}:", "", *head, *rows])


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _unit(bar: dict[str, str]) -> str:
    return {"x": "×", "": ""}.get(bar["unit"], f" {bar['unit']}")


def drawn(bars: list[Bar]) -> str:
    """Return the picture: what reaches beyond the line in the middle meets its bar."""
    height = ROW * (len(bars) + 2)
    middle = LEFT + WIDTH / 2
    rows = "".join(_row(bar, ROW * (number + 1), middle) for number, bar in enumerate(bars))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>{rows}'
        f'<line x1="{middle}" y1="0" x2="{middle}" y2="{height}" stroke="black"/>'
        f'<text x="{middle + 4}" y="{height - 6}">bar</text></svg>'
    )


def _row(bar: Bar, y: int, middle: float) -> str:
    reach = max(-1.0, min(1.0, math.log10(max(bar.margin, 1e-9)) / DECADES)) * WIDTH / 2
    colour = "#2a7f62" if bar.is_met else "#b3261e"
    x = middle + min(reach, 0)
    return (
        f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{html.escape(f"{bar.stage}: {bar.name}")}</text>'
        f'<rect x="{x:.1f}" y="{y}" width="{max(abs(reach), 1):.1f}" height="{ROW - 6}" fill="{colour}"/>'
        f'<text x="{middle + max(reach, 0) + 6:.1f}" y="{y + 12}">{bar.median:.3g}{html.escape(bar.unit)}</text>'
    )
