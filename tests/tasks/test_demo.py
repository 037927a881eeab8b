from pathlib import Path

import pytest

from pipeline.experiment import read_experiment
from pipeline.samples import Samples
from pipeline.storage.sources import read_samples
from pipeline.tasks import task_keys, task_named
from pipeline.tasks.traits import criterion_named

DEMO = Path(__file__).parents[2] / "infra" / "demo"


@pytest.fixture(scope="module")
def essays() -> Samples:
    return read_samples("essays.csv", base=str(DEMO))


@pytest.fixture(scope="module")
def qualities(essays: Samples) -> list[float]:
    return [float(quality) for quality in essays.table.column("quality").to_pylist()]


def test_the_demo_has_twenty_different_essays(essays: Samples):
    assert essays.ids() == [f"essay-{number:02d}" for number in range(1, 21)]
    assert len(set(essays.texts())) == 20


def test_the_demo_has_four_essays_at_each_level_and_a_total_order(qualities: list[float]):
    assert len(set(qualities)) == 20
    assert sorted(round(quality) for quality in qualities) == sorted([-2, -1, 0, 1, 2] * 4)


def test_the_order_of_the_demo_does_not_betray_quality(qualities: list[float]):
    assert abs(sum((number - 9.5) * quality for number, quality in enumerate(qualities))) < 40


def test_better_essays_are_of_reasonable_length(essays: Samples, qualities: list[float]):
    better = [text for text, quality in zip(essays.texts(), qualities, strict=True) if quality > 0.5]
    assert all(40 <= len(text.split()) <= 90 for text in better)


def test_the_demo_experiment_is_valid_and_judges_every_pair_in_both_directions():
    experiment = read_experiment((DEMO / "essays.yaml").read_bytes(), source="essays.yaml", tasks=task_keys())
    assert (experiment.samples, experiment.pairs.design) == ("essays.csv", "all")
    assert list(experiment.directions) == ["forward", "reverse"]
    assert task_named(experiment.task).VERSION == 1
    assert isinstance(experiment.criterion, str)
    assert criterion_named(experiment.criterion).name == "Overall quality"
