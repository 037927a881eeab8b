"""Can the judges be trusted: consistency, bias and agreement."""

from collections.abc import Sequence

from pipeline.ranking.findings import Diagnostics, JudgeFindings
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
from pipeline.wording import and_more, counted

_WIDEST_BIAS = 3.0
_DOUBT = 0.05
_TWO = 2
_PLACES = ("first", "second")
_ALPHA = "α\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
_DEGREES = (
    (0.8, "agree closely"),
    (0.6, "agree well"),
    (0.4, "agree moderately"),
    (0.2, "agree little"),
    (-2.0, "hardly agree"),
)


def trust(found: Diagnostics) -> str:
    """Return in a sentence or two whether the judges can be trusted."""
    known = [judge for judge in found.judges if judge.position is not None and judge.consistency is not None]
    if not found.judges:
        return ""
    if not known:
        return "No pair was judged in both orders, so nothing is known about the judges’ preference for a position."
    said = [_steady(known), *_leaning(known)]
    every = found.alpha
    if every is not None and every.alpha is not None:
        degree = next(word for least, word in _DEGREES if every.alpha >= least)
        said.append(f"The {every.judges} judges {degree} with one another ({_ALPHA}{number(every.alpha)}).")
    return " ".join(said)


def _steady(judges: Sequence[JudgeFindings]) -> str:
    kept = sum(judge.consistency.share * judge.consistency.count for judge in judges if judge.consistency)
    pairs = sum(judge.consistency.count for judge in judges if judge.consistency)
    who = "The judge" if len({judge.judge for judge in judges}) == 1 else "The judges"
    return f"{who} kept {percent(kept / pairs)} of the winners when the two samples changed places."


def _leaning(judges: Sequence[JudgeFindings]) -> list[str]:
    """Return who prefers a position more than chance explains, by template where templates differ."""
    liked = [(judge, _liked_place(judge)) for judge in judges]
    names = {judge.judge for judge in judges}
    places = {place for _, place in liked}
    if places == {""}:
        return ["No preference for a position is seen."]
    if len(places) == 1:
        (place,) = places
        return [f"It favours the {place} position." if len(names) == 1 else f"All of them favour the {place} position."]
    if len(names) == 1:
        by_place = [(place, [judge.template for judge, own in liked if own == place]) for place in _PLACES]
        with_ = [
            f"the {place} position with template {and_more(templates, most=5)}"
            for place, templates in by_place
            if templates
        ]
        return [f"It favours {' and '.join(with_)}."]
    said = []
    for place in _PLACES:
        who = sorted({_leaner(judge, liked) for judge, own in liked if own == place})
        if who:
            said.append(f"{and_more(who, most=5)} {'favours' if len(who) == 1 else 'favour'} the {place} position.")
    return said


def _liked_place(judge: JudgeFindings) -> str:
    """Return the position the judge prefers with this template; empty where chance explains what was seen."""
    bias = judge.position
    if bias is None or bias.p_value >= _DOUBT:
        return ""
    return _PLACES[0] if bias.to_first > bias.to_second else _PLACES[1]


def _leaner(judge: JudgeFindings, liked: Sequence[tuple[JudgeFindings, str]]) -> str:
    """Return the judge's name, with the template where it does not lean alike with all of them."""
    alike = len({place for other, place in liked if other.judge == judge.judge}) == 1
    return judge.judge if alike else f"{judge.judge} with template {judge.template}"


def judges_section(found: Diagnostics) -> Section:
    """Return each judge's rates, consistency and bias."""
    children = [_rates(found.judges)]
    children += _consistency(found.judges)
    children += _position(found.judges)
    children += _length(found.judges)
    children += _own(found)
    children += _cycles(found)
    return section("Judges", *children)


def agreement_section(found: Diagnostics) -> Section:
    """Return the heat map of agreement beyond chance, and alpha for all."""
    names = sorted({name for two in found.agreements for name in (two.one, two.other)})
    values = {(two.one, two.other): two for two in found.agreements}
    rows = []
    for place, one in enumerate(names, 1):
        cells: list[str] = [f"{place}. {one}"]
        for other in names:
            two = values.get((one, other)) or values.get((other, one))
            if two is None or two.kappa is None:
                cells.append(shaded("" if one == other else "·", 0.0))
            else:
                about = f"raw {two.raw:.0%}, kappa {number(two.low)} to {number(two.high)}, {two.pairs} pairs"
                label = f"{number(two.kappa)} ({percent(two.raw)})"
                cells.append(shaded(label, two.kappa, title=about))
        rows.append(cells)
    made = table(["κ (raw agreement)", *numbered(names)], rows, caption="Cohen’s κ (raw agreement)", kind="matrix")
    children = [made]
    every = found.alpha
    if every is not None:
        who = "Both" if every.judges == _TWO else f"All {every.judges}"
        beyond = (
            "Krippendorff’s α is not known, because every verdict is the same"
            if every.alpha is None
            else f"Krippendorff’s α = {number(every.alpha)} ({number(every.low)} to {number(every.high)})"
        )
        said = f"{who} judges together: {beyond}, raw agreement {percent(every.raw)}, {counted(every.pairs, 'pair')}."
        children.append(element("p", said))
    note = (
        "A judge’s verdict on a pair is the majority of its answers in both orders and all repeats. "
        "κ and α are 0 where judges agree as often as chance would have it and 1 where they always agree."
    )
    return section("Do the judges agree?", *children, note=note)


