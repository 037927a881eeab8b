"""Of the frozen versions of an experiment, one stands for each run: the one it was planned by, or the first."""

import pytest

from pipeline.domain import Criterion, Experiment, Judge, RunConfig, Tags, Template
from pipeline.experiment.versions import standing
from pipeline.ids import Digest, ExperimentName, RunId


def a_run(name: str, words: str) -> RunConfig:
    """A run of this name that asks in these words."""
    return RunConfig(
        run_id=RunId(f"e--{name}"),
        task="pairwise",
        task_version=1,
        template=Template(name="t", text=words),
        criterion=Criterion(name="Quality", description="How good it is."),
        tags=Tags(),
        ties=False,
        judge=Judge(provider="openai", model="m", answer="tag"),
        direction="forward",
        repeat=1,
        samples=Digest("s"),
        pairs=Digest("p"),
        requests=3,
    )


def a_version(**words: str) -> Experiment:
    """A version that asks in each run, by its name, in these words."""
    runs = tuple(a_run(name, each) for name, each in words.items())
    return Experiment(
        name=ExperimentName("e"), samples=Digest("s"), pairs=Digest("p"), attempts=3,
        max_requests=None, max_bytes=None, segments=None, runs=runs,
    )  # fmt: skip


OLD, GROWN = a_version(a="old"), a_version(a="old", b="old")
OTHER = a_version(a="other", b="other")
APART = a_version(c="other")


@pytest.mark.parametrize(
    ("versions", "planned", "expected", "read"),
    [
        ({"1": OLD}, {}, {"a": "1"}, []),
        ({"2": GROWN, "1": OLD}, {}, {"a": "1", "b": "2"}, []),
        ({"2": GROWN, "1": OLD}, {"a": "old"}, {"a": "1", "b": "2"}, []),
        ({"1": GROWN, "2": OTHER}, {}, {"a": "1", "b": "1"}, ["a", "b"]),
        ({"1": GROWN, "2": OTHER}, {"a": "other"}, {"a": "2", "b": "2"}, ["a", "b"]),
        ({"1": GROWN, "2": OTHER}, {"a": "old"}, {"a": "1", "b": "1"}, ["a", "b"]),
        ({"1": GROWN, "2": OTHER}, {"a": "old", "b": "other"}, {"a": "1", "b": "2"}, ["a", "b"]),
        ({"1": OLD, "2": OTHER}, {"a": "old"}, {"a": "1"}, ["a", "b"]),
        ({"1": OLD, "2": OTHER}, {"a": "old", "b": "other"}, {"a": "1", "b": "2"}, ["a", "b"]),
        ({"1": OLD, "2": OTHER, "3": APART}, {"a": "old"}, {"a": "1", "c": "3"}, ["a", "b"]),
    ],
)
def test_the_version_that_a_run_was_planned_by_stands(
    versions: dict[str, Experiment], planned: dict[str, str], expected: dict[str, str], read: list[str]
) -> None:
    asked: list[str] = []

    def planned_by(run_id: RunId) -> Digest | None:
        name = run_id.removeprefix("e--")
        asked.append(name)
        return a_run(name, planned[name]).digest() if name in planned else None

    found = standing([(Digest(named), version) for named, version in versions.items()], planned_by)
    assert {offer.config.run_id.removeprefix("e--"): offer.digest for offer in found} == expected
    assert sorted(asked) == read
