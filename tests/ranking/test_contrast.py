"""Letters on tinted cells are read by day and at night: WCAG asks for a contrast of 4.5 at least."""

import re

import pytest

from pipeline.ranking.report.plots import (
    BLACK,
    BLUE,
    DAY,
    NIGHT,
    ORANGE,
    WHITE,
    Colour,
    contrast,
    letters,
    over,
    shaded,
)
from pipeline.ranking.report.style import CSS

SHARES = [step / 100 for step in range(1, 101)]


@pytest.mark.parametrize("tint", [BLUE, ORANGE])
@pytest.mark.parametrize("share", SHARES)
def test_every_shade_can_be_read_in_both_themes(tint: Colour, share: float) -> None:
    classes = letters(tint, share)
    by_day = WHITE if "pale-by-day" in classes else BLACK
    at_night = BLACK if "dark-at-night" in classes else WHITE
    assert contrast(by_day, over(tint, share, DAY)) >= 4.5
    assert contrast(at_night, over(tint, share, NIGHT)) >= 4.5


def test_contrast_is_measured_as_wcag_does() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(WHITE, ORANGE) == pytest.approx(3.87, abs=0.01)
    assert contrast(WHITE, BLUE) == contrast(BLUE, WHITE) == pytest.approx(5.19, abs=0.01)


@pytest.mark.parametrize(
    ("strength", "cell"),
    [
        (0.0, "<td>7</td>"),
        (0.004, "<td>7</td>"),
        (0.2, '<td class="tint" style="background:rgba(0,114,178,0.20)">7</td>'),
        (9.0, '<td class="tint pale-by-day" style="background:rgba(0,114,178,1.00)">7</td>'),
        (-1.0, '<td class="tint dark-at-night" style="background:rgba(213,94,0,1.00)">7</td>'),
    ],
)
def test_a_cell_is_tinted_by_its_strength(strength: float, cell: str) -> None:
    assert shaded("7", strength) == cell


def test_the_style_paints_the_papers_and_letters_that_are_measured() -> None:
    day, night = (f"--paper:#{''.join(f'{int(part):02x}' for part in paper)}" for paper in (DAY, NIGHT))
    assert "--paper:#fff" in CSS.partition("@media")[0]
    assert day == "--paper:#ffffff"
    assert night in CSS
    rules = re.findall(r"td(\.tint[\w.-]*)\{color:#(\w+)\}", CSS)
    assert rules == [(".tint", "000"), (".tint.pale-by-day", "fff"), (".tint", "fff"), (".tint.dark-at-night", "000")]


def test_the_other_letters_can_be_read_too() -> None:
    day, night = CSS.partition("@media print")[0].split("@media (prefers-color-scheme:dark)")[:2]
    for theme, names in ((day, ("ink", "soft", "blue")), (night, ("ink", "soft", "blue"))):
        grounds = [_colour(theme, name) for name in ("paper", "pale", "glow")]
        assert all(contrast(_colour(theme, name), ground) >= 4.5 for name in names for ground in grounds)


def _colour(theme: str, name: str) -> Colour:
    found = re.search(rf"--{name}:#(\w+)", theme)
    assert found is not None
    digits = found[1] if len(found[1]) == 6 else "".join(digit * 2 for digit in found[1])
    red, green, blue = (float(int(digits[at : at + 2], 16)) for at in (0, 2, 4))
    return red, green, blue
