"""The first thing a reader wants: who is best, how sure that is, and who beat whom."""

from collections.abc import Sequence

import numpy as np

from pipeline.ranking.breakdowns import Part
from pipeline.ranking.columns import Comparisons, Floats
from pipeline.ranking.report.document import facts
from pipeline.ranking.report.markup import (
    Html,
    Section,
    element,
    number,
    numbered,
    part,
    percent,
    section,
    table,
    whole,
)
from pipeline.ranking.report.plots import Scale, ends, interval, scale_for, shaded
from pipeline.ranking.values import Ranking, Standing, Unrankable
from pipeline.wording import and_more, counted

_SHOWN = 100
_NAMED = 3
_WITH_NUMBERS = 25
_MATRIX = 70
_CLUSTERS = {
    "pair": "They allow the comparisons of a pair to depend on one another.",
    "group": "They allow the comparisons of a group of samples to depend on one another.",
    "row": "They take every comparison as independent of the others.",
}
_METHODS = {
    "bradley-terry": (
        "A score says how strong a contestant is: whoever leads by 1.1 wins three comparisons of four, "
        "by 2.2 nine of ten"
    ),
    "elo": "Elo ratings, averaged over random orders of the comparisons: whoever leads by 191 wins three of four",
    "win-rate": "The share of comparisons won, a tie counting half",
}


def verdict(result: Ranking | Unrankable, *, unfinished: bool) -> str:
    """Return the page's headline."""
    so_far = "So far, " if unfinished else ""
    if isinstance(result, Unrankable):
        return f"{so_far or 'T'}{'t' if so_far else ''}here is no ranking: {result.reason}."
    leaders = result.leaders
    rest = result.rivals
    first = _few(leaders)
    if len(leaders) == len(result.standings):
        everyone = first if len(leaders) <= _NAMED else f"{'all' if so_far else 'All'} {len(leaders):,} contestants"
        return f"{so_far}{everyone} share first place: nobody is better."
    if len(leaders) > 1:
        others = "every other contestant is proven weaker"
        also = f"{_few(rest)} cannot be told apart from them" if rest else others
        return f"{so_far}{first} share first place: {also}."
    if not rest:
        return f"{so_far}{first} is best: every other contestant is proven weaker."
    return f"{so_far}{first} comes first, but {_few(rest)} cannot be told apart from it."


def _few(names: Sequence[str]) -> str:
    """Return the names, of many the first; one more name is no longer than a word about it."""
    return and_more(names, most=_NAMED + (len(names) == _NAMED + 1))


def verdict_of_part(of: Part) -> str:
    """Return in a line who is first in a part of a study, and how far that is like the whole."""
    like = "" if of.tau is None else f", τ with the whole {of.tau:.2f}"
    first = _few(of.result.leaders) if isinstance(of.result, Ranking) else of.result.reason
    return f"{of.value or '(none)'}: {counted(of.comparisons, 'comparison')}{like}; first: {first}"


def numbers(result: Ranking) -> Html:
    """Return the few numbers that describe the whole study, each in words."""
    left = sum(result.excluded.values())
    shown = [
        (whole(len(result.standings)), f"contestants, in {counted(len(result.tiers), 'tier')}"),
        (whole(result.comparisons), f"comparisons counted; {whole(left)} left out"),
    ]
    if result.reliability is not None and result.separation is not None:
        shown += [
            (percent(result.reliability), "of the spread of the scores is real; the rest is chance (reliability)"),
            (number(result.separation, 1), "the real spread of the scores, divided by their error (separation)"),
        ]
    return facts(shown)


def standings(result: Ranking) -> Section:
    """Return the ranking with its intervals."""
    shown = result.standings[:_SHOWN]
    scale = scale_for([value for one in shown for value in (one.low, one.high, one.score)])
    middle = {"bradley-terry": 0.0, "elo": 1000.0, "win-rate": 0.5}[result.options.method]
    rank = element("span", "#", title="rank")
    head = ["contestant", rank, "places", ends(scale, title="score"), "score", "win rate", "won", "lost", "tied"]
    left = len(result.standings) - len(shown)
    more = [element("p", f"{whole(left)} more are in the rankings table.", class_="note")] if left else []
    sure = f"{result.options.confidence:.0%}".replace("%", " %")
    note = (
        f"{_METHODS[result.options.method]}. Bars are {sure} intervals. {_CLUSTERS[result.cluster_kind]} “Places” are "
        "those the data leave open. A heavy line ends a tier: everyone below it is proven weaker than the best of the "
        "tier above it."
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
        said = (
            "* belongs to a set of contestants that never won against, or never lost to, the others; "
            "the data put no limit on the gap."
        )
        more.append(element("p", said, class_="note"))
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
    note = "On the scale of the scores; the scores above are what is left once these are taken out."
    made = table(["effect", "size", "interval"], rows, caption="Effects in the model besides the scores")
    return [part("What else is in the model", made, note=note)]


def matrix(data: Comparisons, result: Ranking) -> Section:
    """Return who beat whom how often, best first; many contestants are shown by colour alone."""
    names = [one.contestant for one in result.standings[:_MATRIX]]
    dense = len(names) > _WITH_NUMBERS
    won, count = _duels(data, names)
    rows = [
        [
            f"{one + 1}. {name}",
            *(
                _duel(name, names[other], won[one, other], count[one, other], dense=dense)
                for other in range(len(names))
            ),
        ]
        for one, name in enumerate(names)
    ]
    size = len(data.contestants)
    shown = f" The first {_MATRIX} of {whole(size)} contestants are shown." if size > _MATRIX else ""
    cells = (
        "Blue cells: the row won more often than the column; orange: less often" if dense else "Percent won by the row"
    )
    note = f"{cells}, a tie counting half. Empty on the diagonal; a dot where two never met.{shown}"
    made = table(["", *numbered(names)], rows, caption="Win matrix", kind="matrix dense" if dense else "matrix")
    return section("Who beat whom", made, note=note)


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


def _duel(one: str, other: str, won: float, count: float, *, dense: bool) -> Html:
    if one == other or not count:
        return shaded("" if one == other else "·", 0.0)
    share = won / count
    shown = "" if dense else f"{share * 100:.0f}"
    return shaded(shown, share * 2 - 1, title=f"{one} against {other}: {won:g} of {count:g}")
