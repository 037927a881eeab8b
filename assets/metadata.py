"""What people look at: summaries of `pipeline` as Dagster's metadata values. Nothing here decides anything."""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta

import dagster as dg
import pyarrow as pa

from assets.columns import MEANINGS
from pipeline.domain import Counts
from pipeline.segments import SegmentState

GROUP = "pairlog"
OWNERS = ["team:pairlog"]
BATCH = ["batch", "send", "at the provider", "phase", "requests", "took", "note"]

Metadata = dict[str, dg.MetadataValue]

_LIVE = re.compile(r"[\\`*_~\[\]!|]")
_BEGINNING = re.compile(r"^([0-9]*)([-+#>=.)])")  # of a heading, a quotation or a list


def column_schema(schema: pa.Schema) -> dg.TableSchema:
    """Return the columns of a table as Dagster shows them."""
    columns = [
        dg.TableColumn(
            name=field.name,
            type=_type(field.type),
            description=MEANINGS.get(field.name),
            constraints=dg.TableColumnConstraints(nullable=field.nullable),
        )
        for field in schema
    ]
    return dg.TableSchema(columns=columns)


def _type(found: pa.DataType) -> str:
    """Return the type as the reference names it."""
    return f"{found.value_type} (dictionary)" if pa.types.is_dictionary(found) else str(found)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; what a cell holds cannot break it."""
    heading, *lines = (f"| {' | '.join(map(_cell, line))} |" for line in (head, *rows))
    return "\n".join((heading, f"|{' --- |' * len(head)}", *lines))


def markdown_list(lines: Iterable[str]) -> str:
    """Return a Markdown list of the lines, or the word that there are none."""
    shown = (_BEGINNING.sub(r"\1\\\2", _escaped(line)) for line in lines)
    return "\n".join(f"- {line}" for line in shown) or "nothing"


def _cell(value: object) -> str:
    return _escaped("" if value is None else f"{value:,}" if isinstance(value, int) else str(value))


def _escaped(text: str) -> str:
    """Return the text as Markdown shows it: what judges and contestants say becomes no link, image or markup."""
    return _LIVE.sub(r"\\\g<0>", " ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;")


def signed(value: float) -> str:
    """Return the number with its sign, without one where it shows as zero."""
    shown = f"{value:+.2f}"
    return shown if float(shown) else shown[1:]


def preview(table: pa.Table, *, longest: int = 120) -> dg.MetadataValue:
    """Return the rows as they are, long texts cut, without columns that say nothing."""
    told = table.select([name for name in table.column_names if table.column(name).null_count < max(len(table), 1)])
    shown = ([_cut(value, longest) for value in row.values()] for row in told.to_pylist())
    return dg.MetadataValue.md(markdown_table(told.column_names, shown))


def _cut(value: object, longest: int) -> object:
    return f"{value[:longest]}…" if isinstance(value, str) and len(value) > longest else value


def of_counts(counts: Counts) -> Metadata:
    """Return the conservation row: each status that occurs, and what is open."""
    shown = {name: number for name, number in counts.as_dict().items() if number or name in {"planned", "ok", "open"}}
    return {name: dg.MetadataValue.int(number) for name, number in shown.items()}


def batch_lines(each: SegmentState, provider: str) -> list[list[object]]:
    """Return the batches of a segment with their provider's names for them, under the headings `BATCH`."""
    return [
        [
            batch.batch_id,
            batch.send,
            f"{provider} {batch.remote_id or '–'}",
            batch.phase,
            batch.requests,
            took(each) if batch.phase == "published" else "",
            batch.note,
        ]
        for batch in each.batches
    ]


def took(each: SegmentState) -> str:
    """Return how long the segment was at its provider, for people."""
    sent = [batch.submitted_at for batch in each.batches if batch.submitted_at]
    ended = [batch.ended_at for batch in each.batches if batch.ended_at]
    if not sent or not ended:
        return ""
    return str(timedelta(seconds=round((max(ended) - min(sent)).total_seconds())))
