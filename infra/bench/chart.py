"""The bars as JSON, and as a picture: how far each is from its floor, on a logarithmic scale."""

import html
import json
import math
import os
import platform
from pathlib import Path

from measuring import Bar

ROW, LEFT, WIDTH = 22, 470, 420
DECADES = 2


def keep(bars: list[Bar], folder: Path) -> None:
    """Write `bench.json` and `bench.svg`."""
    folder.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    found = [
        {"stage": bar.stage, "name": bar.name, "median": bar.median, "values": bar.values, "unit": bar.unit.strip(),
         "limit": bar.limit, "least": bar.least, "met": bar.is_met}
        for bar in bars
    ]  # fmt: skip
    (folder / "bench.json").write_text(json.dumps({"machine": machine, "bars": found}, indent=1))
    (folder / "bench.svg").write_text(drawn(bars))


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
