"""One run in the hands of a worker: its log, its lease, its provider and its requests."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET
from numpy.typing import NDArray

from pipeline import planning, providers
from pipeline.clock import Moment
from pipeline.domain import Experiment, Message, Output, RunConfig
from pipeline.errors import LeaseLostError, ProviderError, UnreachableError
from pipeline.events import SCHEMA, WITHOUT_ORIGIN, AnyEvent
from pipeline.ids import BatchId, Digest, RunId
from pipeline.operations.workers.hearing import Heard
from pipeline.operations.workers.requests import Positions, limits_of, renderer, spoken
from pipeline.providers import Provider
from pipeline.state import BatchState, Phase, RunState
from pipeline.storage.log import RunLog
from pipeline.storage.tables import stream
from pipeline.tasks.lookup import Lookup
from pipeline.tasks.rendering import Material, Requests

if TYPE_CHECKING:
    from pipeline.operations.workers.worker import Worker  # which makes runs


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person at the screen may want to see; nothing depends on it."""

    run_id: RunId
    batch_id: BatchId | None
    text: str
    warning: bool = False


class _Sightings:
    """When this process first saw each batch as it is, by its own clock.

    A memory, not state: it spares a wait where no clock but the author's tells, and whoever forgets it waits once more.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[BatchId, Phase, datetime | None], float] = {}

    def watched(self, batch: BatchState, said_at: datetime | None, now: Moment) -> float:
        """Return for how many seconds the batch has been seen as it is, which somebody said then."""
        return now.uptime - self._first.setdefault((batch.batch_id, batch.phase, said_at), now.uptime)


class Run:
    """One run in the hands of a worker.

    `troubles` says what keeps it from asking the provider about a batch, `failure` what went wrong with the whole run
    when it was last worked on, `stopped` what it asked the provider to end, `answered` how many live answers it holds
    of batches that have not ended.
    """

    def __init__(self, worker: "Worker", config: RunConfig, experiment: Experiment, digest: Digest) -> None:
        self.worker = worker
        self.config = config
        self.experiment = experiment
        self.experiment_digest = digest
        self.run_id = config.run_id
        self.troubles: dict[BatchId, str] = {}
        self.stopped: set[str] = set()
        self._sightings = _Sightings()
        self.failure: str | None = None
        self.answered = 0
        schema = WITHOUT_ORIGIN if config.origin is UNSET else SCHEMA
        self._log = RunLog(worker.store, config.run_id, clock=worker.clock, writer=worker.name, schema=schema)

    @property
    def state(self) -> RunState:
        """The state as of the last look at the log."""
        return self._log.state

    def refresh(self) -> RunState:
        """Return the state after everything in the log by now."""
        return self._log.refresh()

    def decide(self, *events: AnyEvent) -> RunState:
        """Append what was decided on the state last seen.

        Raises ConflictError if somebody was first, LeaseLostError if another worker has taken over.
        """
        if self._log.epoch is not None and self._log.epoch < self.state.epoch:
            raise LeaseLostError(f"{self.run_id} is now in another worker's hands")
        return self._log.append(*events)

    def record(self, *events: AnyEvent) -> RunState:
        """Append facts that stay true whoever else wrote meanwhile."""
        return self._log.record(*events)

    @contextlib.contextmanager
    def lease(self) -> Iterator[bool]:
        """Work on the run while nobody else does; gives False if somebody else does already."""
        try:
            yield self.keep()
        finally:
            self._log.epoch = None
            self.worker.leases.give_back(self.run_id)

    def keep(self) -> bool:
        """Renew the lease where that is due; return whether this worker still holds it."""
        self._log.epoch = self.worker.leases.take(self.run_id)
        return self._log.epoch is not None

    @property
    def newest(self) -> Experiment:
        """The newest submitted version that names the run, for what shapes no request: rates, prices, checks."""
        followed = self.state.version
        return self.experiment if followed is None else self.worker.version(self.experiment.name, followed)

    @property
    def trouble(self) -> str | None:
        """What keeps the run from going on, or from asking its provider about a batch that is open, for people."""
        batches = self.state.batches
        return self.failure or next(
            (why for name, why in tuple(self.troubles.items()) if batches[name].phase != "published"), None
        )

    def has_lasted(self, batch: BatchState, said_at: datetime | None, seconds: float) -> bool:
        """Say whether the batch has been as it is, which somebody said then, for so long: as seen from here."""
        now = Moment.of(self.worker.clock)
        watched = self._sightings.watched(batch, said_at, now)
        return watched >= seconds or planning.is_said_to_last(batch, said_at, seconds, now)

    def notify(self, batch: BatchState | None, text: str, *, warning: bool = False) -> None:
        """Tell a person at the screen."""
        batch_id = batch.batch_id if batch else None
        self.worker.notify(Notice(run_id=self.run_id, batch_id=batch_id, text=text, warning=warning))

    @property
    def provider(self) -> Provider:
        """The provider that judges this run."""
        return self.worker.provider(self.config.judge.provider)

    @property
    def is_reachable(self) -> bool:
        """Whether the provider may be asked in this round: nobody found it unreachable yet."""
        return self.config.judge.provider not in self.worker.unreachable

    def missed(self, error: ProviderError) -> None:
        """Take note of an error that says that the provider cannot be reached in this round."""
        if isinstance(error, UnreachableError):
            self.worker.unreachable.add(self.config.judge.provider)

    @property
    def decode(self) -> Callable[[bytes], Output]:
        """What reads one raw line; it raises ValueError or msgspec.DecodeError if it cannot."""
        name = self.config.judge.provider
        return providers.live_module(name).decode_live if self.is_live else providers.batch_module(name).decode

    @property
    def is_live(self) -> bool:
        """Whether the judge is called request by request."""
        return self.config.judge.mode == "live"

    @cached_property
    def material(self) -> Material:
        """The samples and pairs of the run's experiment."""
        return self.worker.material(self.experiment)

    @cached_property
    def renderer(self) -> Requests:
        """The run's requests."""
        return renderer(self.config, self.material, self.answers)

    def spoken(self, position: int) -> list[Message]:
        """Return what is said to the model at a position, as texts; nothing if it cannot be asked yet."""
        return spoken(self.config, self.material, self.answers, position)

    def answers(self, positions: Positions) -> list[str | None]:
        """Return what was answered at these positions, for the turns that go on from it."""
        return self._heard.answers(positions)

    @cached_property
    def _heard(self) -> Heard:
        return Heard(self.worker.store, lambda: self.state, self.renderer.request_ids)

    def members(self, batch: BatchState) -> Positions:
        """Return which requests of the run are in the batch: its segment, or what the batch before left unanswered."""
        plan = self.state.plan
        assert plan is not None, "a batch is only planned in a planned run"
        if batch.after is None:
            segment = self.state.segments[batch.segment]
            return np.arange(segment.start, segment.start + segment.requests)
        before = self.state.batches[batch.after]
        members = self.members(before)
        asked = Lookup(members, self.renderer.request_ids(members))
        is_open = np.ones(len(members), np.bool_)
        for rows in self._rows_of(before):
            ended = asked.places(rows.column("request_id"))
            is_open[ended[ended >= 0]] = False
        return members[is_open]

    def _rows_of(self, batch: BatchState) -> Iterator[pa.RecordBatch]:
        published = [batch.rows_key] if batch.rows_key else []
        return stream(self.worker.store, published, columns=["request_id"])

    def sendable(self, batch: BatchState) -> Positions:
        """Return the members that fit into a batch at all; a line that does not is never sent."""
        members = self.members(batch)
        return members[self.fits(self.renderer.sizes(members))]

    def fits(self, sizes: Positions) -> NDArray[np.bool_]:
        """Say which lines of these sizes can be sent: none that is empty, none that is larger than a batch may be."""
        return (sizes > 0) & (sizes <= limits_of(self.config).max_bytes)
