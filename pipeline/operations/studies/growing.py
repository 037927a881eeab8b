"""A study that is submitted again: it may grow, but no request of a run that exists may change.

A plan knows of no store: its runs get their origin when they are frozen, and until then are compared without it.
"""

from msgspec import UNSET
from msgspec.structs import replace

from pipeline.domain import Experiment, RunConfig
from pipeline.errors import ConfigError
from pipeline.experiment import changes
from pipeline.ids import ExperimentName, RunId
from pipeline.operations.studies.plans import Plan
from pipeline.operations.workers.material import load_samples
from pipeline.operations.workers.worker import Worker
from pipeline.samples import differences
from pipeline.storage.origin import origin_of


def check_growth(worker: Worker, planned: Plan) -> None:
    """Refuse a version that would alter the requests of a run that exists; more runs are welcome."""
    experiment = planned.experiment
    _refuse_anothers(worker, experiment)
    known = _known(worker, experiment.name)
    tasks = {config.task for config in (*known.values(), *experiment.runs)}
    if len(tasks) > 1:
        raise ConfigError(
            f"experiment {experiment.name!r} exists in {worker.store.url} with another task "
            f"({' and '.join(sorted(tasks))}); take a new name"
        )
    for config in experiment.runs:
        old = known.get(config.run_id)
        if old is not None:
            refuse_change(worker, planned, old, config)


def with_origins(worker: Worker, experiment: Experiment) -> Experiment:
    """Return the experiment as it is to be frozen: a run that exists keeps its origin, a new one gets the store's."""
    origins = {run_id: config.origin for run_id, config in _known(worker, experiment.name).items()}
    is_grown = any(config.run_id not in origins for config in experiment.runs)
    own = origin_of(worker.store, worker.clock) if is_grown else UNSET
    return replace(
        experiment,
        runs=tuple(replace(config, origin=origins.get(config.run_id, own)) for config in experiment.runs),
    )


def refuse_change(worker: Worker, planned: Plan, old: RunConfig, config: RunConfig) -> None:
    """Raise ConfigError if a run would no longer be what it was, with what changed."""
    config = replace(config, origin=old.origin)
    if old.digest() == config.digest():
        return
    name, what = planned.experiment.name, changes(old, config)
    of_samples = _changed_samples(worker, planned, old)
    if of_samples:
        what = [f"samples: {', '.join(of_samples)}", *(each for each in what if each != "samples")]
    more = ""
    if "pairs" in what and not any(each.endswith(" changed") for each in of_samples):
        more = (
            f"; further pairs go under another name with another pairs.seed, and `pairlog rank {name} OTHER` ranks both"
        )
    raise ConfigError(
        f"experiment {name!r} exists in {worker.store.url} and {config.run_id} would change "
        f"({'; '.join(what)}); take a new name{more}"
    )


def _changed_samples(worker: Worker, planned: Plan, old: RunConfig) -> list[str]:
    """Return what differs from the samples that the run was made of, in words."""
    if old.samples == planned.experiment.samples:
        return []
    before = load_samples(worker.store, replace(planned.experiment, samples=old.samples))
    return differences(before, planned.samples) or ["their order changed"]


def _known(worker: Worker, name: ExperimentName) -> dict[RunId, RunConfig]:
    """Return the runs of the experiment that exist, as they were frozen."""
    if name not in worker.experiment_names():
        return {}
    return {run.run_id: run.config for run in worker.runs(name)}


def _refuse_anothers(worker: Worker, experiment: Experiment) -> None:
    """Refuse runs whose ids are taken by another experiment: `a--b` and `a` with a template `b--c` can share one."""
    wanted = {config.run_id for config in experiment.runs}
    for name in worker.experiment_names():
        if name != experiment.name and any(run_id.startswith(f"{name}--") for run_id in wanted):
            for run in worker.runs(name):
                if run.run_id in wanted:
                    raise ConfigError(f"{run.run_id} is already a run of experiment {name!r}; take a new name")
