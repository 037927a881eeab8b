"""What to know about a plan before anything is paid for: pairs that fall apart, names that look misspelt."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from pipeline.operations.studies.plans import Plan
from pipeline.pairing import Cohesion
from pipeline.wording import counted


class Remark(msgspec.Struct, frozen=True):
    """One thing to know; a warning where money would be spent on what cannot be answered."""

    kind: Literal["note", "warning"]
    text: str


def remarks_on(planned: Plan) -> Iterator[Remark]:
    """Yield what to know about the samples, the pairs, the judges and the requests of a plan."""
    for name, meant in planned.samples.misnamed().items():
        yield Remark("note", f"the column {name!r} of the samples means nothing here; did you mean {meant}?")
    found = planned.cohesion()
    if found is not None:
        yield from _on_other_names(planned)
        yield from _on_self_pairs(planned, found)
        yield from _on_outlook(planned, found)
    for each in planned.misspelt():
        known = f"{each.model} is not a model of {each.provider} that is known here"
        yield Remark("note", f"{known}; did you mean {each.near}?")
    too_large = sum(run.too_large for run in planned.runs)
    if too_large:
        larger = counted(too_large, "request is", "requests are")
        yield Remark("note", f"{larger} larger than a batch may be and will end as errored")


def _on_other_names(planned: Plan) -> Iterator[Remark]:
    """Yield which columns say whom the samples stand for and what they answer, under names that mean nothing here."""
    shown = "" if planned.samples.has("context") else " (and repeat it as context if the judge is to see it)"
    helps = {
        "contestant": "every sample is ranked by itself; rename it contestant to rank what it names",
        "group": f"samples are compared whatever it says; rename it group to compare only those that share it{shown}",
    }
    for meant, name in planned.samples.otherwise_named().items():
        yield Remark("note", f"the column {name!r} of the samples means nothing here, and {helps[meant]}")


def _on_self_pairs(planned: Plan, found: Cohesion) -> Iterator[Remark]:
    """Yield how many pairs tell nothing about contestants, and what to do."""
    if not found.self_pairs:
        return
    pairs = counted(len(planned.pairs), "pair")
    which = f"all {pairs}" if found.self_pairs == len(planned.pairs) > 1 else f"{found.self_pairs:,} of {pairs}"
    compare = "compares" if found.self_pairs == 1 else "compare"
    helps = "give each contestant at most one sample in a group"
    if not planned.samples.has("group"):
        helps = "give the samples a column `group` (what they answer, say), and pairs are made inside a group only"
    if found.contestants == 1:
        helps = "name in the column `contestant` whom each sample stands for"
    counts = "and only `rank --by sample` counts such a pair"
    yield Remark("warning", f"{which} {compare} a contestant with itself, {counts}: {helps}")


def _on_outlook(planned: Plan, found: Cohesion) -> Iterator[Remark]:
    """Yield that no ranking of all can come of these pairs, and what helps."""
    match found.outlook:
        case "apart":
            more = len(planned.pairs) < found.possible
            helps = f": a larger pairs.count helps, {found.enough:,} as a rule" if more else ""
            why = " and ".join(_apart(planned, found))
            yield Remark("warning", f"{why}, so they cannot give one ranking of all{helps}")
        case "by group":
            each = f"`pairlog rank {planned.experiment.name} --per group` ranks each group alone"
            yield Remark("note", f"no contestant is in two groups, so there is no ranking of all: {each}")
        case "some unpaired":
            samples = counted(len(planned.samples), "sample")
            yield Remark("note", f"{found.unpaired:,} of {samples} are in no pair; every contestant is")


def _apart(planned: Plan, found: Cohesion) -> Iterator[str]:
    """Yield what keeps the pairs from linking everyone."""
    if found.parts > found.least:
        apart = "that nothing links" if found.least == 1 else f"that nothing links, and {found.least:,} would do"
        yield f"the {counted(len(planned.pairs), 'pair')} fall into {found.parts:,} parts {apart}"
    if found.unranked:
        what = "contestants" if planned.samples.has("contestant") else "samples"
        yield f"{found.unranked:,} of {found.contestants:,} {what} are in no pair"
