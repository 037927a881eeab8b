"""How much work something takes, on whatever machine: processor time, told in steps of a plain loop."""

import time


def million_steps(seconds: float) -> float:
    """Return how many million steps of a loop this machine makes in so much processor time, as busy as it is now."""
    return seconds / min(_seconds_of_a_million_steps() for _ in range(3))


def _seconds_of_a_million_steps() -> float:
    begin, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number & 7
    return time.process_time() - begin
