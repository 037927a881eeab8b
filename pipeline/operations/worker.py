"""A worker: one process at work on a store, with what its operations share.

It holds caches, never state: whatever matters is in the store, and another worker can go on at any moment.
"""

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Self

import httpx
import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline import planning, providers
from pipeline.clock import Clock, Moment
from pipeline.domain import Experiment, Frame, Limits, Message, Output, RunConfig
from pipeline.errors import ConfigError, CorruptObjectError, LeaseLostError
from pipeline.events import AnyEvent
from pipeline.ids import BatchId, Digest, ExperimentName, RunId
from pipeline.operations.hearing import Heard
from pipeline.operations.material import load_material
from pipeline.operations.process import is_gone, process_name
from pipeline.providers import Provider
from pipeline.settings import Settings
from pipeline.state import BatchState, Phase, RunState
from pipeline.storage import Store, keys
from pipeline.storage.leases import Leases
from pipeline.storage.log import RunLog, current_state
from pipeline.storage.tables import stream
from pipeline.tasks import task_named
from pipeline.tasks.lookup import Lookup
from pipeline.tasks.rendering import Frames, Material, Renderer, Requests
from pipeline.tasks.turns import Answers, TurnRenderer

Positions = NDArray[np.int64]

LIVE_LIMITS = Limits(max_requests=10_000, max_bytes=100_000_000)
_experiments = msgspec.json.Decoder(Experiment)
_messages = msgspec.json.Decoder(list[Message])


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person at the screen may want to see; nothing depends on it."""

    run_id: RunId
    batch_id: BatchId | None
    text: str
    warning: bool = False


class _Offer(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one frozen version says of a run."""

    config: RunConfig
    experiment: Experiment
    digest: Digest

    def differs(self, other: "_Offer") -> bool:
        """Say whether another version would make another run of it."""
        return self.config != other.config


