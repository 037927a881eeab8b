"""What a person asks about a store: where everything stands. Reads only."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from pipeline import planning
from pipeline.domain import Counts
from pipeline.ids import BatchId, ExperimentName, RunId
from pipeline.operations.worker import Run, Worker
from pipeline.state import BatchState, RunState
from pipeline.storage.log import state_as_of
from pipeline.storage.states import current_states


class BatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One batch in the conservation table."""

    batch_id: BatchId
    attempt: int
    phase: str
    remote_id: str | None
    requests: int
    note: str | None


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the conservation table."""

    run_id: RunId
    provider: str
    model: str
    reasoning: str
    direction: str
    counts: dict[str, int]
    batches: tuple[BatchStatus, ...]


class ExperimentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment in the conservation table."""

    name: ExperimentName
    counts: dict[str, int]
    runs: tuple[RunStatus, ...]


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The conservation table, as `status --json` prints it."""

    experiments: tuple[ExperimentStatus, ...]


def status(worker: Worker, names: Iterable[ExperimentName], *, as_of: datetime | None = None) -> StoreStatus:
    """Return the conservation table of these experiments, now or as it was."""
    return StoreStatus(experiments=tuple(_experiment(worker, name, as_of) for name in names))


def _experiment(worker: Worker, name: ExperimentName, as_of: datetime | None) -> ExperimentStatus:
    runs = list(zip(found := worker.runs(name), _states(worker, found, as_of), strict=True))
    if as_of is not None:
        runs = [(run, state) for run, state in runs if state.plan is not None]
    total = sum((_counts(run, state) for run, state in runs), Counts())
    return ExperimentStatus(name=name, counts=total.as_dict(), runs=tuple(_run(run, state) for run, state in runs))


def _states(worker: Worker, runs: list[Run], as_of: datetime | None) -> list[RunState]:
    """Return the runs' states, read side by side, now or as they were."""
    if as_of is None:
        states = current_states(worker.store, [run.run_id for run in runs])
        return [states[run.run_id] for run in runs]
    return [state_as_of(worker.store, run.run_id, as_of) for run in runs]


def _counts(run: Run, state: RunState) -> Counts:
    """Return the run's counts; one that nobody has opened yet is planned and open."""
    return state.counts if state.plan else Counts(planned=run.config.requests)


def _run(run: Run, state: RunState) -> RunStatus:
    judge = run.config.judge
    return RunStatus(
        run_id=run.run_id,
        provider=judge.provider,
        model=judge.model,
        reasoning=judge.reasoning,
        direction=run.config.direction,
        counts=_counts(run, state).as_dict(),
        batches=tuple(_batch(batch, run.worker.clock.now()) for batch in state.batches.values()),
    )


def _batch(batch: BatchState, now: datetime) -> BatchStatus:
    return BatchStatus(
        batch_id=batch.batch_id,
        attempt=batch.send,
        phase=batch.phase,
        remote_id=batch.remote_id,
        requests=batch.requests,
        note=planning.alarm(batch, now) or batch.note,
    )
