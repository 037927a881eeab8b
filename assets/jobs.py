"""What can be launched as a whole: submit an experiment within a budget, collect finished segments, rank."""

from collections.abc import Sequence

import dagster as dg
from pydantic import Field

from assets.inputs import pairs, samples
from assets.judging import LIMITS, PROVIDER_POOL, Budget, comparisons, provider_outputs, submitted_batches
from assets.partitions import experiments, segments
from assets.resources import Workers
from assets.results import rankings
from assets.summaries import NOT_SENT, Found, about_sent, is_sent, reasons
from pipeline.ids import ExperimentName
from pipeline.operations import by_segment
from pipeline.operations.by_segment import all_segments
from pipeline.operations.catalogue import planned_from_file, take_in
from pipeline.operations.starting import check_start
from pipeline.operations.workers.failures import named_troubles
from pipeline.operations.workers.run import Run
from pipeline.wording import counted


class Confirmed(Budget):
    """Which experiment to submit, and how many requests, and dollars, a person has agreed to pay for."""

    experiment: str = Field(description="The experiment's name, as its file gives it.")
    most_requests: int = Field(description="Send nothing if it would be more requests than this.")


@dg.op(pool=PROVIDER_POOL)
def submit_experiment(context: dg.OpExecutionContext, config: Confirmed, workers: Workers) -> None:
    """Take the experiment in and send every segment of it that is not sent yet, if that is within the budget.

    Runs that an earlier version of its file named, and this one does not, are left as they are. Dagster is told of the
    segments that it has not seen sent: repeating the job changes no cell.
    """
    name = ExperimentName(config.experiment)
    with workers.proven(context.log) as worker:
        planned = planned_from_file(worker, name)
        if planned is not None:
            check_start(worker, planned, most_requests=config.most_requests, most_cost=config.dollars(), limits=LIMITS)
            take_in(worker, planned)
        cut = all_segments(worker, name)
        unopened = [run for run in worker.runs(name) if run.failure]
        named = {each.config.run_id for each in planned.runs} if planned else {each.run_id for each in cut}
        asked = by_segment.choose(worker, (each.segment_id for each in cut if each.run_id in named))
        chosen = [some for some in asked if not some.run.failure]
        config.check(worker, chosen)
        context.instance.add_dynamic_partitions(str(experiments.name), [name])
        context.instance.add_dynamic_partitions(str(segments.name), [each.segment_id for each in cut])
        before = {each.segment_id: each for some in chosen for each in some.last_seen()}
        known = context.instance.get_materialized_partitions(submitted_batches.key)
        found = by_segment.send(chosen)
        sent = [(some, each) for some, each in found if is_sent(some.run, each)]
        new = [(some, each) for some, each in sent if each.segment_id not in known or each != before[each.segment_id]]
        for some, each in new:
            about = about_sent(some.run, each)
            event = dg.AssetMaterialization(submitted_batches.key, partition=each.segment_id, metadata=about)
            context.log_event(event)
        waiting = [(some, each) for some, each in found if not is_sent(some.run, each)]
        if waiting or unopened:
            raise dg.Failure(description=_left(waiting, unopened))
    context.log.info(_told(len(new), len(found), name))


def _told(new: int, every: int, name: ExperimentName) -> str:
    """Return what became of an experiment that is at its providers."""
    if not new:
        return f"nothing was new: {counted(every, 'segment')} of {name} had been sent before"
    return f"{counted(new, 'segment')} of {name} sent, of {every:,} in all; the sensors do the rest"


def _left(waiting: Found, unopened: Sequence[Run]) -> str:
    """Return what is not at its provider, and all reasons."""
    one, many = NOT_SENT
    left = [counted(len(waiting), f"segment is {one}", f"segments are {many}")] if waiting else []
    left += [counted(len(unopened), "run") + " could not be opened"] if unopened else []
    told = [*named_troubles(unopened), reasons((some for some, _ in waiting), waiting)]
    return f"{' and '.join(left)}: {'; '.join(filter(None, told))}"


@dg.job(
    description="Submit a whole experiment; its config says which one, and how many requests and dollars you agree to.",
    config={"ops": {submit_experiment.name: {"config": {"experiment": "", "most_requests": 0, "most_cost": None}}}},
)
def submit() -> None:
    """Send everything of one experiment, within a budget."""
    submit_experiment()


make_pairs = dg.define_asset_job(
    "make_pairs",
    selection=dg.AssetSelection.assets(samples, pairs),
    description="Read an experiment's samples, make its pairs and fix its segments; sends nothing.",
)
send = dg.define_asset_job(
    "send",
    selection=dg.AssetSelection.assets(submitted_batches),
    description="Send segments; the sensor asks for it only to go on with what a person has asked for.",
)
collect = dg.define_asset_job(
    "collect",
    selection=dg.AssetSelection.assets(provider_outputs, comparisons),
    description="Fetch and read what came back for segments.",
)
rank = dg.define_asset_job(
    "rank",
    selection=dg.AssetSelection.assets(rankings),
    description="Rank an experiment; diagnostics follow by themselves.",
)
