"""The frame of a page: head, first lines, contents and the words that need explaining. It knows no task."""

from collections.abc import Mapping, Sequence

from pipeline.ranking.report.markup import Html, Section, anchor, element, section
from pipeline.ranking.report.style import CSS

_UNFOLDED = 6
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(title: str, body: Sequence[Html]) -> str:
    """Return the whole page: it runs nothing and asks for nothing, whatever it shows."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(CSS)),
    )
    page = element("html", head, element("body", element("main", *body)), lang="en")
    return f"<!doctype html>\n{page}\n"


def opening(above: str, verdict: str, *details: str) -> Html:
    """Return the first lines: what this is, the verdict as the headline, and what qualifies it."""
    lines = [element("p", line, class_="answer") for line in details if line]
    return element("header", element("p", above, class_="above"), element("h1", verdict), *lines)


def provisional(ended: int, planned: int) -> Html:
    """Return the notice that stands above everything on a page about an unfinished study."""
    said = f"{ended:,} of {planned:,} requests have ended. What this page says may change with the rest."
    return element("p", element("b", "Provisional."), f" {said}", class_="open", role="status")


def notices(title: str, sentences: Sequence[str]) -> Html:
    """Return what a reader must know before believing the page; of many sentences, the later ones are folded away."""
    items = [element("li", f"{sentence}.") for sentence in sentences]
    shown = len(items) if len(items) <= _UNFOLDED + 1 else _UNFOLDED
    parts = [element("h2", title), element("ul", *items[:shown])]
    if items[shown:]:
        folded = element("summary", f"{len(items) - shown} more"), element("ul", *items[shown:])
        parts.append(element("details", *folded))
    return element("section", *parts, class_="warn")


def contents(sections: Sequence[Section]) -> Html:
    """Return links to the sections."""
    links = [element("a", each.heading, href=f"#{anchor(each.heading)}") for each in sections]
    return element("nav", *links, aria_label="Contents")


def facts(shown: Sequence[tuple[str, str]]) -> Html:
    """Return a few numbers, large, each with what it counts."""
    return element(
        "ul", *(element("li", element("b", big), element("span", small)) for big, small in shown), class_="facts"
    )


def glossary(words: Mapping[str, str]) -> Section:
    """Return the words of the page that not every reader knows."""
    entries = [part for word, meaning in words.items() for part in (element("dt", word), element("dd", meaning))]
    return section("Words on this page", element("dl", *entries))
