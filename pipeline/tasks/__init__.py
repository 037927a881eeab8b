"""The tasks: questions that can be put to a judge, each with the reader of its answers.

A task is a module of this folder that looks like `Task`; a further one is a further file and its line in `TASKS`.
"""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from pipeline.domain import Answer, Outcome, Tags
from pipeline.errors import ConfigError
from pipeline.tasks import pairwise
from pipeline.tasks.answers import Unparsed
from pipeline.tasks.nearest import remedy


class Task(Protocol):
    """A question and the reader of its answers; a module is one if it has these names."""

    VERSION: int
    SCHEMA: pa.Schema

    def json_schema(self, *, ties: bool) -> dict[str, object]:
        """Return the JSON Schema of the answer."""
        ...

    def read(self, content: str | None, *, answer: Answer, tags: Tags, ties: bool) -> Outcome | Unparsed:
        """Return what the judge decided, or why that cannot be told; never raises."""
        ...


TASKS: Mapping[str, Task] = {"pairwise": pairwise}


def task_named(name: str) -> Task:
    """Return the task of this name.

    Raises:
        ConfigError: if there is none.

    """
    if name not in TASKS:
        raise ConfigError(f"task: {name!r} is not a known task; {remedy(name, TASKS)}")
    return TASKS[name]
