"""Lanes: runs that need not wait for one another, each lane at work in a thread of its own.

Calls to a live judge take hours; they hold up neither the polling of batches nor the calls at another provider. The
live runs of one provider share a lane: they share its patience, and on a machine of one's own its memory.
"""

import threading
from collections.abc import Callable

from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import HaltedError, Worker


def side_by_side(worker: Worker, runs: list[Run], work: Callable[[list[Run]], None]) -> None:
    """Do the work for the runs of every lane at the same time, and return when all is done.

    Batches are worked on in this thread, which hears interrupts. If one lane is interrupted or fails, the others are
    halted: they end what is under way, and begin nothing more.
    """
    here, beside = _lanes(worker, runs)
    threads = [_Lane(worker, work, lane) for lane in beside]
    try:
        for thread in threads:
            thread.start()
        work(here)
        for thread in threads:
            thread.join()
    except BaseException as error:
        worker.halt()
        for thread in threads:
            if thread.is_alive():
                thread.join()
        if not isinstance(error, HaltedError):
            raise
    finally:
        if all(thread.is_over for thread in threads):  # after a second interrupt the process ends without the others
            worker.go_on()
    for thread in threads:
        if thread.fault is not None:
            raise thread.fault


def _lanes(worker: Worker, runs: list[Run]) -> tuple[list[Run], list[list[Run]]]:
    """Return the runs to work on in this thread and the lanes beside it, if the worker does several things at once."""
    live: dict[str, list[Run]] = {}
    for run in runs:
        if run.is_live:
            live.setdefault(run.config.judge.provider, []).append(run)
    batches = [run for run in runs if not run.is_live]
    lanes = [*live.values()]
    is_one = len(lanes) + bool(batches) <= 1
    return (runs, []) if worker.at_once == 1 or is_one else (batches, lanes)


class _Lane(threading.Thread):
    """One lane at work; `fault` is what went wrong in it. Nobody waits for it after a second interrupt.

    `is_over`: it is not at work, or never was. A thread does not tell: one whose `join` was interrupted counts as dead.
    """

    def __init__(self, worker: Worker, work: Callable[[list[Run]], None], runs: list[Run]) -> None:
        super().__init__(daemon=True)
        self._worker = worker
        self._work = work
        self._runs = runs
        self.fault: BaseException | None = None
        self.is_over = True

    def start(self) -> None:
        """Begin to work."""
        self.is_over = False
        super().start()

    def run(self) -> None:
        """Work until the lane is done or halted."""
        try:
            self._work(self._runs)
        except HaltedError:
            return
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits for all lanes
            self.fault = error
            self._worker.halt()
        finally:
            self.is_over = True
