"""A worker: one process at work on a store, with what its operations share.

It holds caches, never state: whatever matters is in the store, and another worker can go on at any moment.
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Self

import httpx
import msgspec

from pipeline import providers
from pipeline.clock import Clock
from pipeline.domain import Experiment
from pipeline.errors import ConfigError, CorruptObjectError
from pipeline.experiment.versions import Offer, standing
from pipeline.ids import Digest, ExperimentName, RunId
from pipeline.operations.workers.material import load_material
from pipeline.operations.workers.process import is_gone, process_name
from pipeline.operations.workers.run import Notice, Run
from pipeline.providers import Provider
from pipeline.settings import Settings
from pipeline.storage import Store, keys
from pipeline.storage.leases import Leases
from pipeline.storage.log import current_state
from pipeline.tasks.rendering import Material

_experiments = msgspec.json.Decoder(Experiment)


AT_ONCE = 8  # questions that a provider can well be asked at the same time
_LOOK = 0.5  # seconds after which a thread that waits looks whether it still should


class HaltedError(BaseException):
    """Raised where work is to end in good order because of what happened in another thread of this worker."""


class Worker:
    """One process at work on a store.

    It asks after so many batches `at_once`, and works on some runs side by side if these are several. `unreachable` are
    the providers that nobody answered for in this round.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        settings: Settings,
        transport: httpx.BaseTransport | None = None,
        notify: Callable[[Notice], None] = lambda _: None,
        at_once: int = 1,
    ) -> None:
        self.store = store
        self.clock = clock
        self.settings = settings
        self.pace = settings.pace()
        self.notify = notify
        self.at_once = at_once
        self.unreachable: set[str] = set()
        self.name = process_name(clock)
        self.leases = Leases(store, clock=clock, owner=self.name, seconds=self.pace.lease, is_gone=is_gone)
        self.pulse: Callable[[], None] = lambda: None
        self._transport = transport
        self._halt = threading.Event()
        self._reading = threading.Lock()
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

    def halt(self) -> None:
        """Let every thread of this worker come to an end: whoever looks finds out."""
        self._halt.set()

    def go_on(self) -> None:
        """Take `halt` back."""
        self._halt.clear()

    def check_halted(self) -> None:
        """Raise HaltedError if this thread is to begin nothing more."""
        if self._halt.is_set():
            raise HaltedError

    def sleep(self, seconds: float) -> None:
        """Wait so long; where several threads are at work, raise HaltedError as soon as they are to end."""
        until = self.clock.monotonic() + seconds
        while self.at_once > 1 and self.clock.monotonic() + _LOOK < until:
            self.clock.sleep(_LOOK)
            self.check_halted()
        self.clock.sleep(max(until - self.clock.monotonic(), 0.0))

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

    def runs(self, name: ExperimentName) -> list[Run]:
        """Return the runs of an experiment in the order of its file."""
        versions = self.experiments(name)
        if not versions:
            raise ConfigError(f"there is no experiment {name!r} in {self.store.url}; `pairlog status` lists them")
        return [self._run(offer) for offer in standing(versions, self._planned_by)]

    def _planned_by(self, run_id: RunId) -> Digest | None:
        """Return the configuration that the run was planned by, or None if it is not planned."""
        known = self._runs.get(run_id)
        plan = known.state.plan if known is not None else None
        plan = plan or current_state(self.store, run_id).plan
        return plan.run_digest if plan else None

    def _run(self, offer: Offer) -> Run:
        run_id = offer.config.run_id
        known = self._runs.get(run_id)
        if known is None or known.config != offer.config:
            known = self._runs[run_id] = Run(self, offer.config, offer.experiment, offer.digest)
        return known

    def run(self, run_id: str) -> Run:
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
        with self._reading:
            if key not in self._materials:
                self._materials[key] = load_material(self.store, experiment)
            return self._materials[key]
