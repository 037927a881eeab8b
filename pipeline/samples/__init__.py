"""The samples of an experiment, checked and with a digest of their content; reading files is done in `storage`."""

from pipeline.samples.checks import COLUMNS
from pipeline.samples.differences import differences
from pipeline.samples.table import Samples

__all__ = ["COLUMNS", "Samples", "differences"]
