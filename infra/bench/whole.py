"""End to end: requests through the real engine and the simulator, which is another process; and how work grows."""

import os
import subprocess
import sys
from pathlib import Path

import building
import data
import parsing
from measuring import Bar, Case, Result, at_least, at_most, ratios, side_by_side, timed, values

from pipeline.operations.resuming import Headway, resume, submit
from pipeline.simulator import environment
from pipeline.storage.local import LocalStore


def prepare(folder: Path, size: int) -> None:
    data.write_study(folder, size)


def ours(folder: Path, size: int) -> Result:
    """Plan, build, send, poll, fetch, read and publish; what the simulator burns is not counted."""
    command = [sys.executable, "-m", "pipeline.cli", "simulate", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder) as simulator:
        try:
            url = _address(simulator)
            hand = data.worker(LocalStore(folder / f"store-{os.getpid()}"), **environment(url))

            def work() -> None:
                run = data.opened_run(hand, folder / "essays.yaml")
                submit(run)
                headway.append(resume(hand, [run], interval=0.5))

            headway: list[Headway] = []
            with hand:
                spent = timed(work)
            return {**spent, "ok": float(headway[0].counts.ok + headway[0].counts.unparsed == size)}
        finally:
            simulator.terminate()


def _address(simulator: subprocess.Popen[str]) -> str:
    """Return where the simulator listens, from the line it prints for people."""
    for line in simulator.stderr or ():
        for word in line.split():
            if word.startswith("OPENAI_BASE_URL="):
                return word.partition("=")[2].removesuffix("/v1").removesuffix("/openai")
    raise RuntimeError("the simulator did not start")


def bars(folder: Path, sizes: dict[str, int], rounds: int) -> list[Bar]:
    size, built = sizes["whole"], sizes["build"]
    seen = twice("whole", folder / "whole", size // 2, rounds=1)
    cpu, rss, ok = (values(seen, "2", of) for of in ("cpu", "rss", "ok"))
    return [
        at_most("whole", f"{size:,} requests: our own CPU", cpu, 15, " s"),
        at_most("whole", f"{size:,} requests: memory", rss, 512, " MB"),
        at_least("whole", "every request has its row", ok, 1, ""),
        *growth("whole", seen),
        *growth("building", twice("building", folder / "building", built, rounds)),
        *growth("parsing", twice("parsing", folder / "parsing", built, rounds)),
    ]


def twice(stage: str, folder: Path, size: int, rounds: int) -> dict[str, list[Result]]:
    """Return what a stage's work costs, and twice that work."""
    case, seen = f"{stage}.ours", {}
    for times in (1, 2):
        PREPARE[stage](folder / str(times), times * size)
        seen[str(times)] = side_by_side([Case(case, folder / str(times), times * size)], rounds=rounds)[case]
    return seen


def growth(stage: str, seen: dict[str, list[Result]]) -> list[Bar]:
    return [
        at_most("growth", f"{stage}: time of twice the work", ratios(seen, "2", "1"), 2.3),
        at_most("growth", f"{stage}: memory of twice the work", ratios(seen, "2", "1", of="rss"), 1.1),
    ]


PREPARE = {"whole": prepare, "building": building.prepare, "parsing": parsing.prepare}
