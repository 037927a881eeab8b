"""Runs the cells of the crash matrix: a process is really killed, another goes on, and the ledger is the judge.

Started as a program of its own, because a cell is a fork of it: everything is imported once, and no thread runs.
    python -m tests.flows.crash.driver FOLDER URL [--kinds kill-before,…] [--shard I/N] [--pairs SEED:COUNT]
        [--store s3://BUCKET/PREFIX] [--provider anthropic] [--study conversation] [--cancel]
It prints one JSON document: how many boundaries and cells there are, and what went wrong in which.
"""

import argparse
import csv
import os
import random
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pandas as pd  # noqa: F401 - pyarrow imports it on first use: once here, not in every fork

from pipeline.clock import SystemClock
from pipeline.operations.cancelling import cancel
from pipeline.operations.resuming import resume
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import environment
from pipeline.storage import Store, keys, open_store
from pipeline.storage.probe import StoreMark
from tests.flows.crash.boundaries import ON_CALLS, ON_DISKS, ON_STORES, Kind, Trap, TrappedStore, TrappedTransport
from tests.flows.studies import finished, problems, rows, submitted

KINDS: tuple[Kind, ...] = get_args(Kind)
MODELS = {"openai": "gpt-6-luna", "anthropic": "claude-haiku-5-5", "gemini": "gemini-3.8-flash"}
STUDIES = {
    "pairs": "batch: {max_requests: 6}",
    "conversation": "batch: {max_requests: 3}\ntask: conversation\nturns: ['Are you sure?']",
}
PACE = {"PAIRLOG_QUIET_SECONDS": "0.25", "PAIRLOG_LEASE_SECONDS": "0.2", "PAIRLOG_PAUSE_SECONDS": "0.02"}
_RESTARTS = 3
_REQUESTS = 10


class Cell(msgspec.Struct, frozen=True):
    """One run of the study with one thing happening to it, or two: the second while recovering."""

    kind: Kind
    number: int
    boundary: str
    second: tuple[Kind, int] | None = None


class Matrix:
    """The study that is run in every cell, on one simulator."""

    def __init__(
        self,
        folder: Path,
        url: str,
        *,
        provider: str = "openai",
        stores: str = "",
        study: str = "pairs",
        cancels: bool = False,
    ) -> None:
        self.folder = folder
        self.study = study
        self.url = url
        self.provider = provider
        self.stores = stores
        self.cancels = cancels
        self.cells = 0
        self._opened: dict[tuple[int, Path], Store] = {}

    def boundaries(self) -> list[str]:
        """Return the names of the boundaries of an undisturbed run, in order."""
        place = self._prepared("clean")
        trace = place / "trace"

        def run() -> None:
            trap = Trap(passed=[])
            self._study(place, trap)
            trace.write_text("\n".join(trap.passed))

        assert _in_fork(run) == 0, "the undisturbed run failed"
        return trace.read_text().splitlines()

    def check(self, cell: Cell) -> list[str]:
        """Run one cell; return what is wrong afterwards."""
        self.cells += 1
        place = self._prepared(f"c{self.cells:05d}-{os.getpid()}")
        _in_fork(lambda: self._study(place, self._trap(place, cell.kind, cell.number)))
        if cell.second is not None:
            kind, number = cell.second
            _in_fork(lambda: self._resume(place, self._trap(place, kind, number)))
        found = place / "found"
        for _ in range(_RESTARTS):
            if _in_fork(lambda: found.write_bytes(self._judged(place))) == 0:
                wrong = msgspec.json.decode(found.read_bytes(), type=list[str])
                return [f"{cell}: {problem}" for problem in wrong]
        return [f"{cell}: not finished after {_RESTARTS} restarts: {_said(place)}"]

    def _prepared(self, name: str) -> Path:
        place = self.folder / name
        place.mkdir(parents=True)
        with (place / "s.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["id", "text"], *([f"s{n}", f"text {n} of {name}"] for n in range(5))])
        (place / "e.yaml").write_text(
            f"name: {name}\nsamples: s.csv\n{STUDIES[self.study]}\n"
            f"judges: [{{provider: {self.provider}, model: {MODELS[self.provider]}}}]\n"
        )
        faults = {"expire.share": {"value": 0.34, "times": 1}}
        request = urllib.request.Request(f"{self.url}/simulator/faults", msgspec.json.encode(faults), method="POST")
        request.add_header("content-type", "application/json")
        urllib.request.urlopen(request, timeout=30).close()
        return place

    def _trap(self, place: Path, kind: Kind, number: int) -> Trap:
        def meanwhile() -> None:
            _in_fork(lambda: self._resume(place, Trap(passed=[])))

        return Trap(kind=kind, number=number, meanwhile=meanwhile, passed=[])

    def _store(self, place: Path) -> Store:
        """Return the cell's store, opened once in a process: a client of S3 is expensive, and of no use in a fork."""
        known = self._opened.get((os.getpid(), place))
        if known is None:
            known = open_store(f"{self.stores}/{place.name}" if self.stores else str(place / "store"))
            self._opened[os.getpid(), place] = known
        return known

    def _worker(self, place: Path, trap: Trap) -> Worker:
        settings = Settings({**environment(self.url), **PACE})
        store = TrappedStore(self._store(place), trap)
        return Worker(store, clock=SystemClock(), settings=settings, transport=TrappedTransport(trap))

    def _study(self, place: Path, trap: Trap) -> None:
        self._store(place).put_new(keys.STORE, msgspec.json.encode(StoreMark()))
        with self._worker(place, trap) as worker:
            runs = submitted(worker, place / "e.yaml")
            if self.cancels:
                for run in runs:
                    cancel(run)
            resume(worker, runs, interval=0.02)

    def _resume(self, place: Path, trap: Trap) -> None:
        """Go on without the file if the study was ever asked for, else ask for it again."""
        with self._worker(place, trap) as worker:
            if not worker.store.list_from(keys.LOG):
                finished(worker, place / "e.yaml")
                return
            runs = [run for name in worker.experiment_names() for run in worker.runs(name)]
            until = time.monotonic() + 20
            while resume(worker, runs, interval=0.02).is_open:
                assert time.monotonic() < until, "still open"

    def _judged(self, place: Path) -> bytes:
        """Go on until nothing is open; return what is wrong then."""
        self._resume(place, Trap(passed=[]))
        return msgspec.json.encode(self._wrong(place))

    def _wrong(self, place: Path) -> list[str]:
        with self._worker(place, Trap(passed=[])) as worker:
            table = rows(worker, place.name)
            wrong = problems(worker) + self._left_behind(worker)
        ids = table.column("request_id").to_pylist()
        if len(ids) != _REQUESTS or len(set(ids)) != _REQUESTS:
            wrong.append(f"{len(ids)} rows of {len(set(ids))} requests")
        statuses = dict(zip(ids, table.column("status").to_pylist(), strict=True))
        if not set(statuses.values()) <= {"ok", "cancelled" if self.cancels else "ok"}:
            wrong.append(f"statuses {statuses}")
        for name, times in self._billed(set(ids)).items():
            if times != (statuses[name] == "ok"):
                wrong.append(f"paid {times} times: {name}, which is {statuses[name]}")
        return wrong

    def _left_behind(self, worker: Worker) -> list[str]:
        """Return the inputs that the log knows of and the provider still keeps."""
        if self.provider != "openai":
            return []
        runs = [run for name in worker.experiment_names() for run in worker.runs(name)]
        known = [file_id for run in runs for batch in run.refresh().batches.values() for file_id in batch.files]
        return [f"{file_id} is left at the provider" for file_id in known if self._is_kept(file_id)]

    def _is_kept(self, file_id: str) -> bool:
        request = urllib.request.Request(f"{self.url}/v1/files/{file_id}")
        request.add_header("authorization", f"Bearer {environment(self.url)['OPENAI_API_KEY']}")
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError:
            return False
        return True

    def _billed(self, ids: set[str]) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url}/simulator/ledger", timeout=30) as answer:
            ledger = msgspec.json.decode(answer.read())
        times = dict.fromkeys(ids, 0)
        for entry in ledger["billed"]:
            if entry["custom_id"] in times:
                times[entry["custom_id"]] += 1
        return times


