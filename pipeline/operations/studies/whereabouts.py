"""Which store a study goes to where none was named: that of the working directory, unless another one knows it."""

import contextlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from pipeline.domain import Experiment
from pipeline.errors import ConfigError
from pipeline.ids import ExperimentName
from pipeline.settings import DEFAULT_STORE, from_environment
from pipeline.storage import keys

_MOST_BESIDE = 1000
_experiments = msgspec.json.Decoder(Experiment)


def is_named(store: str | None) -> bool:
    """Say whether the call or the environment names the store; if not, it belongs to the working directory."""
    return bool(store) or from_environment().is_set("PAIRLOG_STORE") is not None


def new_store(file: str, name: ExperimentName) -> Path | None:
    """Return the store that the working directory would get for the study, or None if it has one.

    Raises ConfigError if another store near by knows the experiment: beside its file, or above the working directory.
    """
    here = Path.cwd() / DEFAULT_STORE
    if _knows(here, name):
        return None
    other = next((place for place in _nearby(file) if not _is_same(place, here) and _knows(place, name)), None)
    if other is not None:
        raise ConfigError(
            f"{file}: experiment {name!r} is in {other} already, and would be paid for again in {here}; "
            f"give --store {other} to go on with it, or --store {DEFAULT_STORE} to begin anew here"
        )
    return None if here.is_dir() else here


def same_beside(experiment: Experiment) -> Path | None:
    """Return a store in a folder beside the working directory that holds this very experiment: of a copied file."""
    return next((place for place in _beside() if experiment in _planned_in(place, experiment.name)), None)


def store_near(url: str) -> Path | None:
    """Return another store that holds experiments: in the folder that was named as one, or above the working one."""
    named = Path(url.removeprefix("file://"))
    inside = [named / DEFAULT_STORE] if url.startswith("file://") else []
    places = (*inside, *(folder / DEFAULT_STORE for folder in Path.cwd().parents))
    return next((place for place in places if place != named and _has_any(place)), None)


def _has_any(store: Path) -> bool:
    return os.path.isdir(store / keys.EXPERIMENTS)  # noqa: PTH112 - as below


def _nearby(file: str) -> Iterator[Path]:
    """Yield where a store of an earlier call may be: beside the file, and above the working directory."""
    if "://" not in file:
        yield Path(os.path.normpath(Path(file).absolute())).parent / DEFAULT_STORE
    for folder in Path.cwd().parents:
        yield folder / DEFAULT_STORE


def _beside() -> Iterator[Path]:
    """Yield where a store may be in the folders beside the working directory, as far as one may look."""
    with contextlib.suppress(OSError), os.scandir(Path.cwd().parent) as found:
        names = sorted(each.name for each in islice(found, _MOST_BESIDE))
        yield from (Path.cwd().parent / name / DEFAULT_STORE for name in names)


def _planned_in(store: Path, name: ExperimentName) -> Iterator[Experiment]:
    """Yield the versions of the experiment that a store holds, as they were before they were frozen there."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        for file in (store / keys.experiments(name)).iterdir():
            yield _experiments.decode(file.read_bytes()).planned()


def _knows(store: Path, name: ExperimentName) -> bool:
    return os.path.isdir(store / keys.experiments(name))  # noqa: PTH112 - Path.is_dir raises where one may not look


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()
