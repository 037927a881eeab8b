"""The command line beside the notebook, so that what one shows can be held against the other."""

from tests.cli.conftest import pairlog, simulator

__all__ = ["pairlog", "simulator"]
