"""The page as a whole."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipeline.domain import Counts
from pipeline.ranking.breakdowns import Part
from pipeline.ranking.columns import read
from pipeline.ranking.findings import Diagnostics
from pipeline.ranking.report.fitting import influence_section, residuals_section
from pipeline.ranking.report.judges import agreement_section, judges_section
from pipeline.ranking.report.markup import Html, element
from pipeline.ranking.report.record import (
    conservation_section,
    counts_of,
    excluded_section,
    provenance_section,
    tokens_section,
)
from pipeline.ranking.report.standings import answer, facts, matrix, parts_section, standings
from pipeline.ranking.report.style import CSS
from pipeline.ranking.values import Ranking, Unrankable

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_html(
    comparisons: pa.Table,
    result: Ranking | Unrankable,
    found: Diagnostics,
    *,
    experiment: str,
    parts: Sequence[Part] = (),
    conservation: Mapping[str, Counts] | None = None,
    provenance: Mapping[str, str] | None = None,
) -> str:
    """Return the page; `conservation` is by run, from the log, and is else counted from the comparisons."""
    title = f"{experiment}: ranking and judges"
    body: list[Html] = [element("h1", title), element("p", answer(result), class_="answer")]
    said = [*(result.warnings if isinstance(result, Ranking) else ()), *found.warnings]
    if said:
        listed = element("ul", *(element("li", f"{sentence}.") for sentence in said))
        body.append(element("div", element("b", "What a reader must know"), listed, class_="warn"))
    if isinstance(result, Ranking):
        data = read(comparisons, by=result.options.by)
        body += [facts(result), standings(result), matrix(data, result)]
    body += _findings(found, parts)
    tokens = tokens_section(comparisons)
    body += [tokens] if tokens is not None else []
    counts = conservation or counts_of(comparisons)
    if counts:
        body.append(conservation_section(counts))
    body.append(excluded_section(comparisons, result.excluded))
    body.append(provenance_section(_provenance(result, provenance or {})))
    return f"<!doctype html>\n{_document(title, body)}\n"


def _findings(found: Diagnostics, parts: Sequence[Part]) -> list[Html]:
    """Return the sections about judges and fit that have something to show."""
    shown: list[Html] = []
    if found.judges:
        shown.append(judges_section(found))
    if found.agreements:
        shown.append(agreement_section(found))
    if parts:
        shown.append(parts_section(parts))
    if found.calibration:
        shown.append(residuals_section(found))
    if found.influence is not None:
        shown.append(influence_section(found.influence))
    return shown


def _provenance(result: Ranking | Unrankable, given: Mapping[str, str]) -> dict[str, str]:
    if isinstance(result, Unrankable):
        return dict(given)
    options = result.options
    return {
        "method": options.method,
        "ties": options.ties,
        "position bias in the model": "yes" if options.position else "no",
        "regularisation": f"{result.regularisation:g}",
        "interval": f"{options.interval}, {options.confidence:.0%}",
        "clusters": f"{result.clusters}, by {result.cluster_kind}",
        "seed": str(options.seed),
        **given,
    }


def _document(title: str, body: Sequence[Html]) -> Html:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(CSS)),
    )
    return element("html", head, element("body", element("main", *body)), lang="en")
