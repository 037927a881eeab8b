"""Work on some segments of a run, for an orchestrator that shows each of them: send, fetch, publish.

Nothing here does what `resuming` does not do for whole runs; whoever comes second finds it done.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec
import pyarrow as pa

from pipeline import planning
from pipeline.errors import ConfigError, LeaseLostError, UnavailableError
from pipeline.ids import ExperimentName, SegmentId
from pipeline.operations.batches.cleaning import clean_due
from pipeline.operations.batches.collecting import collect_due, poll_due
from pipeline.operations.batches.continuing import continue_due
from pipeline.operations.batches.living import call_due
from pipeline.operations.batches.publishing import publish_due
from pipeline.operations.batches.settling import settle_due
from pipeline.operations.batches.submitting import ask_for, submit_due
from pipeline.operations.studies.opening import check_keys
from pipeline.operations.workers.failures import apart
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.segments import SegmentState, is_handed_over, segments_of
from pipeline.storage.tables import opened, stream
from pipeline.tasks import task_named

_PATIENCE = 3  # leases that another worker may hold one after the other before we give up
_BREATH = 0.5


class Chosen(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Some segments of one run; none of one whose log cannot be read."""

    run: Run
    indices: frozenset[int]

    def segments(self) -> list[SegmentState]:
        """Return them as they stand in the log now."""
        if self.indices:
            self.run.refresh()
        return self.last_seen()

    def last_seen(self) -> list[SegmentState]:
        """Return them as of the last look at the log."""
        return [each for each in segments_of(self.run.state) if each.index in self.indices]


def choose(worker: Worker, wanted: Iterable[SegmentId]) -> list[Chosen]:
    """Return the segments of these names, by run; raises ConfigError for one that the store does not have.

    A run whose log cannot be read is among them, with its `failure`.
    """
    missing = set(wanted)
    chosen: list[Chosen] = []
    for name in worker.experiment_names():
        if any(each.startswith(f"{name}--") for each in missing):
            for run in worker.runs(name):
                own = {each for each in missing if each.startswith(f"{run.run_id}--s")}
                indices: dict[SegmentId, int] = {}
                with apart(run):
                    indices = _indices(run, own)
                if indices or (own and run.failure):
                    chosen.append(Chosen(run=run, indices=frozenset(indices.values())))
                    missing -= own if run.failure else set(indices)
    if missing:
        raise ConfigError(
            f"there is no segment {min(missing)!r} in {worker.store.url}; materialize the pairs of its experiment first"
        )
    return chosen


def _indices(run: Run, wanted: set[SegmentId]) -> dict[SegmentId, int]:
    if not wanted:
        return {}
    return {each.segment_id: each.index for each in segments_of(run.refresh()) if each.segment_id in wanted}


def all_segments(worker: Worker, name: ExperimentName) -> list[SegmentState]:
    """Return every segment of an experiment, run by run; a run whose log cannot be read keeps its `failure`."""
    found: list[SegmentState] = []
    for run in worker.runs(name):
        with apart(run):
            found += segments_of(run.refresh())
    return found


def rows_of(run: Run, each: SegmentState, *, columns: list[str] | None = None, most: int | None = None) -> pa.Table:
    """Return the published rows of a segment, or the first ones of some columns: rows hold texts and may be many."""
    keys = [batch.rows_key for batch in each.batches if batch.rows_key]
    schema = task_named(run.config.task).SCHEMA
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    found: list[pa.RecordBatch] = []
    for rows in stream(run.worker.store, keys, columns=columns):
        found.append(rows.cast(wanted))
        if most is not None and sum(map(len, found)) >= most:
            break
    return pa.Table.from_batches(found, wanted).slice(0, most)


def schemas_of(run: Run, each: SegmentState) -> list[pa.Schema]:
    """Return the columns and types of each object that holds rows of the segment."""
    found: list[pa.Schema] = []
    for batch in each.batches:
        if batch.rows_key:
            with opened(run.worker.store, batch.rows_key) as file:
                found.append(file.schema_arrow.remove_metadata())
    return found


