"""The ranking as one picture that stands alone: for places that show an image but no page."""

from pipeline.ranking.report.markup import Html, element
from pipeline.ranking.report.plots import scale_for
from pipeline.ranking.values import Ranking

_ROW, _LEFT, _WIDTH, _TOP = 22, 210, 640, 34
_AXIS = 28
_MOST = 40
_LONGEST_NAME = 28
_INK, _BLUE, _GREY = "#1f2933", "#0072b2", "#9aa5b1"


def ranking_svg(ranking: Ranking) -> str:
    """Return an SVG of the contestants with scores and intervals, best first; of many, only the best are drawn."""
    shown = ranking.standings[:_MOST]
    scale = scale_for([bound for each in shown for bound in (each.low, each.high)])
    bottom = _TOP + _ROW * len(shown)
    height = bottom + _AXIS

    def across(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 16) * scale.at(value) / 100

    confidence = f"{100 * ranking.options.confidence:.0f} % intervals"
    rest = len(ranking.standings) - len(shown)
    title = f"Scores with {confidence}" + (f"; {rest} more below" if rest else "")
    if not all(each.bounded for each in shown):
        title += "; grey: the data put no limit on the gap"
    drawn = [element("rect", width=str(_WIDTH), height=str(height), fill="#ffffff"), _text(title, _LEFT, 20, _INK)]
    for tick in scale.ticks:
        is_zero = tick == 0
        drawn += [
            _upright(across(tick), bottom, _INK if is_zero else "#e4e7eb", "1.5" if is_zero else "1"),
            _text(f"{tick:g}", across(tick), bottom + 18, _INK, anchor="middle"),
        ]
    for place, each in enumerate(shown):
        middle = _TOP + _ROW * place + _ROW / 2
        low, high = across(each.low), across(each.high)
        drawn += [
            _text(f"{each.rank}  {_cut(each.contestant)}", 12, middle + 4, _INK),
            _line(_LEFT, _WIDTH - 16, middle, "#e4e7eb", "1"),
            _line(low, high, middle, _BLUE if each.bounded else _GREY, "5"),
            element("circle", cx=f"{across(each.score):.1f}", cy=f"{middle:.1f}", r="5", fill=_INK),
        ]
    return element(
        "svg", *drawn, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH} {height}", width=str(_WIDTH),
        height=str(height), font_family="system-ui, sans-serif", font_size="13",
    )  # fmt: skip


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _text(text: str, x: float, y: float, fill: str, *, anchor: str = "start") -> Html:
    return element("text", text, x=f"{x:.0f}", y=f"{y:.0f}", fill=fill, text_anchor=anchor)


def _upright(x: float, end: float, stroke: str, width: str) -> Html:
    return element(
        "line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=f"{_TOP:.1f}", y2=f"{end:.1f}", stroke=stroke, stroke_width=width
    )


def _line(start: float, end: float, y: float, stroke: str, width: str) -> Html:
    return element(
        "line", x1=f"{start:.1f}", x2=f"{end:.1f}", y1=f"{y:.1f}", y2=f"{y:.1f}", stroke=stroke, stroke_width=width
    )
