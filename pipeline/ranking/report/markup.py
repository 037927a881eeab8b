"""HTML that cannot be broken by what it shows: every text is escaped unless it was made here."""

import html
import re
from collections.abc import Container, Iterable, Sequence

_VOID = frozenset({"meta", "wbr"})
_NARROW = 4  # so many columns fit a phone
_UNBROKEN = 20  # so many letters fit the first column on a phone
_NAME = re.compile(r"(\d+\. )?[^\s-]+-\S*[^\s-]( ·)?")  # one word with a hyphen inside, perhaps numbered


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str) -> Html:
    """Return an element; a trailing underscore in an attribute's name is dropped, others become hyphens."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(value, quote=True)}"'
        for name, value in attributes.items()
    )
    if tag in _VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{joined(children)}</{tag}>")


def joined(children: Iterable[str]) -> Html:
    """Return the children in a row, escaped where they are not markup."""
    return Html("".join(child if isinstance(child, Html) else html.escape(child, quote=False) for child in children))


class Section(Html):
    """A part of a page that knows its heading."""

    heading: str


def section(title: str, *children: str, note: str = "") -> Section:
    """Return a section with its heading and an explaining sentence; the page's contents point to it."""
    explained = [element("p", note, class_="note")] if note else []
    made = Section(element("section", element("h2", title, id=anchor(title)), *explained, *children))
    made.heading = title
    return made


def anchor(title: str) -> str:
    """Return the name by which the section of this title is pointed at."""
    return "-".join("".join(letter if letter.isalnum() else " " for letter in title.lower()).split())


def part(title: str, *children: str, note: str = "") -> Html:
    """Return a smaller heading with what belongs to it."""
    explained = [element("p", note, class_="note")] if note else []
    return joined([element("h3", title), *explained, *children])


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str,
    kind: str = "plain",
    edges: Container[int] = (),
    minor: Container[int] = (),
) -> Html:
    """Return a table that scrolls sideways where the page is narrow; the first cell of a row is its heading.

    The caption is for readers who cannot see the heading above. A line is drawn above the rows numbered in `edges`;
    columns numbered in `minor` are hidden on a phone. Only a table that may be wider than a phone is a stop for the
    keyboard.
    """
    titles = [_title(title, minor=at in minor) for at, title in enumerate(head)]
    lines = []
    for place, row in enumerate(rows):
        cells = [_cell(cell, minor=at in minor) for at, cell in enumerate(row) if at]
        edge = {"class_": "edge"} if place in edges else {}
        lines.append(element("tr", element("th", breakable(row[0]), scope="row"), *cells, **edge))
    inner = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *titles)),
        element("tbody", *lines),
        class_=kind,
    )
    wide = kind != "words" and sum(at not in minor for at in range(len(head))) > _NARROW
    reached = {"tabindex": "0", "role": "region", "aria_label": caption} if wide else {}
    return element("div", inner, class_="scroll", **reached)


def breakable(text: str) -> Html:
    """Return the text with places where a long name may go on in the next line: after slashes and double hyphens.

    A model's name is not broken at its hyphens if it is short enough for a phone.
    """
    if isinstance(text, Html):
        return text
    pieces = text.replace("--", "--\0").replace("/", "/\0").replace(" · ", " ·\0 ").split("\0")
    return Html(element("wbr").join(_piece(piece) for piece in pieces))


def _piece(text: str) -> Html:
    is_name = _NAME.fullmatch(text) and len(text) <= _UNBROKEN
    return element("span", text, class_="whole") if is_name else joined([text])


def _title(value: str, *, minor: bool) -> Html:
    if isinstance(value, Html) and value.startswith("<th"):
        return value
    return element("th", breakable(value), scope="col", **_minor(minor=minor))


def _cell(value: str, *, minor: bool) -> Html:
    if isinstance(value, Html) and value.startswith("<td"):
        return value
    return element("td", value, **_minor(minor=minor))


def _minor(*, minor: bool) -> dict[str, str]:
    return {"class_": "minor"} if minor else {}


def numbered(names: Sequence[str]) -> list[Html]:
    """Return 1, 2, 3 … as column headings that show the name when pointed at, and say it when read aloud."""
    return [
        element("th", str(place), scope="col", title=name, aria_label=f"{place}. {name}")
        for place, name in enumerate(names, 1)
    ]


def number(value: float | None, digits: int = 2) -> str:
    """Return the number with a true minus sign; a dash where there is none."""
    if value is None:
        return "–"
    shown = f"{value:.{digits}f}"
    return shown.replace("-", "\N{MINUS SIGN}") if float(shown) else shown.lstrip("-")


def percent(value: float | None, digits: int = 0) -> str:
    """Return a share in percent."""
    return "–" if value is None else f"{value * 100:.{digits}f} %"


def whole(value: int) -> str:
    """Return a whole number with commas between thousands, as on the screen."""
    return f"{value:,}"
