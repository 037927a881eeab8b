"""What can be launched as a whole: submit an experiment within a budget, collect finished segments, rank."""

import dagster as dg
from pydantic import Field

from assets.inputs import pairs, samples
from assets.judging import PROVIDER_POOL, Budget, comparisons, provider_outputs, submitted_batches
from assets.partitions import experiments, segments
from assets.resources import Workers
from assets.results import rankings
from assets.summaries import about_sent, is_sent, why
from pipeline.ids import ExperimentName
from pipeline.operations import by_segment
from pipeline.operations.by_segment import all_segments
from pipeline.operations.catalogue import take_in
from pipeline.wording import counted


class Confirmed(Budget):
    """Which experiment to submit, and the number of requests a person has agreed to pay for."""

    experiment: str = Field(description="The experiment's name, as its file gives it.")
    most_requests: int = Field(description="Send nothing if it would be more requests than this.")


@dg.op(pool=PROVIDER_POOL)
def submit_experiment(context: dg.OpExecutionContext, config: Confirmed, workers: Workers) -> None:
    """Take the experiment in and send every segment of it that is not sent yet, if that is within the budget.

    Runs that an earlier version of its file named, and this one does not, are left as they are.
    """
    name = ExperimentName(config.experiment)
    with workers.proven(context.log) as worker:
        planned = take_in(worker, name)
        cut = all_segments(worker, name)
        named = {each.config.run_id for each in planned.runs} if planned else {each.run_id for each in cut}
        chosen = by_segment.choose(worker, (each.segment_id for each in cut if each.run_id in named))
        config.check(chosen)
        context.instance.add_dynamic_partitions(str(experiments.name), [name])
        context.instance.add_dynamic_partitions(str(segments.name), [each.segment_id for each in cut])
        found = [(some.run, each) for some in chosen for each in by_segment.send(some)]
        for run, each in found:
            if is_sent(run, each):
                about = about_sent(run, each)
                event = dg.AssetMaterialization(submitted_batches.key, partition=each.segment_id, metadata=about)
                context.log_event(event)
        waiting = [(run, each) for run, each in found if not is_sent(run, each)]
    if waiting:
        reasons = "; ".join(dict.fromkeys(run.trouble or why(each) for run, each in waiting))
        left = counted(len(waiting), "segment is", "segments are")
        raise dg.Failure(description=f"{left} not at their provider yet: {reasons}")
    context.log.info("%d segments of %s are at their providers; the sensors do the rest", len(found), name)


@dg.job(description="Submit a whole experiment; its config says which one and how many requests you agree to.")
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
