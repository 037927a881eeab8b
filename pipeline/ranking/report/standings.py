"""The first thing a reader wants: who is best, how sure that is, and who beat whom."""

from collections.abc import Sequence

import numpy as np

from pipeline.ranking.breakdowns import Part
from pipeline.ranking.columns import Comparisons, Floats
from pipeline.ranking.connectivity import listed
from pipeline.ranking.report.markup import Html, element, number, numbered, percent, section, table, whole
from pipeline.ranking.report.plots import Scale, ends, interval, scale_for, shaded
from pipeline.ranking.values import Ranking, Standing, Unrankable

_SHOWN = 100
_MATRIX = 25
_CLUSTERS = {
    "pair": "; they allow the comparisons of a pair to depend on one another",
    "group": "; they allow the comparisons of a group of samples to depend on one another",
    "row": " that take every comparison as independent of the others",
}
_METHODS = {
    "bradley-terry": "Bradley-Terry scores in log-odds around a mean of zero; a lead of 1.1 wins three of four",
    "elo": "Elo ratings, averaged over random orders of the comparisons",
    "win-rate": "win rates, a tie counting half",
}


def answer(result: Ranking | Unrankable) -> str:
    """Return the page's first sentence."""
    if isinstance(result, Unrankable):
        return f"There is no ranking: {result.reason}."
    first, best = result.standings[0], result.tiers[0]
    if len(best) == 1:
        return f"{first.contestant} is best; every other contestant is proven weaker."
    rest = [name for name in best if name != first.contestant]
    verb = "cannot be told apart from it" if len(rest) > 1 else "cannot be told apart from it either way"
    return f"{first.contestant} comes first, but {listed(rest)} {verb}."


def facts(result: Ranking) -> Html:
    """Return the few numbers that describe the whole study."""
    shown = [
        (whole(len(result.standings)), "contestants"),
        (whole(result.comparisons), "comparisons counted"),
        (whole(sum(result.excluded.values())), "rows left out"),
        (whole(len(result.tiers)), "tiers"),
        (number(result.reliability), "reliability"),
        (number(result.separation, 1), "separation index"),
    ]
    return element(
        "ul", *(element("li", element("b", big), element("span", small)) for big, small in shown), class_="facts"
    )


def standings(result: Ranking) -> Html:
    """Return the ranking with its intervals."""
    shown = result.standings[:_SHOWN]
    scale = scale_for([value for one in shown for value in (one.low, one.high, one.score)])
    middle = {"bradley-terry": 0.0, "elo": 1000.0, "win-rate": 0.5}[result.options.method]
    head = ["contestant", "rank", "places", ends(scale, title="score"), "score", "win rate", "won", "lost", "tied"]
    left = len(result.standings) - len(shown)
    more = [element("p", f"{left} more are in the rankings table.", class_="note")] if left else []
    note = (
        f"{_METHODS[result.options.method]}. Bars are {result.options.confidence:.0%} intervals"
        f"{_CLUSTERS[result.cluster_kind]}. “Places” are those the data leave open, "
        "corrected for all the contestants looked at. A line between rows begins a new tier: whoever stands below "
        "it is proven weaker than the best above it."
    )
    tiers = [one.tier for one in shown]
    made = table(
        head,
        [_row(one, scale, middle) for one in shown],
        caption=f"Ranking of {len(result.standings)} contestants",
        kind="ranking",
        edges={at for at in range(1, len(tiers)) if tiers[at] != tiers[at - 1]},
        minor={5, 6, 7, 8},
    )
    if not all(one.bounded for one in shown):
        more.append(element("p", "* only won or only lost: the data set no limit to this score.", class_="note"))
    return section("Ranking", made, *more, *_effects(result), note=note)


def _row(one: Standing, scale: Scale, middle: float) -> list[str]:
    places = str(one.place_low) if one.place_low == one.place_high else f"{one.place_low}–{one.place_high}"
    return [
        one.contestant if one.bounded else f"{one.contestant} *",
        str(one.rank),
        places,
        interval(scale, one.score, one.low, one.high, mark=middle),
        number(one.score),
        percent(one.win_rate),
        whole(one.wins),
        whole(one.losses),
        whole(one.ties),
    ]


def _effects(result: Ranking) -> list[Html]:
    if not result.effects:
        return []
    rows = [[one.name, number(one.value), f"{number(one.low)} to {number(one.high)}"] for one in result.effects]
    return [table(["effect", "log-odds", "interval"], rows, caption="What else the model holds, besides the scores")]


def matrix(data: Comparisons, result: Ranking) -> Html:
    """Return who beat whom how often, best first."""
    names = [one.contestant for one in result.standings[:_MATRIX]]
    won, count = _duels(data, names)
    rows = [
        [
            f"{one + 1}. {name}",
            *(_duel(name, names[other], won[one, other], count[one, other]) for other in range(len(names))),
        ]
        for one, name in enumerate(names)
    ]
    note = "Percent of comparisons that the row won against the column, ties counting half; a dot where they never met."
    size = len(data.contestants)
    caption = "Win matrix" if size <= _MATRIX else f"Win matrix of the first {_MATRIX} of {size}"
    return section("Who beat whom", table(["", *numbered(names)], rows, caption=caption, kind="matrix"), note=note)


def _duels(data: Comparisons, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Return points and counts of the named contestants against one another."""
    codes = {name: code for code, name in enumerate(data.contestants)}
    place = np.full(len(data.contestants), -1)
    place[[codes[name] for name in names]] = np.arange(len(names))
    first, second = place[data.first], place[data.second]
    both = (first >= 0) & (second >= 0)
    points = data.halves[both] / 2
    won, count = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
    np.add.at(won, (first[both], second[both]), points)
    np.add.at(won, (second[both], first[both]), 1 - points)
    np.add.at(count, (first[both], second[both]), 1)
    return won, count + count.T


def _duel(one: str, other: str, won: float, count: float) -> Html:
    if one == other or not count:
        return shaded("" if one == other else "·", 0.0)
    share = won / count
    return shaded(f"{share * 100:.0f}", share * 2 - 1, title=f"{one} against {other}: {won:g} of {count:g}")


def parts_section(parts: Sequence[Part]) -> Html:
    """Return how the ranking changes from judge to judge, template to template and so on."""
    rows = []
    for part in parts:
        result = part.result
        leader = result.standings[0].contestant if isinstance(result, Ranking) else result.reason
        tau = number(part.tau)
        rows.append([part.value or "(none)", part.dimension, whole(part.comparisons), tau, leader])
    note = (
        "Kendall’s τ tells how far the order of a part agrees with the order of the whole: 1 is the same order, 0 none."
    )
    made = table(
        ["part", "by", "comparisons", "τ with the whole", "first place"], rows, caption="Each part ranked alone"
    )
    return section("Part by part", made, note=note)
