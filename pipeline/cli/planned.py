"""The command `plan`, and what there is to tell about a plan before anything is paid for."""

from pipeline.cli.app import FileArgument, JsonOption, StoreOption, app, worker_on
from pipeline.cli.costs import cost_cells, cost_fields, cost_in_words, tell_estimate, total_fields
from pipeline.cli.screen import complain, print_json, say, show_runs
from pipeline.operations.studies import growing, opening, plans
from pipeline.operations.studies.costing import PlanEstimate, estimated
from pipeline.operations.studies.plans import Plan
from pipeline.operations.studies.remarks import remarks_on
from pipeline.operations.studies.whereabouts import is_named, new_store, same_beside
from pipeline.operations.workers.failures import apart
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.wording import and_more, counted


@app.command()
def plan(file: FileArgument, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Validate, expand, count, and estimate the cost. Writes nothing, calls nobody."""
    worker = worker_on(store)
    planned = plans.plan(file, worker=worker)
    growing.check_growth(worker, planned)
    if not is_named(store):
        tell_new_store(file, planned, words="`pairlog submit` would make")
    costs = estimated(planned, worker.clock.now().date())
    if as_json:
        print_json(_summary(planned, costs))
        return
    lines = {
        run.config.run_id: [run.config.requests, len(run.segments), run.bytes, run.input_tokens] for run in planned.runs
    }
    headings = ["requests", "batches", "bytes", "≈ input tokens"]
    show_runs(f"experiment {planned.experiment.name}", headings, lines, costs=cost_cells(costs))
    tell_estimate(costs)
    tell_beforehand(planned)
    later = sum(run.later for run in planned.runs)
    if later:
        turns = counted(later, "request is a later turn", "requests are later turns")
        say(f"{turns}: each follows a real answer, and they are batched as those come in")
    pairs = f"{counted(len(planned.pairs), 'pair')}, " if len(planned.pairs) else ""
    requests = counted(sum(run.config.requests for run in planned.runs), "request")
    say(f"{counted(len(planned.samples), 'sample')}, {pairs}{requests}; nothing was written or sent")
    _tell_known(worker, planned, costs)


def tell_new_store(file: str, planned: Plan, *, words: str) -> None:
    """Say which store the working directory gets, if it gets one, and of one beside it that holds this very study."""
    if made := new_store(file, planned.experiment.name):
        say(f"{words} a new store in {made}")
        if copied := same_beside(planned.experiment):
            say(f"warning: the same study is in {copied}, and is paid for again here; --store {copied} goes on with it")


def tell_beforehand(planned: Plan) -> None:
    """Say what there is to know about a plan before anything is paid for."""
    _tell_left_out(planned)
    for remark in remarks_on(planned):
        complain(remark.text, title=remark.kind)


def _tell_known(worker: Worker, planned: Plan, costs: PlanEstimate) -> None:
    """Say what of the file is in the store already, and what is kept there although the file no longer names it."""
    name = planned.experiment.name
    if name not in worker.experiment_names():
        return
    runs = worker.runs(name)
    there = {run.run_id for run in runs}
    fresh = [run for run in planned.runs if run.config.run_id not in there]
    new = sum(run.config.requests for run in fresh)
    of_new = cost_in_words(costs.of({run.config.run_id for run in fresh}))
    say(f"{name} is in {worker.store.url} already; {new:,} of these requests are new{of_new}")
    for each in fresh:
        say(f"  new: {each.config.run_id}")
    kept = sorted(there - {run.config.run_id for run in planned.runs})
    if kept:
        stay = counted(len(kept), "run stays", "runs stay")
        say(f"{stay} in the store although no longer named in this file: {', '.join(kept[:5])}")
    for run in runs:
        with apart(run):
            run.refresh()
    tell_kept(planned, runs)


def tell_kept(planned: Plan, runs: list[Run]) -> None:
    """Say which settings of the file hold for new runs only, where runs were opened with others."""
    for key, keeping in opening.kept_settings(planned, runs).items():
        say(f"`{key}` of this file holds for new runs only; it stays as it was for {and_more(keeping)}")


def _tell_left_out(planned: Plan) -> None:
    """Say what is not judged: rows that are blank or repeat others, and what an earlier experiment did not write."""
    if planned.samples.blank:
        say(f"{counted(planned.samples.blank, 'blank row')} left out")
    if planned.samples.collapsed:
        say(f"{counted(planned.samples.collapsed, 'duplicate row')} left out")
    if planned.left_out:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in planned.left_out.items())
        missing = counted(sum(planned.left_out.values()), "answer is", "answers are")
        complain(f"{missing} not there to be judged: {reasons}", title="note")


def _summary(planned: Plan, costs: PlanEstimate) -> dict[str, object]:
    runs = [
        {
            "run_id": run.config.run_id,
            "requests": run.config.requests,
            "batches": len(run.segments),
            "bytes": run.bytes,
            "input_tokens": run.input_tokens,
            "too_large": run.too_large,
            **cost_fields(cost),
        }
        for run, cost in zip(planned.runs, costs.runs, strict=True)
    ]
    found = planned.cohesion()
    totals = {key: sum(int(str(run[key])) for run in runs) for key in ("requests", "batches", "bytes", "input_tokens")}
    return {
        "experiment": planned.experiment.name,
        "samples": len(planned.samples),
        "pairs": len(planned.pairs),
        "parts": found.parts if found else 0,
        "unpaired": found.unpaired if found else 0,
        "self_pairs": found.self_pairs if found else 0,
        "left_out": planned.left_out,
        **totals,
        **total_fields(costs),
        "runs": runs,
    }
