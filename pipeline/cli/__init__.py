"""The command line: the same operations as in Dagster, for a terminal.

What people read goes to standard error, what programs read to standard output. Exit 0: done; 1: something is left,
held or broken, and the last line says what; 2: the call or a file is wrong, and nothing was written or sent.

Nothing heavy is imported before `main` listens to signals: Ctrl-C in the first second is an ordinary one.
"""

import os
import signal
import sys
from collections.abc import Callable

_INTERRUPTED = 130  # what the command line's library makes of Ctrl-C


def main() -> None:
    """Run the command and leave with its exit code; SIGTERM is treated like Ctrl-C."""
    _on_signals(_stop)
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("stopped: interrupted before anything was done\n")
        code = 1
    sys.exit(code)


def _on_signals(react: Callable[..., None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, react)


def _stop(*_: object) -> None:
    """Stop in good order: a worker says what it announced and did not send. A second signal stops it at once."""
    _on_signals(_leave)
    raise KeyboardInterrupt


def _leave(*_: object) -> None:
    os._exit(1)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    from pipeline.cli.app import close_workers, if_interrupted, when_interrupted
    from pipeline.cli.screen import complain
    from pipeline.errors import ConfigError, PipelineError

    if_interrupted("interrupted")
    try:
        code = _called(arguments)
    except ConfigError as error:
        complain(str(error))
        return 2
    except PipelineError as error:
        complain(str(error))
        return 1
    finally:
        close_workers()
    if code == _INTERRUPTED:
        complain(when_interrupted(), title="stopped")
        return 1
    return code


def _called(arguments: list[str]) -> int:
    from pipeline.cli.app import app

    try:
        app(arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