def _said(place: Path) -> str:
    log = place / "stderr"
    return log.read_text()[-600:] if log.exists() else ""


def _in_fork(action: Callable[[], object]) -> int:
    """Do it in a process of its own; return how that ended (0: well)."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitpid(child, 0)[1]


def cells_of(boundaries: list[str], kinds: Iterable[Kind]) -> Iterator[Cell]:
    """Yield the cells of the matrix: every boundary with every kind that can happen there."""
    for number, boundary in enumerate(boundaries):
        on_store = boundary.startswith("put ")
        for kind in kinds:
            if (kind in ON_STORES and not on_store) or (kind in ON_CALLS and on_store):
                continue
            yield Cell(kind, number, boundary)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("url")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--pairs", default="")
    parser.add_argument("--store", default="")
    parser.add_argument("--provider", default="openai")
    parser.add_argument("--study", default="pairs", choices=STUDIES)
    parser.add_argument("--cancel", action="store_true")
    asked = parser.parse_args()
    matrix = Matrix(
        asked.folder,
        asked.url,
        provider=asked.provider,
        stores=asked.store,
        study=asked.study,
        cancels=asked.cancel,
    )
    boundaries = matrix.boundaries()
    kinds = set(asked.kinds.split(",")) - (set(ON_DISKS) if asked.store else set())
    cells = list(cells_of(boundaries, sorted(kinds)))
    if asked.pairs:
        seed, count = map(int, asked.pairs.split(":"))
        draw = random.Random(seed)
        kills: list[Kind] = ["kill-before", "kill-after"]
        cells = [
            msgspec.structs.replace(draw.choice(cells), second=(draw.choice(kills), draw.randrange(25)))
            for _ in range(count)
        ]
    shard, shards = map(int, asked.shard.split("/"))
    mine = cells[shard::shards]
    wrong = [problem for cell in mine for problem in matrix.check(cell)]
    document = {"boundaries": boundaries, "cells": len(mine), "wrong": wrong}
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")


if __name__ == "__main__":
    main()
