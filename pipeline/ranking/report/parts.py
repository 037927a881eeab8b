"""The ranking again: by each judge, template, criterion and group alone, and by the judges as one panel."""

from collections.abc import Sequence

from pipeline.ranking.breakdowns import Dimension, Part
from pipeline.ranking.panel import Panel
from pipeline.ranking.report.markup import Html, Section, element, number, part, section, table, whole
from pipeline.ranking.report.plots import Scale, ends, interval, shaded
from pipeline.ranking.values import Ranking, Unrankable
from pipeline.wording import and_more

_COLUMNS = 8
_CONTESTANTS = 40
_LISTED = 40
_TITLES: dict[Dimension, str] = {
    "judge": "Judge by judge",
    "template": "Template by template",
    "criterion": "Criterion by criterion",
    "group": "Group by group",
}


def parts_section(whole_ranking: Ranking, parts: Sequence[Part]) -> Section:
    """Return how the order changes from judge to judge, template to template and so on."""
    children = []
    for dimension, title in _TITLES.items():
        some = [one for one in parts if one.dimension == dimension]
        if some and len(some) <= _COLUMNS:
            children.append(part(title, _ranks(whole_ranking, some)))
        elif some:
            children.append(part(title, *_list(some)))
    note = (
        "Each part is ranked alone. Kendall’s τ tells how far its order agrees with the order of the whole: 1 is the "
        "same order, 0 none, −1 the reverse."
    )
    return section("Part by part", *children, note=f"{note}{_cut(whole_ranking)}")


def panel_section(whole_ranking: Ranking, panel: Panel) -> Section:
    """Return what the judges say together, by majority and weighted, beside all comparisons pooled."""
    order = [one.contestant for one in whole_ranking.standings[:_CONTESTANTS]]
    ranks = {"pooled": {one.contestant: one.rank for one in whole_ranking.standings}}
    children: list[Html] = []
    for name, result in (("majority", panel.majority), ("weighted", panel.model)):
        if isinstance(result, Unrankable):
            children.append(element("p", f"There is no {name} ranking: {result.reason}.", class_="note"))
        else:
            ranks[name] = {one.contestant: one.rank for one in result.standings}
    rows = [
        [name, *(_place(of.get(name), ranks["pooled"][name], len(order)) for of in ranks.values())] for name in order
    ]
    children.insert(0, table(["contestant", *ranks], rows, caption="Ranks by the panel", kind="matrix"))
    if not isinstance(panel.model, Unrankable):
        sharp = [[one.judge, number(one.sharpness), number(one.first_place)] for one in panel.model.judges]
        made = table(["judge", "sharpness", "first position"], sharp, caption="How sharply each judge sees")
        said = (
            "How strongly each judge follows the common scores (1 is average), and what standing first is worth to it."
        )
        children.append(part("How sharply each judge sees", made, note=said))
    note = (
        "Pooled: every comparison counts once, as in the ranking above. Majority: every judge has one vote on a pair. "
        "Weighted: common scores in which a judge who follows them sharply counts for more."
    )
    return section("The judges as one panel", *children, note=f"{note}{_cut(whole_ranking)}")


def _cut(whole_ranking: Ranking) -> str:
    size = len(whole_ranking.standings)
    return f" The first {_CONTESTANTS} of {whole(size)} contestants are shown." if size > _CONTESTANTS else ""


def _ranks(whole_ranking: Ranking, parts: Sequence[Part]) -> Html:
    """Return a row for each contestant and a column for each part, with the ranks."""
    shown = whole_ranking.standings[:_CONTESTANTS]
    columns = [
        {one.contestant: one.rank for one in each.result.standings} if isinstance(each.result, Ranking) else {}
        for each in parts
    ]
    rows: list[list[str]] = [["τ with the whole", *(number(each.tau) for each in parts)]]
    rows.append(["comparisons", *(whole(each.comparisons) for each in parts)])
    rows += [
        [
            f"{one.rank}. {one.contestant}",
            *(_place(column.get(one.contestant), one.rank, len(shown)) for column in columns),
        ]
        for one in shown
    ]
    head = ["rank in the whole, and in the part alone", *(each.value or "(none)" for each in parts)]
    return table(head, rows, caption="Ranks in each part", kind="matrix", edges={2})


def _place(rank: int | None, usual: int, contestants: int) -> Html:
    """Return a cell with a rank, blue where it is better than in the whole and orange where it is worse."""
    if rank is None:
        return shaded("·", 0.0)
    return shaded(str(rank), (usual - rank) / max(contestants / 2, 1))


def _list(parts: Sequence[Part]) -> list[Html]:
    """Return many parts, those that agree least with the whole first."""
    scale = Scale(low=-1.0, high=1.0)
    ordered = sorted(parts, key=lambda one: (one.tau is None, one.tau or 0.0))
    rows = []
    for one in ordered[:_LISTED]:
        leader = and_more(one.result.leaders, most=3) if isinstance(one.result, Ranking) else one.result.reason
        shown = "–" if one.tau is None else interval(scale, one.tau, one.tau, one.tau, mark=0.0)
        rows.append([one.value or "(none)", shown, number(one.tau), whole(one.comparisons), leader])
    head = ["part", ends(scale, title="τ with the whole"), "τ", "comparisons", "first place"]
    left = len(parts) - _LISTED
    more = [element("p", f"{whole(left)} more are in the rankings table.", class_="note")] if left > 0 else []
    return [table(head, rows, caption="Each part ranked alone", minor={3}), *more]
