"""How much work something takes, on whatever machine: processor time, told in steps of a plain loop."""

import contextlib
import gc
import time
from collections.abc import Iterator


class Effort:
    """What was spent, once it is."""

    seconds = 0.0

    @property
    def million_steps(self) -> float:
        """How many million steps of a loop this machine makes in that time."""
        return million_steps(self.seconds)


@contextlib.contextmanager
def effort() -> Iterator[Effort]:
    """Measure the work inside; what other tests have left is not looked through for garbage meanwhile."""
    spent = Effort()
    gc.freeze()
    begin = time.process_time()
    try:
        yield spent
    finally:
        spent.seconds = time.process_time() - begin
        gc.unfreeze()


def million_steps(seconds: float) -> float:
    """Return how many million steps of a loop this machine makes in so much processor time, as busy as it is now."""
    return seconds / min(_seconds_of_a_million_steps() for _ in range(3))


def _seconds_of_a_million_steps() -> float:
    begin, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number & 7
    return time.process_time() - begin
