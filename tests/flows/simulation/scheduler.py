"""Several workers, one at a time: a seed decides who moves at every write, read and call, who freezes and who dies.

Workers are threads, but only the one that was chosen runs, up to its next boundary. Time is virtual: it moves only when
everybody waits for it. Equal seeds give equal histories.
"""

import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime

START = datetime(2026, 11, 16, 9, tzinfo=UTC)


class KilledError(BaseException):
    """The worker is dead: whatever it still tries has no effect."""


class Actor:
    """One worker's thread, as the scheduler sees it."""

    def __init__(self, name: str, scheduler: "Scheduler", action: Callable[["Actor"], None]) -> None:
        self.name = name
        self.wakes_at = 0.0
        self.is_dead = False
        self.is_done = False
        self.error: BaseException | None = None
        self._scheduler = scheduler
        self._action = action
        self._turn = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)

    def _live(self) -> None:
        self._turn.acquire()
        try:
            self._action(self)
        except KilledError:
            pass
        except BaseException as error:
            self.error = error
        self.is_done = True
        self._scheduler.moved.release()

    def start(self) -> None:
        self._thread.start()

    def go(self) -> None:
        """Let the worker run up to its next boundary."""
        self._turn.release()
        self._scheduler.moved.acquire()

    def boundary(self, name: str, *, seconds: float = 0.0) -> None:
        """Wait here until chosen again, or longer; raises KilledError if the worker dies here."""
        if self.is_dead:
            raise KilledError(name)
        self._scheduler.steps.append(f"{self.name} {name}")
        self.wakes_at = self._scheduler.now + seconds
        self._scheduler.moved.release()
        self._turn.acquire()
        if self.is_dead:
            raise KilledError(name)


class Scheduler:
    """Chooses by its seed; `deaths` and `freezes` are how likely either is at a boundary."""

    def __init__(self, seed: int, *, deaths: float, freezes: float, longest_freeze: float) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.moved = threading.Semaphore(0)
        self.steps: list[str] = []
        self.killed = 0
        self._deaths = deaths
        self._freezes = freezes
        self._longest_freeze = longest_freeze
        self._names = 0
        self._actors: list[Actor] = []

    def add(self, action: Callable[[Actor], None]) -> Actor:
        actor = Actor(f"w{len(self._actors)}", self, action)
        self._actors.append(actor)
        actor.start()
        return actor

    def nonce(self) -> str:
        self._names += 1
        return f"{self._names:032x}"

    def run(self, *, successor: Callable[[Actor], None], most_deaths: int, most_steps: int = 20_000) -> None:
        """Run until every worker is done; each that dies is followed by another."""
        for _ in range(most_steps):
            alive = [actor for actor in self._actors if not actor.is_done]
            if not alive:
                break
            ready = [actor for actor in alive if actor.wakes_at <= self.now]
            if not ready:
                self.now = min(actor.wakes_at for actor in alive)
                continue
            chosen = self.random.choice(ready)
            if self.killed < most_deaths and self.random.random() < self._deaths:
                chosen.is_dead = True
                self.killed += 1
                self.add(successor)
            elif self.random.random() < self._freezes:
                chosen.wakes_at = self.now + self.random.uniform(0, self._longest_freeze)
                continue
            chosen.go()
        else:
            raise AssertionError(f"no end after {most_steps} steps")
        for actor in self._actors:
            if actor.error is not None:
                raise actor.error


class VirtualClock:
    """The scheduler's time as one machine has it: its clock may be off, and it was started some time before."""

    def __init__(
        self, actor: Actor, scheduler: Scheduler, *, machine: str = "m", off: float = 0.0, up: float = 0.0
    ) -> None:
        self._actor = actor
        self._scheduler = scheduler
        self._machine = machine
        self._off = off
        self._up = up

    def now(self) -> datetime:
        return datetime.fromtimestamp(START.timestamp() + self._scheduler.now + self._off, UTC)

    def monotonic(self) -> float:
        return self._scheduler.now + self._up

    def boot(self) -> str:
        return self._machine

    def sleep(self, seconds: float) -> None:
        self._actor.boundary("sleep", seconds=seconds)

    def nonce(self) -> str:
        return self._scheduler.nonce()
