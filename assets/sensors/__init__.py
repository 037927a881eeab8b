"""What runs by itself: experiments are registered, open batches polled, finished ones collected, answers computed.

On by default, for looking costs nothing. Nothing is sent that a person has not asked for: a sensor only goes on with
segments that the log says were asked for. Every tick may be repeated, previewed, overlapped or lost without harm, for
all it decides on is in the log; cursors are hints.
"""

import dagster as dg

from assets.sensors.alarms import stuck_batches
from assets.sensors.batches import batch_status
from assets.sensors.files import experiment_files
from assets.sensors.finished import finished_experiments

SENSORS = [
    experiment_files,
    batch_status,
    finished_experiments,
    stuck_batches,
    dg.AutomationConditionSensorDefinition(
        "automation",
        target=dg.AssetSelection.all(),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for diagnostics after rankings, and for your own assets by their conditions.",
    ),
]
