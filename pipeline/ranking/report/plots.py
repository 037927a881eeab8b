"""Pictures drawn with plain boxes and a little SVG, so that they scale from a phone to a sheet of paper."""

import math
from collections.abc import Sequence

import msgspec

from pipeline.ranking.report.markup import Html, element, number, percent

Colour = tuple[float, float, float]

BLUE: Colour = (0, 114, 178)  # Okabe and Ito: colour-blind readers can tell it from the orange
ORANGE: Colour = (213, 94, 0)
DAY: Colour = (255, 255, 255)
NIGHT: Colour = (21, 24, 27)
BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)


_TICKS = 6


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of numbers laid over the width of a column."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Return where the value lies, in percent of the width, held inside it."""
        share = (value - self.low) / (self.high - self.low)
        return 100 * min(max(share, 0.0), 1.0)

    @property
    def ticks(self) -> list[float]:
        """Round numbers inside the stretch, some five of them; zero is one if it lies there."""
        rough = (self.high - self.low) / _TICKS
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(each * size for each in (1, 2, 5, 10) if each * size >= rough)
        numbers = range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
        return [round(number * step, 12) for number in numbers]


def scale_for(values: Sequence[float], *, include: Sequence[float] = ()) -> Scale:
    """Return a scale that holds all values with a little room."""
    every = [*values, *include]
    low, high = min(every), max(every)
    room = (high - low) * 0.04 or 0.5
    return Scale(low=low - room, high=high + room)


def interval(scale: Scale, value: float, low: float | None, high: float | None, *, mark: float | None = None) -> Html:
    """Return a cell with a dot, its interval (if any) as a bar, and a line at `mark`."""
    parts = [element("span", class_="dot", style=f"left:{scale.at(value):.2f}%")]
    label = number(value)
    if low is not None and high is not None:
        start, end = scale.at(low), scale.at(high)
        parts.insert(0, element("span", class_="bar", style=f"left:{start:.2f}%;width:{max(end - start, 0.3):.2f}%"))
        label = f"{label}, from {number(low)} to {number(high)}"
    if mark is not None:
        parts.insert(0, element("span", class_="mark", style=f"left:{scale.at(mark):.2f}%"))
    return element("td", element("div", *parts, class_="plot", role="img", aria_label=label), class_="wide")


def ends(scale: Scale, *, title: str, share: bool = False) -> Html:
    """Return a column heading that tells where the scale begins and ends."""
    low, high = (percent(end) if share else number(end, 1) for end in (scale.low, scale.high))
    return element("span", element("span", low), element("span", title), element("span", high), class_="ends")


def shaded(text: str, strength: float, *, title: str = "") -> Html:
    """Return a cell tinted from orange (-1) over none (0) to blue (1); the tint lies over paper and night alike."""
    share = round(min(abs(strength), 1.0), 2)
    hint = {"title": title} if title else {}
    if not share:
        return element("td", text, **hint)
    tint = BLUE if strength > 0 else ORANGE
    red, green, blue = tint
    style = f"background:rgba({red:.0f},{green:.0f},{blue:.0f},{share:.2f})"
    return element("td", text, class_=" ".join(letters(tint, share)), style=style, **hint)


def letters(tint: Colour, share: float) -> list[str]:
    """Return a cell's classes: letters are black by day and white at night, unless the other is easier to read."""
    by_day, at_night = (over(tint, share, paper) for paper in (DAY, NIGHT))
    white_by_day = contrast(WHITE, by_day) > contrast(BLACK, by_day)
    black_at_night = contrast(BLACK, at_night) > contrast(WHITE, at_night)
    return ["tint", *(["pale-by-day"] if white_by_day else []), *(["dark-at-night"] if black_at_night else [])]


def over(tint: Colour, share: float, paper: Colour) -> Colour:
    """Return the colour one sees where the tint lies over the paper."""
    red, green, blue = (share * top + (1 - share) * under for top, under in zip(tint, paper, strict=True))
    return red, green, blue


def contrast(one: Colour, other: Colour) -> float:
    """Return how well one colour is read on the other, from 1 to 21, as WCAG 2 measures it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Colour) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (channel / 255 for channel in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def scatter(points: Sequence[tuple[float, float, int]], *, label: str, across: str, up: str) -> Html:
    """Return a square plot of shares from a half to one against each other, with dots sized by their count."""
    most = max(count for _, _, count in points)
    low = min(0.5, *(seen for _, seen, _ in points))

    def place(value: float, start: float) -> float:
        return 40 + 250 * (value - start) / (1 - start)

    dots = [
        element(
            "circle", element("title", f"expected {expected:.0%}, seen {seen:.0%}, {count} comparisons"),
            cx=f"{place(expected, 0.5):.1f}", cy=f"{300 - place(seen, low) + 20:.1f}",
            r=f"{3 + 7 * (count / most) ** 0.5:.1f}", class_="spot",
        )
        for expected, seen, count in points
    ]  # fmt: skip
    begin, end = 320 - place(0.5, low), 320 - place(1, low)
    frame = [
        element("line", x1="40", y1=f"{begin:.1f}", x2="290", y2=f"{end:.1f}", class_="even"),
        element("path", d="M40 30V280H290", class_="axis"),
        element("text", "50 %", x="40", y="298", class_="middle"),
        element("text", "100 %", x="290", y="298", class_="middle"),
        element("text", across, x="165", y="314", class_="middle"),
        element("text", "100 %", x="4", y="34"),
        element("text", f"{low:.0%}".replace("%", " %"), x="4", y="280"),
        element("text", up, x="165", y="16", class_="middle"),
    ]
    return element("svg", *frame, *dots, viewBox="0 0 320 320", class_="scatter", role="img", aria_label=label)
