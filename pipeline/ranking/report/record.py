"""The books: how every request ended, what was left out and why, tokens, and how the page was made."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.domain import STATUSES, Counts
from pipeline.prices import Spent, told, usd
from pipeline.ranking.columns import judge_labels
from pipeline.ranking.report.markup import Html, Section, element, part, section, table, whole
from pipeline.samples.absent import Absent, absent_of

_TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
_ALWAYS = frozenset({"planned", "ok", "open"})
_LONGEST = 600


def conservation_section(counts: Mapping[str, Counts]) -> Section:
    """Return how the requests of each run ended; every row adds up to what was planned."""
    total = sum(counts.values(), Counts())
    shown = [name for name, value in total.as_dict().items() if value or name in _ALWAYS]
    rows = [
        [name, *(whole(one.as_dict().get(each, 0)) for each in shown)]
        for name, one in [*counts.items(), ("all", total)]
    ]
    head = ["run", *shown]
    note = (
        "Every planned request is accounted for: planned is the sum of the other columns; those with nothing but zeros "
        "are left out."
    )
    made = table(head, rows, caption="Conservation", edges={len(rows) - 1})
    return section("Where every request went", made, note=note)


def counts_of(comparisons: pa.Table) -> dict[str, Counts]:
    """Return the counts by run (or judge) of requests that reached an end, where the log is not at hand."""
    column = comparisons["run_id"] if "run_id" in comparisons.column_names else judge_labels(comparisons)
    plain = pa.table({"run": pc.cast(column, pa.string()), "status": pc.cast(comparisons["status"], pa.string())})
    found: dict[str, dict[str, int]] = {}
    for row in plain.group_by(["run", "status"]).aggregate([([], "count_all")]).to_pylist():
        found.setdefault(row["run"], {})[row["status"]] = row["count_all"]
    return {
        run: Counts(planned=sum(ended.values()), **{name: ended.get(name, 0) for name in STATUSES})
        for run, ended in sorted(found.items())
    }


def excluded_section(comparisons: pa.Table, excluded: Mapping[str, int], *, unread: Sequence[str]) -> Section:
    """Return what did not count, the reasons, what had no text to judge, and these answers that could not be read."""
    children: list[Html] = []
    absent = absent_of(comparisons)
    if not excluded:
        children.append(element("p", "No row was left out." if absent else "Nothing was left out."))
    else:
        rows = [[reason, whole(count)] for reason, count in sorted(excluded.items())]
        children.append(table(["status", "rows"], rows, caption="Rows left out"))
    children += _absent(absent) + _reasons(comparisons) + _unread(unread)
    note = "Only rows with status ok and an outcome count. A failure is never a tie, a zero or a win."
    return section("What was left out, and why", *children, note=note)


def tokens_section(comparisons: pa.Table, costs: Mapping[str, Spent] | None = None) -> Section | None:
    """Return the tokens by judge, and about what they cost where that was found out; None where there are none."""
    names = [name for name in _TOKENS if name in comparisons.column_names]
    if not names or all(comparisons[name].null_count == len(comparisons) for name in names):
        return None
    plain = pa.table(
        {"judge": judge_labels(comparisons), **{name: pc.cast(comparisons[name], pa.int64()) for name in names}}
    )
    sums = plain.group_by("judge").aggregate([*((name, "sum") for name in names), ([], "count_all")]).sort_by("judge")
    rows = [
        [row["judge"], whole(row["count_all"]), *(whole(row[f"{name}_sum"] or 0) for name in names)]
        for row in sums.to_pylist()
    ]
    head = ["judge", "requests", *(name.removesuffix("_tokens") for name in names)]
    note = "Input includes cached tokens, output includes reasoning tokens."
    if costs is None:
        return section("Tokens", table(head, rows, caption="Tokens by judge"), note=note)
    rows = [[*row[:2], _usd(costs.get(row[0])), *row[2:]] for row in rows]
    head = [*head[:2], "≈ USD", *head[2:]]
    minor = {at for at, title in enumerate(head) if title in {"cached", "reasoning"}}
    made = table(head, rows, caption="Tokens and cost by judge", minor=minor)
    return section("Tokens and cost", made, note=f"{note} Cost: {told(sum(costs.values(), Spent()))}.")


def _usd(spent: Spent | None) -> str:
    return usd(spent.usd) if spent is not None and spent.is_priced else "not known"


def provenance_section(made: Mapping[str, str]) -> Section:
    """Return versions, seeds and digests."""
    rows = [[name, value] for name, value in made.items()]
    return section(
        "How this page was made", table(["what", "value"], rows, caption="Versions, seeds and digests", kind="words")
    )


def _reasons(comparisons: pa.Table) -> list[Html]:
    if "reason" not in comparisons.column_names:
        return []
    lost = comparisons.filter(pc.not_equal(pc.cast(comparisons["status"], pa.string()), "ok"))
    if not len(lost):
        return []
    plain = pa.table({name: pc.fill_null(pc.cast(lost[name], pa.string()), "") for name in ("status", "reason")})
    counted = plain.group_by(["status", "reason"]).aggregate([([], "count_all")])
    rows = [
        [row["status"], row["reason"] or "–", whole(row["count_all"])]
        for row in counted.sort_by(
            [("count_all", "descending"), ("status", "ascending"), ("reason", "ascending")]
        ).to_pylist()[:20]
    ]
    return [part("The reasons given", table(["status", "reason", "rows"], rows, caption="Reasons", kind="words"))]


def _absent(absent: Sequence[Absent]) -> list[Html]:
    """Return whose texts were not there to be judged, how many, and why."""
    if not absent:
        return []
    rows = [[one.contestant, whole(one.count), whole(one.asked), one.why] for one in absent]
    made = table(["contestant", "not judged", "of", "why"], rows, caption="Samples without a text", kind="words")
    note = (
        "What was asked of a contestant and brought no text: it was not judged, and counts neither for nor against it."
    )
    return [part("Samples that had no text to judge", made, note=note)]


def _unread(texts: Sequence[str]) -> list[Html]:
    """Return the answers that no outcome could be read from, as the judge wrote them."""
    if not texts:
        return []
    shown = [element("pre", text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …") for text in texts]
    return [part("Answers that could not be read", *shown)]
