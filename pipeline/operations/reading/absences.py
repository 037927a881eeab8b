"""What a chain left out: answers of the experiment that wrote the samples which were no text to judge."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from pipeline.experiment.contestants import contestants
from pipeline.ids import ExperimentName, hinted_position
from pipeline.operations.reading.results import table_of, task_of
from pipeline.operations.workers.material import load_samples
from pipeline.operations.workers.worker import Worker
from pipeline.samples import Samples
from pipeline.samples.absent import Absent
from pipeline.tasks import Writes

_TOLD = ["run_id", "sample_id", "request_id", "status", "reason"]

Talk = list[Mapping[str, str | None]]  # the rows about one sample, one or, in a conversation, several


def absent_in(worker: Worker, name: ExperimentName) -> tuple[Absent, ...]:
    """Return what was not there to be judged of the experiment's samples, those of all its versions."""
    versions = {experiment.samples: experiment for _, experiment in worker.experiments(name)}
    return absent_from(worker, [load_samples(worker.store, experiment) for experiment in versions.values()])


def absent_from(worker: Worker, samples: Iterable[Samples]) -> tuple[Absent, ...]:
    """Return what the experiment that wrote these samples has no text for; nothing if none in the store wrote them."""
    ids = {str(each) for some in samples for each in some.ids()}
    name = _writer(worker, ids)
    if name is None:
        return ()
    configs = [run.config for run in worker.runs(name)]
    labels, talks = contestants(configs), _talks(worker, name)
    found = (_absent(labels[config.run_id], talks[config.run_id], ids) for config in configs)
    return tuple(absent for absent in found if absent is not None)


def _writer(worker: Worker, ids: AbstractSet[str]) -> ExperimentName | None:
    """Return the experiment whose requests have these ids."""
    known = next(iter(ids), "")
    if hinted_position(known) is None:
        return None
    for name in worker.experiment_names():
        if isinstance(task_of(worker, name), Writes):
            requests = table_of(worker, name, columns=["request_id"])
            if known in set(requests["request_id"].to_pylist()):
                return name
    return None


def _talks(worker: Worker, name: ExperimentName) -> dict[str, list[Talk]]:
    """Return the experiment's rows by run and sample, the turns of a conversation in their order."""
    in_turn = ["turn"] if "turn" in task_of(worker, name).SCHEMA.names else []
    rows = table_of(worker, name, columns=[*_TOLD, *in_turn]).to_pylist()
    found: dict[str, dict[str, Talk]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: row.get("turn") or 0):
        found[row["run_id"]][row["sample_id"]].append(row)
    return defaultdict(list, {run_id: list(by_sample.values()) for run_id, by_sample in found.items()})


def _absent(contestant: str, talks: list[Talk], ids: AbstractSet[str]) -> Absent | None:
    """Return what the contestant has no text for; a run that wrote texts of which none was judged was added later."""
    lost = [talk for talk in talks if any(row["status"] != "ok" for row in talk)]
    judged = any(row["request_id"] in ids for talk in talks for row in talk)
    if not lost or (len(lost) < len(talks) and not judged):
        return None
    first = (next(row for row in talk if row["status"] != "ok") for talk in lost)
    reasons = Counter(f"{row['status']} ({row['reason']})" if row["reason"] else str(row["status"]) for row in first)
    return Absent(contestant=contestant, asked=len(talks), reasons=dict(reasons))