def send(chosen: Sequence[Chosen]) -> list[tuple[Chosen, SegmentState]]:
    """Ask for the segments and send what is due of them; return them as they are then.

    Live segments are called, request by request, until every one has its answer. Who asked for patience gets no batch
    of a further run: that one is asked for, and sent when it is time.
    """
    busy = asking_for_patience(some.run for some in chosen)

    def work(some: Chosen) -> None:
        run, provider = some.run, some.run.config.judge.provider
        check_keys(run.worker, [run.config])
        ask_for(run, some.indices)
        if all(is_handed_over(each, live=run.is_live) for each in some.last_seen()):
            return
        if provider in busy and not run.is_live:
            raise UnavailableError(f"{provider} asked for patience; it is sent when that is over")
        _send(some)
        busy.update(asking_for_patience([run]))

    return _one_by_one(chosen, work)


def asking_for_patience(runs: Iterable[Run]) -> set[str]:
    """Return the providers that are to be left alone for now, as the logs of these runs say."""
    batched = (run for run in runs if not run.is_live)
    return {run.config.judge.provider for run in batched if planning.is_to_slow_down(run.state, run.worker.clock.now())}


def _send(chosen: Chosen) -> None:
    run = chosen.run

    def work() -> None:
        if run.is_live:
            call_due(run, only=chosen.indices)
        else:
            settle_due(run)
            submit_due(run, mended=True, only=chosen.indices)

    _under_lease(chosen, work, is_done=lambda each: is_handed_over(each, live=run.is_live))


def fetch(chosen: Iterable[Chosen]) -> list[tuple[Chosen, SegmentState]]:
    """Ask after the segments and store what came back, byte for byte; return them as they are then."""
    return _one_by_one(chosen, _fetch)


def _fetch(chosen: Chosen) -> None:
    run = chosen.run
    if all(each.is_finished or not each.is_asked for each in chosen.segments()):
        return
    check_keys(run.worker, [run.config])

    def work() -> None:
        if not run.is_live:
            poll_due(run, only={batch.batch_id for each in chosen.segments() for batch in each.batches})
            collect_due(run, only=chosen.indices)

    _under_lease(chosen, work, is_done=lambda each: not any(batch.phase == "ended" for batch in each.batches))


def publish(chosen: Iterable[Chosen]) -> list[tuple[Chosen, SegmentState]]:
    """Publish what is stored, send again what got no answer, tidy up; return the segments as they are then.

    Conversations whose turn has ended here go on in segments of their own.
    """
    return _one_by_one(chosen, _publish)


def _publish(chosen: Chosen) -> None:
    run = chosen.run

    def work() -> None:
        if publish_due(run, only=chosen.indices) and not run.is_live:
            submit_due(run, only=chosen.indices)
        continue_due(run)
        if not run.is_live:
            clean_due(run)

    if not all(each.is_finished for each in chosen.segments()):
        _under_lease(chosen, work, is_done=lambda each: not each.unread)


def _one_by_one(chosen: Iterable[Chosen], work: Callable[[Chosen], None]) -> list[tuple[Chosen, SegmentState]]:
    """Work on the runs one after the other and return their segments as they are then.

    A run that something is wrong with keeps its `failure`, and the others go on; so does one whose settings are wrong.
    """
    found: list[tuple[Chosen, SegmentState]] = []
    for some in chosen:
        some.run.worker.unreachable.clear()
        try:
            with apart(some.run):
                if some.indices:
                    work(some)
                    some.run.refresh()
        except ConfigError as error:
            some.run.failure = str(error)
        found += [(some, each) for each in some.last_seen()]
    return found


def _under_lease(chosen: Chosen, work: Callable[[], None], *, is_done: Callable[[SegmentState], bool]) -> None:
    """Do the work under the run's lease; wait for another worker that holds it, who may do the same work."""
    run, clock = chosen.run, chosen.run.worker.clock
    until = clock.monotonic() + _PATIENCE * run.worker.pace.lease
    while True:
        with suppress(LeaseLostError), run.lease() as mine:
            if mine:
                work()
                return
        if all(map(is_done, chosen.segments())) or clock.monotonic() >= until:
            return
        clock.sleep(_BREATH)
