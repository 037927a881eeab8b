"""The one place where assets, checks, sensors, jobs and resources become a code location.

Importing reads no environment, opens nothing and calls nobody.
"""

import warnings

import dagster as dg

warnings.filterwarnings("ignore", category=dg.BetaWarning)  # backfill policies

from assets import checks, inputs, jobs, judging, results, sensors  # noqa: E402 - the filter must stand first
from assets.resources import Workers  # noqa: E402 - as above


def build_defs(workers: Workers | None = None) -> dg.Definitions:
    """Return the code location; tests give it workers of their own."""
    return dg.Definitions(
        assets=[*inputs.ASSETS, *judging.ASSETS, *results.ASSETS],
        asset_checks=checks.CHECKS,
        jobs=[jobs.submit, jobs.make_pairs, jobs.send, jobs.collect, jobs.rank],
        sensors=sensors.SENSORS,
        resources={"workers": workers or Workers()},
        executor=dg.in_process_executor,
    )


defs = build_defs()