def _names(judges: Sequence[JudgeFindings]) -> list[str]:
    """Return what each finding is about: the judge, and the template where there are several."""
    several = len({found.template for found in judges}) > 1
    return [f"{found.judge} · {found.template}" if several else found.judge for found in judges]


def _rates(judges: Sequence[JudgeFindings]) -> Html:
    statuses = sorted({status for found in judges for status in found.statuses}, key=lambda name: (name != "ok", name))
    rows = []
    for name, found in zip(_names(judges), judges, strict=True):
        answered = found.first_wins + found.second_wins + found.ties
        shares = [percent(found.statuses.get(status, 0) / found.rows, 1) for status in statuses]
        rows.append([name, whole(found.rows), *shares, percent(found.ties / answered if answered else None, 1)])
    made = table(["judge", "rows", *statuses, "ties"], rows, caption="How the requests ended")
    return part("How the requests ended", made, note="Ties are counted among the answers that could be read.")


def _consistency(judges: Sequence[JudgeFindings]) -> list[Html]:
    scale = Scale(low=0.0, high=1.0)
    rows = [
        [
            name,
            interval(scale, kept.share, kept.low, kept.high, mark=0.5),
            percent(kept.share, 1),
            whole(kept.count),
        ]
        for name, found in zip(_names(judges), judges, strict=True)
        if (kept := found.consistency) is not None
    ]
    if not rows:
        return [
            element(
                "p", "No pair was judged in both orders: consistency and position bias are not known.", class_="note"
            )
        ]
    head = ["judge", ends(scale, title="same winner", share=True), "share", "pairs"]
    return [part("Same winner when the order is reversed", table(head, rows, caption="Reverse consistency"))]


def _position(judges: Sequence[JudgeFindings]) -> list[Html]:
    every = zip(_names(judges), judges, strict=True)
    known = [(name, bias) for name, found in every if (bias := found.position) is not None]
    if not known:
        return []
    values = [value for _, bias in known for value in (bias.bias, bias.low, bias.high) if value is not None]
    scale = scale_for([max(min(value, _WIDEST_BIAS), -_WIDEST_BIAS) for value in values], include=(-0.5, 0.5))
    rows = []
    for name, bias in known:
        leaning = 0 if bias.to_first == bias.to_second else (1 if bias.to_first > bias.to_second else -1)
        value = bias.bias if bias.bias is not None else leaning * _WIDEST_BIAS
        low = bias.low if bias.low is not None else -_WIDEST_BIAS
        high = bias.high if bias.high is not None else _WIDEST_BIAS
        chance = "< 0.0001" if bias.p_value < 1e-4 else f"{bias.p_value:.4f}"
        plot = interval(scale, value, low, high, mark=0.0)
        shown = number(bias.bias) if bias.bias is not None else ("∞" if leaning > 0 else "\N{MINUS SIGN}∞")
        rows.append([name, plot, shown, whole(bias.to_first), whole(bias.to_second), chance])
    head = ["judge", ends(scale, title="second ← → first"), "size", "to first", "to second", "p"]
    note = (
        "Only pairs whose winner changed with the order tell a preference for a position from quality; "
        "p is the exact sign test on them."
    )
    made = table(head, rows, caption="Position bias", minor={3, 4})
    return [part("Preference for the first or the second position", made, note=note)]


def _length(judges: Sequence[JudgeFindings]) -> list[Html]:
    scale = Scale(low=0.0, high=1.0)
    rows = [
        [
            name,
            interval(scale, longer.share, longer.low, longer.high, mark=0.5),
            percent(longer.share, 1),
            whole(longer.count),
        ]
        for name, found in zip(_names(judges), judges, strict=True)
        if (longer := found.longer_wins) is not None
    ]
    if not rows:
        return []
    note = "Longer samples may also be better ones: this share shows a habit, not a fault."
    made = table(
        ["judge", ends(scale, title="longer won", share=True), "share", "comparisons"],
        rows,
        caption="Length",
        minor={3},
    )
    return [part("How often the longer sample wins", made, note=note)]


def _own(found: Diagnostics) -> list[Html]:
    rows = [
        [
            own.judge, own.maker, percent(own.own), percent(own.others),
            "–" if own.difference is None else f"{number(own.difference)} ({number(own.low)} to {number(own.high)})",
            whole(own.comparisons),
        ]
        for own in found.self_preferences
    ]  # fmt: skip
    if not rows:
        return []
    head = ["judge", "maker", "own win", "by other judges", "difference", "comparisons"]
    note = (
        "How often contestants of the judge’s own maker win with it, and with other makers’ judges on the same pairs."
    )
    made = table(head, rows, caption="Self-preference")
    return [part("Preference for one’s own", made, note=note)]


def _cycles(found: Diagnostics) -> list[Html]:
    rows = [
        [one.judge, percent(one.rate, 1), whole(one.cycles), whole(one.triads)] for one in found.cycles if one.triads
    ]
    if not rows:
        return []
    note = (
        "Triples in which A beats B, B beats C and C beats A. Coin flips would make a quarter of all triples circular."
    )
    made = table(["judge", "rate", "circles", "decided triples"], rows, caption="Circles")
    return [part("Circles", made, note=note)]
