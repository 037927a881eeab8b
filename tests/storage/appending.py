"""Some writers of a race on one log, as a process of their own.

    python -m tests.storage.appending STORE FIRST:LAST EACH
It says "ready", waits for a line, lets its writers append at once, and prints how often each append was tried.
"""

import json
import sys
import threading
import time

from pipeline.clock import SystemClock
from pipeline.events import CancelAsked
from pipeline.ids import BatchId
from pipeline.storage import Store, open_store
from pipeline.storage.log import RunLog
from tests.storage.logs import RUN

PAUSE = 0.01  # seconds between two appends of a writer: a worker has something to do before the next


class Tries:
    """A store that counts how often each append of the thread at hand was tried before it was in."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._now = threading.local()
        self.all: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def put_new(self, key: str, body: bytes) -> None:
        """Create the object; a commit that is in ends the count."""
        is_commit = key.startswith("log/")
        self._now.tries = getattr(self._now, "tries", 0) + is_commit
        self._store.put_new(key, body)
        if is_commit:
            self.all.append(self._now.tries)
            self._now.tries = 0


def event_of(writer: int, number: int) -> CancelAsked:
    """Return an event that no other append of the race holds."""
    return CancelAsked(batch_ids=(BatchId(f"{writer}-{number}"),))


def append_at_once(store: Store, writers: range, each: int) -> list[int]:
    """Let the writers append to one log at once; return the tries of every append."""
    counted = Tries(store)

    def write(writer: int) -> None:
        log = RunLog(counted, RUN, clock=SystemClock(), writer=str(writer))  # type: ignore[arg-type] # hands on the rest
        for number in range(each):
            log.record(event_of(writer, number))
            time.sleep(PAUSE)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counted.all


if __name__ == "__main__":
    url, span, each = sys.argv[1:]
    store = open_store(url)
    store.exists("pairlog.json")
    first, last = map(int, span.split(":"))
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(append_at_once(store, range(first, last), int(each))))
