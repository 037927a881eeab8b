"""Where each segment stands, for whoever looks at its cell, and what a Dagster run says when some are not done."""

from collections.abc import Callable, Iterable, Sequence

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from assets import metadata
from assets.metadata import Metadata
from pipeline.attention import ways_to_settle
from pipeline.operations.by_segment import Chosen, rows_of
from pipeline.operations.workers.failures import named_troubles
from pipeline.operations.workers.run import Run
from pipeline.segments import SegmentState, is_handed_over
from pipeline.tasks import task_named
from pipeline.wording import and_more

Found = Sequence[tuple[Chosen, SegmentState]]

NOT_SENT = "not at its provider yet", "not at their providers yet"
NOT_BACK = "not back from its provider yet", "not back from their providers yet"
NOT_FINISHED = "not finished", "not finished"

_TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
_PREVIEWED = 5
_SUBJECT = ("first_id", "second_id", "sample_id", "turn", "criterion", "status")
_SAID = ("outcome", "winner_contestant", "reason", "content")


def report(
    context: dg.AssetExecutionContext,
    chosen: Sequence[Chosen],
    found: Found,
    *,
    about: Callable[[Run, SegmentState], Metadata],
    done: Callable[[Run, SegmentState], bool],
    missing: tuple[str, str],
) -> None:
    """Attach to each segment that is done what there is to know; where some are not, keep them and fail, saying why."""
    ready = {each.segment_id: about(some.run, each) for some, each in found if done(some.run, each)}
    wanted = len(context.partition_keys)
    if len(ready) == wanted:
        for key, known in ready.items():
            context.add_asset_metadata(known, partition_key=key)
        return
    for key, known in ready.items():
        context.log_event(dg.AssetMaterialization(asset_key=context.asset_key, partition=key, metadata=known))
    waiting = [(some, each) for some, each in found if each.segment_id not in ready]
    raise dg.Failure(
        description=f"{_how_many(wanted - len(ready), wanted, missing)}: {reasons(chosen, waiting)}",
        metadata={"batches": batches_of(waiting)} if waiting else {},
        allow_retries=False,
    )


def _how_many(late: int, wanted: int, missing: tuple[str, str]) -> str:
    """Return how many of the segments are late, and that the others are not."""
    one, many = missing
    if wanted == 1:
        return f"the segment is {one}"
    said = f"{late:,} of {wanted:,} segments {f'is {one}' if late == 1 else f'are {many}'}"
    others = wanted - late
    return said + (f", the other {'is' if others == 1 else f'{others:,} are'}" if others else "")


def reasons(chosen: Iterable[Chosen], waiting: Found) -> str:
    """Return why segments wait: what is wrong with their runs, then where the others are, alike ones together."""
    late = {each.run_id for _, each in waiting}
    troubled = [some.run for some in chosen if some.run.failure or some.run.run_id in late]
    others: dict[str, list[str]] = {}
    for some, each in waiting:
        if not some.run.trouble:
            others.setdefault(why(each), []).append(each.segment_id)
    return "; ".join([*named_troubles(troubled), *(f"{and_more(alike)}: {said}" for said, alike in others.items())])


def is_sent(run: Run, each: SegmentState) -> bool:
    """Say whether the cell of a segment is green once it was materialized."""
    return is_handed_over(each, live=run.is_live)


def why(each: SegmentState) -> str:
    """Return why a segment is not where somebody wants it, in words."""
    if not each.is_asked:
        return "not asked for; materialize submitted_batches first"
    held = [batch for batch in each.batches if batch.phase == "held"]
    if held:
        settle = ", ".join(ways_to_settle(each.run_id, held[0].batch_id))
        return f"{held[0].batch_id} waits for a person ({held[0].note}); settle it by {settle}"
    batch = next((batch for batch in reversed(each.batches) if batch.phase != "published"), each.batches[-1])
    again = "sent again and " if batch.send > 1 else ""
    files = ", no files yet" if batch.awaits_files else ""
    status = f" ({batch.remote_status}{files})" if batch.remote_status else ""
    return f"{again}{batch.phase}{status}" + (f": {batch.note}" if batch.note else "")


def batches_of(found: Found) -> dg.MetadataValue:
    """Return the batches of segments with the provider's own names for them."""
    lines = [
        (each.segment_id, *line) for some, each in found for line in metadata.batch_lines(each, _provider(some.run))
    ]
    return dg.MetadataValue.md(metadata.markdown_table(["segment", *metadata.BATCH], lines))


def about_sent(run: Run, each: SegmentState) -> Metadata:
    """Return what was handed over."""
    inputs = [batch.input for batch in each.batches if batch.input is not None]
    return {
        **_judge(run),
        **metadata.of_counts(each.counts),
        "bytes": dg.MetadataValue.int(sum(stored.bytes for stored in inputs)),
        "batches": _batches(run, each),
    }


def about_outputs(run: Run, each: SegmentState) -> Metadata:
    """Return what came back."""
    parts = [part for batch in each.batches for part in batch.parts]
    rows = [[part.name, f"{run.worker.store.url}/{part.key}", part.bytes, f"{part.digest[:12]}…"] for part in parts]
    return {
        **_judge(run),
        **metadata.of_counts(each.counts),
        "bytes": dg.MetadataValue.int(sum(part.bytes for part in parts)),
        "took": dg.MetadataValue.text(metadata.took(each)),
        "parts": dg.MetadataValue.md(metadata.markdown_table(["part", "object", "bytes", "sha-256"], rows)),
        "batches": _batches(run, each),
    }


def about_rows(run: Run, each: SegmentState) -> Metadata:
    """Return how the requests ended, what they used, and a few rows."""
    schema = task_named(run.config.task).SCHEMA
    return {
        **_judge(run),
        "dagster/partition_row_count": dg.MetadataValue.int(each.counts.ended),
        **metadata.of_counts(each.counts),
        **_tokens(rows_of(run, each, columns=list(_TOKENS))),
        "took": dg.MetadataValue.text(metadata.took(each)),
        "dagster/column_schema": dg.TableSchemaMetadataValue(metadata.column_schema(schema)),
        "preview": metadata.preview(rows_of(run, each, columns=_shown(run), most=_PREVIEWED)),
        "batches": _batches(run, each),
    }


def _shown(run: Run) -> list[str]:
    """Return the columns of the task's table that tell a person most."""
    task = task_named(run.config.task)
    measured = (measure.column for measure in task.MEASURES)
    return [name for name in dict.fromkeys((*_SUBJECT, *measured, *_SAID)) if name in task.SCHEMA.names]


def _judge(run: Run) -> Metadata:
    judge = run.config.judge
    reasoning = "" if judge.reasoning == "default" else f", reasoning {judge.reasoning}"
    return {
        "judge": dg.MetadataValue.text(f"{judge.provider} {judge.model}{reasoning}"),
        "direction": dg.MetadataValue.text(run.config.direction),
    }


def _batches(run: Run, each: SegmentState) -> dg.MetadataValue:
    lines = metadata.batch_lines(each, _provider(run))
    return dg.MetadataValue.md(metadata.markdown_table(metadata.BATCH, lines))


def _provider(run: Run) -> str:
    return run.config.judge.provider


def _tokens(table: pa.Table) -> Metadata:
    sums = {name: pc.sum(table.column(name)).as_py() for name in _TOKENS}
    return {name.replace("_", " "): dg.MetadataValue.int(count) for name, count in sums.items() if count is not None}
