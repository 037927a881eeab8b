"""How much may be sent: the most requests a person agreed to, held against what would be asked for anew.

Requests count that nobody asked for yet, with the later turns that follow from them. What is at its provider, on its
way there or sent again does not: it was agreed to when it was asked for.
"""

from collections.abc import Iterable

from pipeline.errors import ConfigError
from pipeline.operations.by_segment import Chosen
from pipeline.operations.studies.plans import Plan
from pipeline.operations.workers.failures import apart
from pipeline.operations.workers.worker import Worker
from pipeline.segments import to_be_sent, to_be_sent_of_run
from pipeline.wording import counted


def check_budget(wanted: int, most: int | None, *, limit: str, remedy: str) -> None:
    """Raise ConfigError if more is wanted than `limit`, as the person calls it, allows."""
    if most is not None and wanted > most:
        raise ConfigError(
            f"{counted(wanted, 'request')} would be sent, but {limit} allows {most:,}; nothing was sent. {remedy}"
        )


def wanted_by(chosen: Iterable[Chosen]) -> int:
    """Return how many requests asking for these segments leads to."""
    return sum(to_be_sent(some.run.state, each) for some in chosen for each in some.segments())


def wanted_by_plan(worker: Worker, planned: Plan) -> int:
    """Return how many requests submitting the file leads to; a run whose log cannot be read will send none."""
    name = planned.experiment.name
    known = {run.run_id: run for run in worker.runs(name)} if name in worker.experiment_names() else {}
    wanted = 0
    for config in planned.experiment.runs:
        if config.run_id not in known:
            wanted += config.requests
            continue
        run = known[config.run_id]
        with apart(run):
            wanted += to_be_sent_of_run(run.refresh(), config.requests)
    return wanted
