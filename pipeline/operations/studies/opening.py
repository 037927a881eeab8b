"""From a plan to open runs: a study is put into the store once, and its segments are fixed in the logs of its runs.

Freezing writes the samples, the pairs and last the experiment itself; growing an experiment adds a version that holds
the old runs unchanged.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from pipeline import planning, providers
from pipeline.domain import Experiment, RunConfig
from pipeline.errors import ConfigError
from pipeline.events import Asked, Resubmitted, RunPlanned
from pipeline.ids import Digest, ExperimentName, RunId, digest
from pipeline.operations.batches.submitting import open_run
from pipeline.operations.studies.growing import check_growth, refuse_change, with_origins
from pipeline.operations.studies.plans import Plan, RunPlan, run_plan
from pipeline.operations.workers.failures import apart
from pipeline.operations.workers.material import store_pairs, store_samples
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.storage import keys
from pipeline.storage.objects import put_once


def freeze(worker: Worker, planned: Plan) -> Digest:
    """Put the experiment into the store, unless it is there, and return its name there.

    Another file may be frozen under the same name meanwhile: each sees the other when both are there, and the one that
    the runs do not follow is refused.
    """
    check_growth(worker, planned)
    experiment = with_origins(worker, planned.experiment)
    body = msgspec.json.encode(experiment, order="sorted")
    named = digest(body)
    store_samples(worker.store, experiment.name, planned.samples)
    store_pairs(worker.store, experiment.name, planned.samples, planned.pairs)
    key = keys.experiment(experiment.name, named)
    if put_once(worker.store, key, lambda: body):
        check_growth(worker, planned)
    return named


def open_runs(worker: Worker, planned: Plan, *, experiment_digest: Digest, asked: Asked = "experiment") -> list[Run]:
    """Fix the segments of every run, and ask for all of them unless they are to be asked for one by one.

    Where the experiment is asked for as a whole, the first commit alone makes sure that all of it gets opened. A run
    that something is wrong with keeps its `failure`, and the others are opened.
    """
    by_id = {run.run_id: run for run in worker.runs(planned.experiment.name)}
    for each in planned.runs:
        if each.config.run_id in by_id:
            refuse_change(worker, planned, by_id[each.config.run_id].config, each.config)
    opened: list[Run] = []
    for each in planned.runs:
        run = by_id[each.config.run_id]
        run.failure = None
        with apart(run):
            frozen = replace(each, config=run.config)
            open_run(run, run_planned(planned.experiment, frozen, experiment_digest, asked=asked))
            if not run.newest.is_led_like(planned.experiment):
                run.record(Resubmitted(experiment_digest=experiment_digest))
        if run.state.plan is not None and run.state.plan.run_digest != run.config.digest():
            check_growth(worker, planned)
            run = worker.run(run.run_id)  # somebody froze the same with another origin, or none, and opened it first
        opened.append(run)
    return opened


def kept_settings(planned: Plan, runs: Iterable[Run]) -> dict[str, list[RunId]]:
    """Return the keys of the file that say something else than these runs were opened with, and which keep theirs."""
    wanted = {each.config.run_id: each for each in planned.runs}
    kept: dict[str, list[RunId]] = {}
    for run in runs:
        fixed = run.state.plan
        if fixed is not None and run.run_id in wanted:
            if fixed.attempts != planned.experiment.attempts:
                kept.setdefault("attempts", []).append(run.run_id)
            if fixed.segments != wanted[run.run_id].segments:
                kept.setdefault("batch", []).append(run.run_id)
    return kept


def newest_version(worker: Worker, name: ExperimentName) -> Experiment:
    """Return the frozen version of an experiment that the logs of its runs named last.

    In one log that is the order of its commits; between logs only the clocks of their writers tell. Before any run is
    opened, it is the one with the most runs: a later version only adds some.
    """
    versions = dict(worker.experiments(name))
    if len(versions) == 1:
        return next(iter(versions.values()))
    named: list[tuple[datetime, Digest]] = []
    for run in worker.runs(name):
        with apart(run):
            run.refresh()
        if run.state.version in versions and run.state.version_at is not None:
            named.append((run.state.version_at, run.state.version))
    if named:
        return versions[max(named)[1]]
    return max(versions.values(), key=lambda version: len(version.runs))


def run_planned(
    experiment: Experiment, run: RunPlan, experiment_digest: Digest, *, asked: Asked = "experiment"
) -> RunPlanned:
    """Return the event that fixes a run."""
    return RunPlanned(
        experiment=experiment.name,
        experiment_digest=experiment_digest,
        run_digest=run.config.digest(),
        requests=run.config.requests,
        attempts=experiment.attempts,
        segments=run.segments,
        asked=asked,
    )


def complete_opening(worker: Worker, runs: list[Run]) -> None:
    """Open the runs that an interrupted submit left out although the whole experiment was asked for."""
    asked = {plan.experiment_digest for run in runs if (plan := run.refresh().plan) and plan.asked == "experiment"}
    unopened = [run for run in runs if run.state.plan is None]
    for name in sorted({run.experiment.name for run in unopened}):
        for version, experiment in worker.experiments(name):
            wanted = {config.run_id for config in experiment.runs} if version in asked else set()
            for run in unopened:
                if run.run_id in wanted:
                    each = run_plan(run.config, experiment, worker.material(experiment))
                    open_run(run, run_planned(experiment, each, version))


def reopen(worker: Worker, runs: list[Run]) -> None:
    """Read every log, make sure of the keys, and open what an interrupted submit left out.

    A run that something is wrong with keeps its `failure`, and the others can be worked on.
    """
    for run in runs:
        run.failure = None
        with apart(run):
            run.refresh()
    legible = [run for run in runs if run.failure is None]
    check_keys(worker, (run.config for run in legible if planning.is_open(run.state) or run.state.plan is None))
    for name in dict.fromkeys(run.experiment.name for run in legible):
        together = [run for run in legible if run.experiment.name == name]
        with apart(*(run for run in together if run.state.plan is None)):
            complete_opening(worker, together)


def check_keys(worker: Worker, configs: Iterable[RunConfig]) -> None:
    """Raise ConfigError if a provider of these runs has no key: before anything is written or sent."""
    problems: dict[str, dict[str, None]] = {}  # by what helps, which is told once
    for config in configs:
        try:
            if config.judge.mode == "live":
                providers.live_module(config.judge.provider).live_call(worker.settings, config.judge)
            else:
                worker.provider(config.judge.provider)
        except ConfigError as error:
            what, _, remedy = str(error).partition("; ")
            problems.setdefault(remedy, {})[what] = None
    if problems:
        raise ConfigError("; ".join(each for remedy, found in problems.items() for each in (*found, remedy) if each))
