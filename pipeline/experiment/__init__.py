"""The experiment file: read, checked and expanded into runs; nothing here touches the world.

`read_experiment` makes a value of the text, `expand` makes runs of the value, `changes` tells two versions of a
run apart.
"""

from pipeline.experiment.changes import changes
from pipeline.experiment.expand import expand, prices, rates
from pipeline.experiment.places import Places
from pipeline.experiment.reading import read_experiment
from pipeline.experiment.spec import ExperimentFile, TaskKeys, is_template_path, judge_cells, template_name

__all__ = [
    "ExperimentFile",
    "Places",
    "TaskKeys",
    "changes",
    "expand",
    "is_template_path",
    "judge_cells",
    "prices",
    "rates",
    "read_experiment",
    "template_name",
]