class Worker:
    """One process at work on a store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        settings: Settings,
        transport: httpx.BaseTransport | None = None,
        notify: Callable[[Notice], None] = lambda _: None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.settings = settings
        self.pace = settings.pace()
        self.notify = notify
        self.name = process_name(clock)
        self.leases = Leases(store, clock=clock, owner=self.name, seconds=self.pace.lease, is_gone=is_gone)
        self.pulse: Callable[[], None] = lambda: None
        self._transport = transport
        self._providers: dict[str, Provider] = {}
        self._materials: dict[tuple[Digest, Digest], Material] = {}
        self._runs: dict[RunId, Run] = {}
        self._versions: dict[str, Experiment] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; the worker can be used again and opens them anew."""
        while self._providers:
            self._providers.popitem()[1].close()

    @property
    def quiet(self) -> timedelta:
        """How long an attempt that may have been made is looked for before another one is opened."""
        return timedelta(seconds=self.pace.quiet)

    def provider(self, name: str) -> Provider:
        """Return the provider, or raise ConfigError if its key is missing."""
        if name not in self._providers:
            built = providers.batch_module(name).build(self.settings, self.clock, transport=self._transport)
            self._providers[name] = built
        return self._providers[name]

    def experiment_names(self) -> list[ExperimentName]:
        """Return the names of all experiments in the store."""
        named = map(keys.experiment_named, self.store.list_from(keys.EXPERIMENTS))
        return sorted({each[0] for each in named if each is not None})

    def experiments(self, name: ExperimentName) -> list[tuple[Digest, Experiment]]:
        """Return every frozen version of an experiment; a later one only adds runs."""
        found = self.store.list_from(keys.experiments(name))
        versions = ((key, keys.experiment_named(key)) for key in found)
        return [(named[1], self._experiment(key)) for key, named in versions if named is not None]

    def _experiment(self, key: str) -> Experiment:
        try:
            self._versions[key] = _experiments.decode(self.store.get(key))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise CorruptObjectError(f"{key} is not a frozen experiment; restore it from a backup ({error})") from error
        return self._versions[key]

    def version(self, name: ExperimentName, named: Digest) -> Experiment:
        """Return one frozen version of an experiment, read once."""
        key = keys.experiment(name, named)
        return self._versions.get(key) or self._experiment(key)

    def runs(self, name: ExperimentName) -> list["Run"]:
        """Return the runs of an experiment in the order of its file."""
        versions = self.experiments(name)
        if not versions:
            raise ConfigError(f"there is no experiment {name!r} in {self.store.url}; `pairlog status` lists them")
        versions.sort(key=lambda version: len(version[1].runs))
        offered: dict[RunId, list[_Offer]] = {}
        for digest, experiment in versions:
            for config in experiment.runs:
                offer = _Offer(config=config, experiment=experiment, digest=digest)
                offered.setdefault(config.run_id, []).append(offer)
        return [self._run(offer) for offer in self._standing(offered)]

    def _standing(self, offered: dict[RunId, list["_Offer"]]) -> Iterator["_Offer"]:
        """Yield for each run the version that it was planned by, or the first.

        Two files that were frozen under one name at the same time may disagree. One that does not agree with a run as
        it was planned was refused: it says nothing of runs that are not planned. Only then logs are read.
        """
        disputed = {run_id: offers for run_id, offers in offered.items() if any(map(offers[0].differs, offers[1:]))}
        plans = {run_id: self._run_digest(run_id) for run_id in disputed}
        lost = {
            offer.digest
            for run_id, offers in disputed.items()
            for offer in offers
            if plans[run_id] not in {None, offer.config.digest()}
        }
        for run_id, offers in offered.items():
            left = [offer for offer in offers if offer.digest not in lost]
            if run_id in disputed or not left:
                planned = plans[run_id] if run_id in disputed else self._run_digest(run_id)
                left = [offer for offer in offers if offer.config.digest() == planned] or left
            yield from left[:1]

    def _run_digest(self, run_id: RunId) -> Digest | None:
        """Return the configuration that the run was planned by, or None if it is not planned."""
        known = self._runs.get(run_id)
        plan = known.state.plan if known is not None else None
        plan = plan or current_state(self.store, run_id).plan
        return plan.run_digest if plan else None

    def _run(self, offer: "_Offer") -> "Run":
        run_id = offer.config.run_id
        known = self._runs.get(run_id)
        if known is None or known.config != offer.config:
            known = self._runs[run_id] = Run(self, offer.config, offer.experiment, offer.digest)
        return known

    def run(self, run_id: str) -> "Run":
        """Return one run by its id."""
        for name in self.experiment_names():
            if run_id.startswith(f"{name}--"):
                for run in self.runs(name):
                    if run.run_id == run_id:
                        return run
        raise ConfigError(f"there is no run {run_id!r} in {self.store.url}; `pairlog status` lists them")

    def material(self, experiment: Experiment) -> Material:
        """Return the experiment's samples and pairs, read once."""
        key = (experiment.samples, experiment.pairs)
        if key not in self._materials:
            self._materials[key] = load_material(self.store, experiment)
        return self._materials[key]


