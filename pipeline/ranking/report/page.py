"""The page about a pairwise study as a whole."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipeline.domain import Counts
from pipeline.prices import Spent
from pipeline.ranking.breakdowns import Part
from pipeline.ranking.columns import read
from pipeline.ranking.findings import Diagnostics
from pipeline.ranking.panel import Panel
from pipeline.ranking.report.document import contents, document, glossary, notices, opening, provisional
from pipeline.ranking.report.fitting import influence_section, residuals_section
from pipeline.ranking.report.judges import agreement_section, judges_section, trust
from pipeline.ranking.report.markup import Html, Section
from pipeline.ranking.report.method import made, words
from pipeline.ranking.report.parts import panel_section, parts_section
from pipeline.ranking.report.record import (
    conservation_section,
    counts_of,
    excluded_section,
    provenance_section,
    tokens_section,
)
from pipeline.ranking.report.standings import matrix, numbers, standings, verdict
from pipeline.ranking.values import Ranking, RankingOptions, Unrankable
from pipeline.samples.absent import absent_of

_WORDS = {
    "Places": "The ranks that the data leave open, corrected for looking at all contestants at once.",
    "Told apart": "Proven weaker, by a test of all differences from the first at once; of several firsts, the surest.",
    "Tier": (
        "From its best contestant down to the last who cannot be told apart from that one. Everyone below is proven "
        "weaker; of those in between, some may be too: their error is smaller."
    ),
    "Reverse consistency": "How often a judge names the same winner when the two samples are swapped.",
    "Position bias": (
        "A preference for whichever sample stands first (or second), seen in pairs whose winner changes with the "
        "order, in log-odds: 1.1 is three wins of four between equals."
    ),
    "p": "How often chance alone would show at least this much. Below 0.05 it is worth a second look.",
    "κ and α": "Cohen’s and Krippendorff’s measures of agreement: 0 is what chance gives, 1 complete agreement.",
    "Circle": "A beats B, B beats C and C beats A: no order can be right about all three.",
}


def report_html(
    comparisons: pa.Table,
    result: Ranking | Unrankable,
    found: Diagnostics,
    *,
    experiment: str,
    parts: Sequence[Part] = (),
    panel: Panel | None = None,
    options: RankingOptions | None = None,
    length: bool = False,
    conservation: Mapping[str, Counts] | None = None,
    costs: Mapping[str, Spent] | None = None,
    provenance: Mapping[str, str] | None = None,
    unread: Sequence[str] = (),
) -> str:
    """Return the page; `conservation` is by run, from the log, and is else counted from the comparisons.

    `costs` is by judge; `unread` are answers that no outcome could be read from, as judges wrote them; `options` and
    `length` (whether the model held a preference for length) are what was asked for, ranking or not.
    """
    asked = options or (result.options if isinstance(result, Ranking) else RankingOptions())
    counts = conservation or counts_of(comparisons)
    total = sum(counts.values(), Counts())
    unfinished = total.open > 0
    sections = [
        *_answers(comparisons, result, found, parts, panel),
        *_books(
            comparisons,
            result,
            counts,
            provenance={**made(result, asked, length=length), **(provenance or {})},
            costs=costs,
            unread=unread,
        ),
        glossary({**words(asked.method), **_WORDS}),
    ]
    body: list[Html] = [provisional(total.ended, total.planned)] if unfinished else []
    body.append(opening(f"{experiment} · pairwise study", verdict(result, unfinished=unfinished), trust(found)))
    if isinstance(result, Ranking):
        body.append(numbers(result))
    said = [*(result.warnings if isinstance(result, Ranking) else ()), *found.warnings]
    said += [str(absent) for absent in absent_of(comparisons)]
    body += [notices("What a reader must know", said)] if said else []
    body += [contents(sections), *sections]
    mark = " (provisional)" if unfinished else ""
    return document(f"{experiment}: ranking and judges{mark}", body)


def _answers(
    comparisons: pa.Table,
    result: Ranking | Unrankable,
    found: Diagnostics,
    parts: Sequence[Part],
    panel: Panel | None,
) -> list[Section]:
    """Return the sections that answer something; only those that have something to show."""
    shown: list[Section] = []
    if isinstance(result, Ranking):
        shown.append(standings(result))
        shown.append(matrix(read(comparisons, by=result.options.by), result))
    if found.judges:
        shown.append(judges_section(found))
    if found.agreements:
        shown.append(agreement_section(found))
    if isinstance(result, Ranking) and panel is not None:
        shown.append(panel_section(result, panel))
    if isinstance(result, Ranking) and parts:
        shown.append(parts_section(result, parts))
    if found.calibration:
        shown.append(residuals_section(found, note=_whose(result)))
    if found.influence is not None:
        shared = len(result.leaders) if isinstance(result, Ranking) and not _whose(result) else 1
        shown.append(influence_section(found.influence, first=shared, note=_whose(result)))
    return shown


def _books(
    comparisons: pa.Table,
    result: Ranking | Unrankable,
    counts: Mapping[str, Counts],
    *,
    provenance: Mapping[str, str],
    costs: Mapping[str, Spent] | None,
    unread: Sequence[str],
) -> list[Section]:
    """Return the sections that account for the study."""
    shown: list[Section] = []
    tokens = tokens_section(comparisons, costs)
    if tokens is not None:
        shown.append(tokens)
    if counts:
        shown.append(conservation_section(counts))
    shown.append(excluded_section(comparisons, result.excluded, unread=unread))
    shown.append(provenance_section(provenance))
    return shown


def _whose(result: Ranking | Unrankable) -> str:
    """Return by which scores the fit is judged, where they are not those of the ranking."""
    other = isinstance(result, Ranking) and result.options.method != "bradley-terry"
    return "By Bradley–Terry scores, not those of the ranking above." if other else ""
