"""Many writers on one log at once: nothing is lost, forked or doubled, and nobody tries for ever."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from pipeline.events import AnyEvent
from pipeline.storage import Store
from pipeline.storage.gcs import GcsStore
from pipeline.storage.local import LocalStore
from pipeline.storage.log import read_commits
from pipeline.storage.s3 import S3Store
from tests.storage.appending import append_at_once, event_of
from tests.storage.logs import RUN

PROCESSES = 4
WRITERS = 32
EACH = {"local": 1_000, "s3": 1_000, "gcs": 250}  # its emulator goes over all objects at each look


class Raced(msgspec.Struct, frozen=True, kw_only=True):
    """What a race came to."""

    tries: list[int]
    turns: int

    @property
    def usual(self) -> int:
        """The tries within which 99 of 100 appends were in."""
        return sorted(self.tries)[len(self.tries) * 99 // 100]


def _checked(store: Store, tries: list[int], *, writers: int, each: int) -> Raced:
    """Check that every append is in the log once, in one chain; count how often the writer changed."""
    commits = [commit for commit, _ in read_commits(store, RUN)]
    assert [commit.seq for commit in commits] == list(range(writers * each))
    seen: Counter[AnyEvent] = Counter(event for commit in commits for event in commit.events)
    assert seen == Counter(event_of(writer, number) for writer in range(writers) for number in range(each))
    assert len(tries) == len(commits)
    return Raced(tries=tries, turns=sum(one.writer != other.writer for one, other in pairwise(commits)))


@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_writers_on_one_remote_log_lose_fork_and_double_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    store: S3Store | GcsStore = request.getfixturevalue(f"{kind}_store")
    raced = _checked(store, append_at_once(store, range(6), 5), writers=6, each=5)
    assert max(raced.tries) <= 20


def test_writers_on_one_local_log_lose_fork_and_double_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert _checked(store, append_at_once(store, range(16), 8), writers=16, each=8).usual <= 20


@contextmanager
def _writers(store: Store, number: int, each: int) -> Iterator[subprocess.Popen[str]]:
    """One of the processes among which the writers are divided; it waits for the word to begin."""
    share = WRITERS // PROCESSES
    span = f"{number * share}:{(number + 1) * share}"
    command = [sys.executable, "-m", "tests.storage.appending", store.url, span, str(each)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _raced(store: Store, each: int) -> list[int]:
    """Let all writers begin at one moment, in processes of their own; return the tries of all their appends."""
    with ExitStack() as stack:
        processes = [stack.enter_context(_writers(store, number, each)) for number in range(PROCESSES)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [process.communicate()[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * PROCESSES
    return [tries for each in told for tries in msgspec.json.decode(each, type=list[int])]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["local", "s3", "gcs"])
def test_thousands_of_appends_of_32_writers(
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    if kind == "s3":
        request.getfixturevalue("s3_environment")
    monkeypatch.chdir(Path(__file__).parents[2])
    store: Store = LocalStore(tmp_path) if kind == "local" else request.getfixturevalue(f"{kind}_store")
    started, load = time.monotonic(), os.getloadavg()[0]
    tries = _raced(store, EACH[kind])
    told = {"seconds": round(time.monotonic() - started), "load of the machine before": round(load)}
    raced = _checked(store, tries, writers=WRITERS, each=EACH[kind])
    told |= {"tries at most": max(tries), "tries, 99 of 100": raced.usual, "turns": raced.turns}
    for name, figure in told.items():
        record_property(f"told: 32 writers x {EACH[kind]:,} on {kind}, {name}", figure)
    assert raced.usual <= 20
    assert raced.turns >= WRITERS
    assert max(tries) > 1, "they did not meet: this was no race"
