"""Side by side: every case in a process of its own, in shuffled rounds; ratios of CPU time, peaks of memory.

A case is a function `module.name(folder, size)` that prepares what it needs, does its work inside `timed` and returns
what it measured. What a case reads was written into `folder` by its module's `prepare(folder, size)`.
"""

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

Result = dict[str, float]

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
HERE = Path(__file__).parent


class Case(msgspec.Struct, frozen=True):
    """What is run: `module.function`, on the data of a folder, at a size."""

    name: str
    folder: Path
    size: int


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one stage: its median over the rounds, and the floor (`least`) or ceiling it is held to."""

    stage: str
    name: str
    values: list[float]
    limit: float
    least: bool
    unit: str = "x"

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def is_met(self) -> bool:
        return self.median >= self.limit if self.least else self.median <= self.limit

    @property
    def margin(self) -> float:
        """By what factor the bar is passed; below 1 it is missed."""
        return self.median / self.limit if self.least else self.limit / max(self.median, 1e-12)

    def line(self) -> str:
        sign = "≥" if self.least else "≤"
        spread = f"({min(self.values):.3g}–{max(self.values):.3g})"
        bar = f"{sign} {self.limit:g}{self.unit}"
        verdict = "ok" if self.is_met else "MISSED"
        return f"{verdict:6}  {self.stage:10}  {self.name:58}  {self.median:8.3g}{self.unit:6} {spread:18} {bar}"


def at_least(stage: str, name: str, found: list[float], limit: float, unit: str = "x") -> Bar:
    return Bar(stage=stage, name=name, values=found, limit=limit, least=True, unit=unit)


def at_most(stage: str, name: str, found: list[float], limit: float, unit: str = "x") -> Bar:
    return Bar(stage=stage, name=name, values=found, limit=limit, least=False, unit=unit)


def timed(work: Callable[[], object]) -> Result:
    """Return the CPU and wall time of the work, and the peak of the process's memory by then."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    return {**spent, "rss": peak()}


def peak() -> float:
    """Return how much memory this process has had at most, in MB.

    Not by `getrusage` where the kernel tells better: that begins with the peak of whoever started the process.
    """
    told = Path("/proc/self/status")
    if told.exists():
        (line,) = [line for line in told.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def run(case: Case) -> Result:
    """Run one case in a process of its own."""
    command = [sys.executable, str(HERE / "run.py"), "--case", case.name, str(case.folder), str(case.size)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD}, check=False)
    if done.returncode:
        raise RuntimeError(f"{case.name} at {case.size}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def side_by_side(cases: Iterable[Case], *, rounds: int) -> dict[str, list[Result]]:
    """Return the results of every case, round by round; the cases of a round run in shuffled order."""
    wanted = list(cases)
    seen: dict[str, list[Result]] = {case.name: [] for case in wanted}
    chance = random.Random(0)
    for number in range(rounds):
        for case in chance.sample(wanted, len(wanted)):
            print(f"\r\x1b[K  round {number + 1} of {rounds}: {case.name} {case.size:,}", end="", file=sys.stderr)
            seen[case.name].append(run(case))
    print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return seen


def ratios(seen: dict[str, list[Result]], slow: str, fast: str, *, of: str = "cpu") -> list[float]:
    """Return, round by round, how many times more the one took than the other."""
    return [one[of] / other[of] for one, other in zip(seen[slow], seen[fast], strict=True)]


def values(seen: dict[str, list[Result]], name: str, of: str) -> list[float]:
    return [result[of] for result in seen[name]]
