"""What goes in: the samples and the pairs of an experiment. Nothing here is sent to anyone."""

from collections import Counter
from collections.abc import Mapping, Sequence

import dagster as dg

from assets import metadata
from assets.metadata import GROUP, OWNERS
from assets.partitions import experiments, segments
from assets.resources import Workers
from pipeline.ids import ExperimentName, RunId
from pipeline.operations.by_segment import all_segments
from pipeline.operations.catalogue import planned_from_file, stored_samples, take_in
from pipeline.operations.reading.absences import absent_from
from pipeline.operations.studies.costing import estimated, told_estimate
from pipeline.operations.studies.opening import newest_version
from pipeline.operations.studies.remarks import remarks_on
from pipeline.operations.workers.failures import raise_failures
from pipeline.operations.workers.material import PAIRS, load_samples
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.samples import Samples
from pipeline.segments import SegmentState, to_be_sent_of_run


@dg.asset(
    partitions_def=experiments,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"parquet"},
    code_version="1",
)
def samples(context: dg.AssetExecutionContext, workers: Workers) -> dg.MaterializeResult[None]:
    """The texts to be judged, stored once, under the digest of what they say.

    They come from the experiment's file: CSV, JSONL, Parquet or a folder of texts.
    """
    name = ExperimentName(context.partition_key)
    with workers.proven(context.log) as worker:
        found = stored_samples(worker, name)
        return dg.MaterializeResult(metadata={**_about(found), **_absent(worker, found)})


def _about(found: Samples) -> metadata.Metadata:
    lengths = sorted(len(text) for text in found.texts())
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(len(found)),
        "contestants": dg.MetadataValue.int(len(set(found.contestants()))),
        "groups": dg.MetadataValue.int(len({group for group in found.groups() if group is not None})),
        "characters (shortest, median, longest)": dg.MetadataValue.text(
            f"{lengths[0]:,}, {lengths[len(lengths) // 2]:,}, {lengths[-1]:,}"
        ),
        "digest": dg.MetadataValue.text(found.digest()),
        "preview": metadata.preview(found.table.select(["id", "text"]).slice(0, 5)),
    }


def _absent(worker: Worker, found: Samples) -> metadata.Metadata:
    """Return what an earlier experiment has no text for, where these samples are what it wrote."""
    said = [str(absent) for absent in absent_from(worker, [found])]
    return {"not there to be judged": dg.MetadataValue.md(metadata.markdown_list(said))} if said else {}


@dg.asset(
    partitions_def=experiments,
    deps=[samples],
    group_name=GROUP,
    owners=OWNERS,
    kinds={"parquet"},
    code_version="1",
    metadata={"dagster/column_schema": metadata.column_schema(PAIRS)},
)
def pairs(context: dg.AssetExecutionContext, workers: Workers) -> dg.MaterializeResult[None]:
    """Which samples meet in which order, and the segments in which each run of the grid will ask about them.

    Making pairs fixes the experiment: from now on its file may grow by runs, but no request of it changes. The segments
    appear as partitions of `submitted_batches`; nothing is sent before somebody materializes those.
    """
    name = ExperimentName(context.partition_key)
    with workers.proven(context.log) as worker:
        planned = planned_from_file(worker, name)
        if planned is not None:
            take_in(worker, planned)
        cut = all_segments(worker, name)
        context.instance.add_dynamic_partitions(str(segments.name), [each.segment_id for each in cut])
        runs = worker.runs(name)
        raise_failures(runs)
        newest = planned.experiment if planned else newest_version(worker, name)
        pairs_made = len(worker.material(newest).pairs)
        absent = _absent(worker, load_samples(worker.store, newest))
        cost = told_estimate(estimated(planned, worker.clock.now().date())) if planned else None
        remarks = [f"{each.kind}: {each.text}" for each in remarks_on(planned)] if planned else []
    tokens = {run.config.run_id: run.input_tokens for run in planned.runs} if planned else {}
    made = {"dagster/partition_row_count": dg.MetadataValue.int(pairs_made)}
    about = {"cost of all, about": dg.MetadataValue.text(cost)} if cost else {}
    to_know = {"to know": dg.MetadataValue.md(metadata.markdown_list(remarks))} if remarks else {}
    return dg.MaterializeResult(metadata={**to_know, **made, **_about_runs(runs, cut, tokens), **about, **absent})


def _about_runs(runs: Sequence[Run], cut: Sequence[SegmentState], tokens: Mapping[RunId, int]) -> metadata.Metadata:
    """Return what the runs ask for, together and as a table; `tokens` are counted while there is a file of them."""
    segments_of = Counter(each.run_id for each in cut)
    requests = {run.run_id: run.config.requests for run in runs}
    left = {run.run_id: to_be_sent_of_run(run.state, run.config.requests) for run in runs}
    head = ["run", "requests", "segments", "not asked for", "≈ input tokens"]
    rows = [[name, requests[name], segments_of[name], left[name], tokens.get(name)] for name in requests]
    return {
        "runs": dg.MetadataValue.int(len(runs)),
        "requests": dg.MetadataValue.int(sum(requests.values())),
        "requests nobody asked for yet": dg.MetadataValue.int(sum(left.values())),
        "segments": dg.MetadataValue.int(len(cut)),
        "input tokens, about": dg.MetadataValue.int(sum(tokens.values())),
        "grid": dg.MetadataValue.md(metadata.markdown_table(head, rows)),
    }


ASSETS = [samples, pairs]