class Run:
    """One run in the hands of a worker.

    `troubles` says what keeps it from asking the provider about a batch, `failure` what went wrong with the whole run
    when it was last worked on, `stopped` what it asked the provider to end, `answered` how many live answers it holds
    of batches that have not ended.
    """

    def __init__(self, worker: Worker, config: RunConfig, experiment: Experiment, digest: Digest) -> None:
        self.worker = worker
        self.config = config
        self.experiment = experiment
        self.experiment_digest = digest
        self.run_id = config.run_id
        self.troubles: dict[BatchId, str] = {}
        self.stopped: set[str] = set()
        self._seen: dict[tuple[BatchId, Phase, datetime | None], float] = {}
        self.failure: str | None = None
        self.answered = 0
        self._log = RunLog(worker.store, config.run_id, clock=worker.clock, writer=worker.name)

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
        """The newest submitted version that names the run, for settings that shape no request: rates and checks."""
        followed = self.state.version
        return self.experiment if followed is None else self.worker.version(self.experiment.name, followed)

    @property
    def trouble(self) -> str | None:
        """What keeps the run from going on, or from asking its provider about a batch that is open, for people."""
        batches = self.state.batches
        return self.failure or next(
            (why for name, why in self.troubles.items() if batches[name].phase != "published"), None
        )

    def has_lasted(self, batch: BatchState, said_at: datetime | None, seconds: float) -> bool:
        """Say whether the batch has been as it is, which somebody said then, for so long: as seen from here."""
        now = Moment.of(self.worker.clock)
        seen = self._seen.setdefault((batch.batch_id, batch.phase, said_at), now.uptime)
        return now.uptime - seen >= seconds or planning.has_lasted(batch, said_at, seconds, now)

    def notify(self, batch: BatchState | None, text: str, *, warning: bool = False) -> None:
        """Tell a person at the screen."""
        batch_id = batch.batch_id if batch else None
        self.worker.notify(Notice(run_id=self.run_id, batch_id=batch_id, text=text, warning=warning))

    @property
    def provider(self) -> Provider:
        """The provider that judges this run."""
        return self.worker.provider(self.config.judge.provider)

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

    def answers(self, positions: Positions) -> list[str | None]:
        """Return what was answered at these positions, for the turns that go on from it."""
        return self._heard.answers(positions)

    @cached_property
    def _heard(self) -> Heard:
        return Heard(self.worker.store, lambda: self.state, self.renderer.request_ids)

    def members(self, batch: BatchState) -> Positions:
        """Return which requests of the run are in the batch: its slice, or what the batch before left unanswered."""
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


def _nothing_heard(positions: Positions) -> list[str | None]:
    return [None] * len(positions)


def renderer(config: RunConfig, material: Material, answers: Answers = _nothing_heard) -> Requests:
    """Return the requests of a run; `answers` is what was answered at positions that later requests go on from."""
    judge = config.judge
    schema = task_named(config.task).json_schema(config) if judge.answer == "json" else None

    @cache
    def frames(messages: tuple[Message, ...]) -> Frame:
        if judge.mode == "live":
            body = providers.live_module(judge.provider).live_frame(judge, schema=schema, messages=messages)
            return _named(body)
        return providers.batch_module(judge.provider).frame(judge, schema=schema, messages=messages)

    return _renderer(config, material, frames, answers)


def spoken(run: Run, position: int) -> list[Message]:
    """Return what is said to the model at a position, as texts; nothing if it cannot be asked yet."""
    line = _renderer(run.config, run.material, Frame.of, run.answers).line(position)
    return _messages.decode(line) if line else []


def _renderer(config: RunConfig, material: Material, frames: Frames, answers: Answers) -> Requests:
    if task_named(config.task).SUBJECT == "turn":
        return TurnRenderer(config, material, frames, answers)
    return Renderer(config, material, frames)


def limits_within(config: RunConfig, experiment: Experiment) -> Limits:
    """Return how much an experiment wants in one batch of this run, within what fits."""
    hard = limits_of(config)
    return Limits(
        max_requests=min(hard.max_requests, experiment.max_requests or hard.max_requests),
        max_bytes=min(hard.max_bytes, experiment.max_bytes or hard.max_bytes),
    )


def limits_of(config: RunConfig) -> Limits:
    """Return how much fits into one batch of this run; live ones are cut so that each can be watched."""
    return LIVE_LIMITS if config.judge.mode == "live" else providers.batch_module(config.judge.provider).LIMITS


def _named(body: Frame) -> Frame:
    """Return the line under which a live call's body is stored with our request id."""
    first, *rest = body.texts
    *middle, last = (b'","body":' + first, *rest)
    return Frame(texts=(b'{"request_id":"', *middle, last + b"}"), slots=("request_id", *body.slots))
