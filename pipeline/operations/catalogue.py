"""The experiment files a deployment offers: picked up from a folder or prefix, a bad one never hiding the others."""

from pathlib import Path

import msgspec

from pipeline.errors import ConfigError
from pipeline.experiment import read_experiment
from pipeline.ids import ExperimentName
from pipeline.operations.studies.growing import check_growth
from pipeline.operations.studies.opening import freeze, newest_version, open_runs
from pipeline.operations.studies.plans import Plan, plan
from pipeline.operations.workers.material import load_samples, store_samples
from pipeline.operations.workers.worker import Worker
from pipeline.samples import Samples
from pipeline.storage import keys
from pipeline.storage.sources import list_files, read_text, shown
from pipeline.tasks import task_keys
from pipeline.wording import remedy

_ENDINGS = (".yaml", ".yml")
_LOCAL = "experiments"


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Where the file of each experiment is, and what is wrong with those that cannot be read."""

    files: dict[ExperimentName, str]
    bad: dict[str, str]


def read_catalogue(worker: Worker) -> Catalogue:
    """Return the experiment files this worker is to look at.

    That is the folder or prefix that `PAIRLOG_EXPERIMENTS` names; if it names none, `experiments/` of the store and
    `experiments/` of the working directory.
    """
    files: dict[ExperimentName, str] = {}
    bad: dict[str, str] = {}
    for location in _locations(worker):
        try:
            name = _name(location)
        except ConfigError as error:
            bad[shown(location)] = str(error)
            continue
        if name in files:
            taken = f"name {name!r} is taken by {shown(files[name])}"
            bad[shown(location)] = f"{shown(location)}: {taken}; rename one of them"
        else:
            files[name] = location
    return Catalogue(files=files, bad=bad)


def _locations(worker: Worker) -> list[str]:
    return [location for folder in _folders(worker) for location in list_files(folder, endings=_ENDINGS)]


def _folders(worker: Worker) -> list[str]:
    named = worker.settings.experiments()
    return [named] if named else [f"{worker.store.url}/{keys.EXPERIMENTS}", str(Path.cwd() / _LOCAL)]


def _name(location: str) -> ExperimentName:
    text = read_text(location, base=str(Path.cwd()))
    return read_experiment(text.encode(), source=shown(location), tasks=task_keys()).name


def take_in(worker: Worker, planned: Plan) -> None:
    """Freeze an experiment and fix the segments of its runs, asking for none of them.

    A run that cannot be opened keeps its `failure`, and the others are opened.
    """
    check_growth(worker, planned)
    open_runs(worker, planned, experiment_digest=freeze(worker, planned), asked="segments")


def stored_samples(worker: Worker, name: ExperimentName) -> Samples:
    """Return the samples of the experiment's file, put into the store; where there is no file, those that are there."""
    planned = planned_from_file(worker, name)
    if planned is None:
        return load_samples(worker.store, newest_version(worker, name))
    check_growth(worker, planned)
    store_samples(worker.store, name, planned.samples)
    return planned.samples


def planned_from_file(worker: Worker, name: ExperimentName) -> Plan | None:
    """Return what the experiment's file asks for, or None if it has no file here but is in the store.

    Raises:
        ConfigError: if there is neither.

    """
    files = read_catalogue(worker).files
    if name in files:
        return plan(files[name], worker=worker)
    known = worker.experiment_names()
    if name not in known:
        names = sorted({*files, *known})
        helps = remedy(name, names) if names else "put its file there"
        raise ConfigError(
            f"there is no experiment {name!r}: no file in {' or '.join(map(shown, _folders(worker)))} has that name, "
            f"and {worker.store.url} does not hold it; {helps}"
        )
    return None
