"""What one experiment wrote as the samples of another: `samples: generations://<experiment>`.

The contestant is the model that wrote, the group is the prompt it answered, and the sample's id is the request's, so
that `pairlog explain` leads from a verdict back to how its text came to be.
"""

from collections import Counter

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import ConfigError
from pipeline.experiment.contestants import contestants
from pipeline.ids import ExperimentName
from pipeline.operations.reading.results import table_of
from pipeline.operations.workers.material import load_samples
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.samples import Samples
from pipeline.state import counts_of
from pipeline.tasks import Task, Writes, task_named, tasks
from pipeline.wording import counted

_GIVEN = ("id", "text", "group", "contestant", "context")


class Written(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Texts to be judged, and how many are not there to be judged, by what became of them."""

    samples: Samples
    left_out: dict[str, int]


def written_elsewhere(location: str, worker: Worker | None) -> Written | None:
    """Return what the experiment wrote that the location names, or None if it names a file.

    Raises:
        ConfigError: if there is no such experiment, it writes nothing, or it has not ended.

    """
    table, separator, name = location.partition("://")
    if not separator or table not in {task.TABLE for task in tasks().values()}:
        return None
    if worker is None:
        raise ConfigError(f"samples: {location} names an experiment, but no store was given to look for it")
    runs = worker.runs(ExperimentName(name))
    task = _writing_task(location, table, runs)
    open_ = sum(counts_of(run.refresh(), run.config.requests).open for run in runs)
    if open_:
        left = counted(open_, f"request of {name} has", f"requests of {name} have")
        raise ConfigError(f"samples: {left} not ended; run `pairlog resume {name}` first")
    return _written(worker, ExperimentName(name), runs, task)


def _writing_task(location: str, table: str, runs: list[Run]) -> Writes:
    name = runs[0].config.task
    task: Task = task_named(name)
    if not isinstance(task, Writes):
        raise ConfigError(f"samples: {location} is a {name} experiment, which writes no texts to judge")
    if table != task.TABLE:
        raise ConfigError(f"samples: {location} is a {name} experiment; write {task.TABLE}://{runs[0].experiment.name}")
    return task


def _written(worker: Worker, name: ExperimentName, runs: list[Run], task: Writes) -> Written:
    rows = table_of(worker, name)
    texts = task.written(rows)
    if not len(texts):
        raise ConfigError(f"samples: {name} holds no text to judge; see `pairlog status {name}`")
    prompts = pa.concat_tables(
        [load_samples(worker.store, experiment).table for _, experiment in worker.experiments(name)],
        promote_options="permissive",
    )
    asked = prompts.take(pc.index_in(texts["sample_id"], prompts["id"].combine_chunks()).combine_chunks())
    labels = contestants([run.config for run in runs])
    known = {name: asked[name] for name in asked.column_names if name not in _GIVEN}
    samples = pa.table(
        {
            "id": texts["id"],
            "text": texts["text"],
            "group": texts["sample_id"],
            "contestant": [labels[run_id] for run_id in texts["run_id"].to_pylist()],
            "context": asked["context"] if task.SUBJECT == "turn" else _contexts(asked),
            **known,
        }
    )
    return Written(samples=Samples.of(samples, source=f"{task.TABLE} of {name}"), left_out=_left_out(rows))


def _contexts(asked: pa.Table) -> pa.ChunkedArray:
    """Return what was answered, with what the system said before it."""
    joined = pc.binary_join_element_wise(asked["context"], asked["text"], "\n\n")
    return pc.if_else(pc.is_valid(asked["context"]), joined, asked["text"])


def _left_out(rows: pa.Table) -> dict[str, int]:
    """Return what became of the requests that wrote nothing to judge, and of how many."""
    lost = rows.filter(np.asarray(pc.not_equal(rows["status"], "ok")))
    pairs = zip(lost["status"].to_pylist(), lost["reason"].to_pylist(), strict=True)
    return dict(Counter(f"{status} ({reason})" if reason else status for status, reason in pairs))
