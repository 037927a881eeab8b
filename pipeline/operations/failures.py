"""What goes wrong with some runs, kept apart from the others: these go on, and those are named in the end."""

import contextlib
from collections.abc import Iterator

from pipeline.errors import ConfigError, PipelineError
from pipeline.operations.run import Run


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
