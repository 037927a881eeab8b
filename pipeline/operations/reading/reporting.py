"""What a person asks about a store: where everything stands. Reads only."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from pipeline import planning, providers
from pipeline.attention import Attention, attention, remark
from pipeline.domain import Counts
from pipeline.errors import ConfigError
from pipeline.events import Commit
from pipeline.ids import BatchId, ExperimentName, RunId
from pipeline.operations.reading.costs import spent_by
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.prices import Spent
from pipeline.state import BatchState, RunState, counts_of
from pipeline.storage.log import read_commits, state_as_of
from pipeline.storage.states import current_states
from pipeline.wording import nearest

_BETWEEN_LOOKS = 1.0


class BatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One batch in the conservation table.

    `cancelling`: a person wants its end, and its provider has it or may have it. `files_until`: it is over there, and
    so long files are waited for that are not shown.
    """

    batch_id: BatchId
    attempt: int
    phase: str
    remote_id: str | None
    requests: int
    note: str | None
    attention: Attention | msgspec.UnsetType = msgspec.UNSET
    cancelling: bool | msgspec.UnsetType = msgspec.UNSET
    files_until: datetime | msgspec.UnsetType = msgspec.UNSET


class RunStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run in the conservation table; beside those told of, it has so many batches that are `done`."""

    run_id: RunId
    provider: str
    model: str
    reasoning: str
    direction: str
    counts: dict[str, int]
    batches: tuple[BatchStatus, ...]
    done: int = 0
    cost: Spent | msgspec.UnsetType = msgspec.UNSET


class ExperimentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment in the conservation table."""

    name: ExperimentName
    counts: dict[str, int]
    runs: tuple[RunStatus, ...]
    cost: Spent | msgspec.UnsetType = msgspec.UNSET


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The conservation table, as `status --json` prints it."""

    experiments: tuple[ExperimentStatus, ...]


def experiments_named(worker: Worker, names: Iterable[str], *, place: str) -> list[ExperimentName]:
    """Return the experiments of these names; raises ConfigError for one that is not there, `place` being the store."""
    known = worker.experiment_names()
    found = [ExperimentName(name) for name in names]
    for name in found:
        if name not in known:
            there = f"it holds {', '.join(known)}" if known else "it holds none"
            meant = nearest(name.removesuffix(".yaml").removesuffix(".yml"), known)
            there = f"did you mean {meant}? {there}" if meant else there
            there = f"give the name in the file, not the file; {there}" if name.endswith((".yaml", ".yml")) else there
            raise ConfigError(f"there is no experiment {name!r} in {place}; {there}")
    return found


def status(
    worker: Worker,
    names: Iterable[ExperimentName],
    *,
    only: Collection[RunId] | None = None,
    as_of: datetime | None = None,
    briefly: bool = False,
    costs: bool = False,
) -> StoreStatus:
    """Return the conservation table of these experiments, now or as it was.

    Args:
        only: tell of these runs alone.
        briefly: tell only of batches that something is left to do about, and how many the others are.
        costs: tell what the rows have cost, for which they are read.
    """
    found = {name: [run for run in worker.runs(name) if only is None or run.run_id in only] for name in names}
    states = _states(worker, [run for runs in found.values() for run in runs], as_of)
    now = as_of or worker.clock.now()
    told = {name: [(run, states[run.run_id]) for run in runs if run.run_id in states] for name, runs in found.items()}
    found_out = [_experiment(name, told[name], now, briefly=briefly) for name in told]
    if costs:
        found_out = [_with_costs(each, told[each.name]) for each in found_out]
    return StoreStatus(experiments=tuple(found_out))


def _with_costs(experiment: ExperimentStatus, runs: list[tuple[Run, RunState]]) -> ExperimentStatus:
    """Return the same with what the rows that were there have cost, at the prices of the newest file."""
    spent: list[Spent] = []
    for run, state in runs:
        run.refresh()
        spent.append(spent_by(run, state.batches.values()))
    told = zip(experiment.runs, spent, strict=True)
    return replace(
        experiment,
        cost=sum(spent, Spent()).rounded(),
        runs=tuple(replace(run, cost=each.rounded()) for run, each in told),
    )


def _states(worker: Worker, runs: list[Run], as_of: datetime | None) -> dict[RunId, RunState]:
    """Return the runs' states, read side by side; of a moment that is past, those that were planned by then."""
    if as_of is None:
        return current_states(worker.store, [run.run_id for run in runs])
    states = {run.run_id: state_as_of(worker.store, run.run_id, as_of) for run in runs}
    return {run_id: state for run_id, state in states.items() if state.plan is not None}


def _experiment(
    name: ExperimentName, runs: list[tuple[Run, RunState]], now: datetime, *, briefly: bool
) -> ExperimentStatus:
    total = sum((counts_of(state, run.config.requests) for run, state in runs), Counts())
    told = tuple(_run(run, state, now, briefly=briefly) for run, state in runs)
    return ExperimentStatus(name=name, counts=total.as_dict(), runs=told)


def _run(run: Run, state: RunState, now: datetime, *, briefly: bool) -> RunStatus:
    judge = run.config.judge
    told = state.batches.active if briefly else state.batches
    kept = providers.particulars(judge.provider).KEPT
    return RunStatus(
        run_id=run.run_id,
        provider=judge.provider,
        model=judge.model,
        reasoning=judge.reasoning,
        direction=run.config.direction,
        counts=counts_of(state, run.config.requests).as_dict(),
        batches=tuple(_batch(run.run_id, batch, now, kept=kept, quiet=run.worker.quiet) for batch in told.values()),
        done=len(state.batches) - len(told),
    )


def _batch(run_id: RunId, batch: BatchState, now: datetime, *, kept: timedelta, quiet: timedelta) -> BatchStatus:
    found = attention(run_id, batch, now, kept=kept, quiet=quiet)
    return BatchStatus(
        batch_id=batch.batch_id,
        attempt=batch.send,
        phase=batch.phase,
        remote_id=batch.remote_id,
        requests=batch.requests,
        note=found.reason if found else remark(batch, quiet),
        attention=found or msgspec.UNSET,
        cancelling=planning.is_being_cancelled(batch) or msgspec.UNSET,
        files_until=planning.files_until(batch, quiet) or msgspec.UNSET,
    )


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that needs a person, and why."""

    run_id: RunId
    batch_id: BatchId
    phase: str
    attention: Attention


def waiting_for_a_person(runs: Iterable[Run], now: datetime) -> list[Waiting]:
    """Return the batches of these runs, as of the last look at their logs, that need a person."""
    found: list[Waiting] = []
    for run in runs:
        kept = providers.particulars(run.config.judge.provider).KEPT
        for batch in run.state.batches.active.values():
            why = attention(run.run_id, batch, now, kept=kept, quiet=run.worker.quiet)
            if why is not None and why.needs_person:
                found.append(Waiting(run_id=run.run_id, batch_id=batch.batch_id, phase=batch.phase, attention=why))
    return found


def commits_of(run: Run, *, follow: bool = False) -> Iterator[Commit]:
    """Yield the commits of the run's log; with `follow` also those that are still to come, for ever."""
    seq, prev = 0, None
    while True:
        for commit, head in list(read_commits(run.worker.store, run.run_id, seq=seq, prev=prev)):
            seq, prev = commit.seq + 1, head
            yield commit
        if not follow:
            return
        run.worker.clock.sleep(_BETWEEN_LOOKS)
