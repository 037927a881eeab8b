"""The tasks: questions that can be put to a model, each with the reader of its answers.

A task is a module of this folder that looks like `Task`; a further one is a further file, and nothing else is edited.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
import pyarrow as pa

from pipeline.domain import Answer, Measure, RunConfig
from pipeline.errors import ConfigError
from pipeline.experiment import TaskKeys
from pipeline.tasks.answers import Unparsed
from pipeline.tasks.templates import CompiledTemplate, Slot
from pipeline.wording import remedy

Subject = Literal["pair", "sample", "prompt", "turn"]


class Task(Protocol):
    """A question and the reader of its answers; a module is one if it has these names.

    `VERSION` is part of every request id: raise it when the built-in words or the reading of answers change meaning.
    `TABLE` is where its rows are, `SCHEMA` their columns, `MEASURES` what people want to see summed up of them.
    `SUBJECT` is what one request is about: two samples, one to judge, a prompt to answer, a turn of a conversation.
    `KEYS` are the keys of the experiment file that only some tasks take and this one does, `Options` those of its own.
    `SLOTS` are the placeholders of its templates, `TEMPLATES` the built-in ones; `ANSWER` is how it is answered where
    the file does not say.
    """

    VERSION: int
    TABLE: str
    SUBJECT: Subject
    KEYS: frozenset[str]
    SLOTS: Sequence[Slot]
    TEMPLATES: Mapping[str, str]
    ANSWER: Answer
    SCHEMA: pa.Schema
    MEASURES: tuple[Measure, ...]
    Options: type[msgspec.Struct]

    def compiled(self, config: RunConfig) -> CompiledTemplate:
        """Return the words of the question, with the instruction how to answer."""
        ...

    def json_schema(self, config: RunConfig) -> dict[str, object] | None:
        """Return the JSON Schema of the answer, None where the answer is free."""
        ...

    def reader(self, config: RunConfig) -> Callable[[str | None], Any | Unparsed]:  # Any: what its columns() takes
        """Return what reads an answer of this run, or says why it cannot be read; it never raises."""
        ...

    def columns(self, values: Sequence[Any]) -> Mapping[str, list[Any]]:  # Any: what its reader returned, or None
        """Return the columns that hold what was read, a row each, empty where nothing was."""
        ...


@runtime_checkable
class Writes(Task, Protocol):
    """A task whose answers are texts that another experiment can judge."""

    def written(self, rows: pa.Table) -> pa.Table:
        """Return the texts that are whole: `run_id`, `sample_id` of what was answered, `id` and `text`."""
        ...


@runtime_checkable
class Scaled(Task, Protocol):
    """A task with numbers on scales that end somewhere; of others only the numbers themselves are known."""

    def bounds(self, config: RunConfig) -> Mapping[str, tuple[float, float]]:
        """Return the ends of these scales, by the column whose numbers lie on one."""
        ...


@runtime_checkable
class Talks(Task, Protocol):
    """A task whose subject is a turn of a conversation."""

    def turns(self, options: Any) -> Sequence[str]:  # Any: its Options
        """Return what is said after each answer to samples without turns of their own."""
        ...


@cache
def tasks() -> Mapping[str, Task]:
    """Return every task by its name, which is the module's."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in found}
    return {name: module for name, module in modules.items() if hasattr(module, "TABLE")}


def task_keys() -> Mapping[str, TaskKeys]:
    """Return which keys of an experiment file go with which task."""
    return {name: TaskKeys(shared=task.KEYS, own=task.Options) for name, task in tasks().items()}


def task_named(name: str) -> Task:
    """Return the task of this name.

    Raises:
        ConfigError: if there is none.

    """
    known = tasks()
    if name not in known:
        raise ConfigError(f"task: {name!r} is not a known task; {remedy(name, known)}")
    return known[name]
