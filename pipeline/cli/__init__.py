"""The command line: the same operations as in Dagster, for a terminal.

What people read goes to standard error, what programs read to standard output. Exit 0: done; 1: something is left,
held or broken, and the last line says what; 2: the call or a file is wrong, and nothing was written or sent.
"""

import sys

import click

from pipeline.cli.app import app
from pipeline.cli.screen import complain
from pipeline.errors import ConfigError, PipelineError


def main() -> None:
    """Run the command and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        code = app(arguments, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ConfigError as error:
        complain(str(error))
        return 2
    except PipelineError as error:
        complain(str(error))
        return 1
    except (KeyboardInterrupt, click.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        complain("interrupted; nothing is lost: `pairlog resume` goes on from here", title="stopped")
        return 1
    return code if isinstance(code, int) else 0


_INTERRUPTED = 130  # what the library of the command line makes of Ctrl-C
