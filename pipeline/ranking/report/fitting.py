"""How well one scale explains the results, and what first place depends on."""

from pipeline.ranking.findings import Diagnostics, Influence
from pipeline.ranking.report.markup import Section, element, number, part, percent, section, table, whole
from pipeline.ranking.report.plots import scatter

_SHOWN = 10
_HARDLY = 0.01


def residuals_section(found: Diagnostics, *, note: str = "") -> Section:
    """Return expected against seen results, and the pairs that fit worst; `note` says by which scores."""
    points = [(step.expected, step.observed, step.comparisons) for step in found.calibration]
    plot = scatter(
        points, label="Share won by the stronger side, expected and seen", across="expected share", up="share seen"
    )
    rows = [
        [
            f"{one.one} – {one.other}", whole(one.comparisons), percent(one.observed), percent(one.expected, 1),
            _usual(one.usual),
        ]
        for one in found.residuals[:_SHOWN]
    ]  # fmt: skip
    head = ["contestants", "comparisons", "seen", "expected", "by chance"]
    worst = part(
        "What the scores explain worst",
        table(head, rows, caption="Pairs of contestants that the scores explain worst"),
        note=(
            "Shares are those of the first named. “By chance” says how many of all pairs would stray at least as far "
            "if the scores were right: a pair below 0.05 is worth a look, one at 1 or more is not."
        ),
    )
    said = (
        "If one scale explains the results, the stronger side wins as often as expected: dots lie on the dashed line."
    )
    return section("Does one scale fit?", plot, worst, note=f"{said} {note}".rstrip())


def influence_section(held: Influence, *, first: int = 1, note: str = "") -> Section:
    """Return how few comparisons hold the leader up, and which; `first` is how many share first place.

    `note` says by which scores.
    """
    leader = held.leader if first == 1 else f"{held.leader}, one of {whole(first)} who share first place,"
    if held.needed is None:
        said = (
            f"No tenth of the {whole(held.comparisons)} comparisons was found whose removal would take first place "
            f"from {held.leader}."
        )
        return section("What first place depends on", element("p", said), note=note)
    share = held.needed / held.comparisons
    said = (
        f"Without {whole(held.needed)} of the {whole(held.comparisons)} comparisons ({percent(share, 2)}), "
        f"{leader} would no longer be first; {held.challenger} is closest."
    )
    samples = any((one.first, one.second) != (one.first_sample, one.second_sample) for one in held.rows)
    rows = [
        [
            one.winner or "tie", *([one.first_sample, one.second_sample] if samples else [one.first, one.second]),
            one.judge,
        ]
        for one in held.rows[:_SHOWN]
    ]  # fmt: skip
    head = ["winner", "shown first", "shown second", "judge"]
    made = table(head, rows, caption="The comparisons that matter most", kind="words")
    rest = part("The comparisons that matter most", made)
    return section("What first place depends on", element("p", said), rest, note=note)


def _usual(pairs: float) -> str:
    return "< 0.01" if pairs < _HARDLY else number(pairs, 2 if pairs < 1 else 0)
