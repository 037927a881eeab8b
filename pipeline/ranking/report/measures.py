"""The page about samples that were judged one by one, or about texts that were written: rates, grades, choices."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipeline.domain import Counts
from pipeline.prices import Spent
from pipeline.ranking.measured import Cell, Concord, Measured
from pipeline.ranking.report.document import contents, document, glossary, opening, provisional
from pipeline.ranking.report.markup import Html, Section, number, percent, section, table, whole
from pipeline.ranking.report.plots import Scale, ends, interval, scale_for
from pipeline.ranking.report.record import conservation_section, excluded_section, provenance_section, tokens_section
from pipeline.wording import and_more, counted

_MOST_SHOWN = 500
_TWO = 2
_WORDS = {
    "Interval": (
        "The range in which the true value lies with 95 % confidence; a sample judged several times counts once. There "
        "is none for a mean of fewer than three samples, or of samples that are all equal: their spread is not known."
    ),
    "Beyond chance": (
        "Cohen’s κ of two judges, Krippendorff’s α of more, or of grades: 0 is what chance gives, 1 complete "
        "agreement. Where judges disagree, read their explanations before you believe a rate."
    ),
}
_TITLES = {"share": "Share of {}", "mean": "Means of {}", "length": "Lengths in characters", "choices": "Choices of {}"}
_HEADS = {"share": "share", "mean": "mean", "length": "characters", "choices": "share"}


def measures_html(
    rows: pa.Table,
    found: Sequence[Measured],
    *,
    experiment: str,
    task: str,
    conservation: Mapping[str, Counts],
    provenance: Mapping[str, str],
    costs: Mapping[str, Spent] | None = None,
    unread: Sequence[str] = (),
) -> str:
    """Return the page; `conservation` is by run, from the log, `costs` by judge, `unread` as judges wrote them."""
    total = sum(conservation.values(), Counts())
    sections: list[Section] = []
    for each in found:
        sections += _measure_sections(each)
    tokens = tokens_section(rows, costs)
    excluded = {name: value for name, value in total.as_dict().items() if name not in _COUNTED and value}
    sections += [tokens] if tokens is not None else []
    sections += [conservation_section(conservation), excluded_section(rows, excluded, unread=unread)]
    sections += [provenance_section(provenance), glossary(_WORDS)]
    body: list[Html] = [provisional(total.ended, total.planned)] if total.open else []
    body.append(opening(f"{experiment} · {task}", _verdict(found, total), _trust(found)))
    return document(f"{experiment}: {task}", [*body, contents(sections), *sections])


_COUNTED = ("planned", "ok", "open")


def _verdict(found: Sequence[Measured], total: Counts) -> str:
    cells = [cell for each in found for cell in each.cells if len(cell.names) == 1]
    if not cells:
        return f"{whole(total.ok)} of {whole(total.planned)} requests ended well."
    best, kind = cells[0], found[0].measure.kind
    if kind == "choices":
        return f"“{best.choice}” is the label most often given to {best.names[0]}: {_shown(best.value, kind)}."
    if kind == "length":
        return f"{whole(total.ok)} texts were written."
    sure = f" ({_range(best, kind)})" if best.low is not None else ""
    told = f"with {_shown(best.value, kind)}{sure}"
    equal = [cell.names[0] for cell in cells if cell.value == best.value]
    rest = [name for name in found[0].rivals if name not in equal]
    if len(equal) > 1:
        also = f", and {and_more(rest, most=3)} cannot be told apart from them" if rest else ""
        return f"{and_more(equal, most=3)} stand first together {told}{also}."
    if rest:
        return f"{best.names[0]} stands first {told}, but {and_more(rest, most=3)} cannot be told apart from it."
    return f"{best.names[0]} stands {'clearly ' if len(cells) > 1 else ''}first {told}."


def _trust(found: Sequence[Measured]) -> str:
    every = [concord for each in found for concord in each.concord]
    if not every:
        return ""
    least = min(every, key=lambda concord: concord.same)
    judges = " and ".join(least.judges)
    if len({concord.judges for concord in every}) == 1 and len(least.judges) == _TWO:
        return f"{judges} agree on {percent(least.same)} of the samples."
    return f"Judges agree on at least {percent(least.same)} of the samples; {judges} agree least."


def _measure_sections(found: Measured) -> list[Section]:
    kind = found.measure.kind
    if not found.cells:
        return []
    scale = _axis(found)
    made = [_cells_table(found.by[:1], [cell for cell in found.cells if len(cell.names) == 1], kind, scale)]
    finer = [cell for cell in found.cells if len(cell.names) > 1]
    made += [_cells_table(found.by, finer, kind, scale)] if finer else []
    title = found.measure.title or _TITLES[kind].format(found.measure.column)
    sections = [section(title, *made, note="Rows that are not ok do not count: no failure is a zero.")]
    if found.concord:
        sections.append(section("Agreement between judges", _concord_table(found.concord)))
    return sections


def _axis(found: Measured) -> Scale:
    """Return the stretch of numbers that the values may lie on: that of the scale where there is one."""
    if found.measure.kind in {"share", "choices"}:
        return Scale(low=0.0, high=1.0)
    if found.bounds:
        return Scale(low=found.bounds[0], high=found.bounds[1])
    ends_ = [end for cell in found.cells for end in (cell.low, cell.value, cell.high) if end is not None]
    return scale_for(ends_)


def _cells_table(by: Sequence[str], cells: Sequence[Cell], kind: str, scale: Scale) -> Html:
    head = [
        *by,
        *(["label"] if kind == "choices" else []),
        ends(scale, title=_HEADS[kind]),
        _HEADS[kind],
        "95 %",
        "samples",
    ]
    lines = [
        [
            *cell.names,
            *([cell.choice or "–"] if kind == "choices" else []),
            interval(scale, cell.value, cell.low, cell.high),
            _shown(cell.value, kind),
            _range(cell, kind),
            whole(cell.samples),
        ]
        for cell in cells[:_MOST_SHOWN]
    ]
    left = len(cells) - len(lines)
    more = f" ({counted(left, 'further one')} left out)" if left > 0 else ""
    return table(head, lines, caption=f"By {' and '.join(by)}{more}")


def _concord_table(found: Sequence[Concord]) -> Html:
    lines = [
        [
            " · ".join(each.judges),
            percent(each.same),
            number(each.beyond_chance),
            "–" if each.low is None else f"{number(each.low)} to {number(each.high)}",
            whole(each.samples),
        ]
        for each in found
    ]
    return table(["judges", "same", "beyond chance", "95 %", "samples"], lines, caption="Agreement")


def _shown(value: float, kind: str) -> str:
    return percent(value, 1) if kind in {"share", "choices"} else number(value, 0 if kind == "length" else 2)


def _range(cell: Cell, kind: str) -> str:
    if cell.low is None or cell.high is None:
        return f"none: {cell.why}"
    return f"{_shown(cell.low, kind)} to {_shown(cell.high, kind)}"
