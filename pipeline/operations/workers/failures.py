"""What goes wrong with some runs, kept apart from the others: these go on, and those are named in the end."""

import contextlib
from collections.abc import Iterable, Iterator

from pipeline.errors import ConfigError, PipelineError, StoreError
from pipeline.operations.workers.run import Run
from pipeline.wording import and_more


@contextlib.contextmanager
def apart(*runs: Run) -> Iterator[None]:
    """Take note of what goes wrong with these runs, so that it stops no others; wrong settings concern them all."""
    try:
        yield
    except ConfigError:
        raise
    except PipelineError as error:
        for run in runs:
            run.failure = str(error)


def named_troubles(runs: Iterable[Run]) -> list[str]:
    """Return what keeps runs from going on; those that have the same trouble are named together."""
    named: dict[str, list[str]] = {}
    for run in runs:
        if run.trouble:
            named.setdefault(run.trouble, []).append(run.run_id)
    return [f"{and_more(together)}: {trouble}" for trouble, together in named.items()]


def raise_failures(runs: Iterable[Run]) -> None:
    """Raise StoreError if something went wrong with some of the runs, with all reasons."""
    if failed := [run for run in runs if run.failure]:
        raise StoreError("; ".join(named_troubles(failed)))
