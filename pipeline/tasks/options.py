"""The keys of its own that a task has in an experiment file, as they were frozen with a run."""

from typing import TypeVar

import msgspec

from pipeline.domain import RunConfig

Keys = TypeVar("Keys", bound=msgspec.Struct)


def options_of(config: RunConfig, kind: type[Keys]) -> Keys:
    """Return the run's options; what was left at its default is not stored, so that a new option changes no old run."""
    given = {} if config.options is msgspec.UNSET else config.options
    return msgspec.convert(given, kind)
