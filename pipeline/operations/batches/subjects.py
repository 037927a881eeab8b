"""What the requests of a batch are about, as columns of the task's table: pairs, samples, or turns of conversations."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pipeline.domain import Outcome
from pipeline.operations.workers.requests import Positions
from pipeline.operations.workers.run import Run
from pipeline.tasks import task_named
from pipeline.tasks.columns import Column, strings
from pipeline.tasks.rendering import Renderer
from pipeline.tasks.turns import TurnRenderer


class Subjects(Protocol):
    """The columns that say what requests are about."""

    def columns(self, positions: Positions, names: Column, values: Sequence[Any]) -> dict[str, Column]:
        """Return them for the requests at these positions; `names` are the subjects', `values` what was answered."""
        ...


def subjects_of(run: Run) -> Subjects:
    """Return what the requests of the run are about."""
    if isinstance(run.renderer, TurnRenderer):
        return _Turns(run, run.renderer)
    assert isinstance(run.renderer, Renderer), "what is no conversation is about samples"
    if task_named(run.config.task).SUBJECT == "pair":
        return _Pairs(run, run.renderer)
    return _Samples(run)


class _Pairs:
    """Two samples, and which of them won."""

    def __init__(self, run: Run, renderer: Renderer) -> None:
        self._first, self._second = renderer.sides
        material = run.material
        self._ids, self._contestants = strings(material.ids), strings(material.contestants)
        self._groups = strings(material.groups)

    def columns(self, positions: Positions, names: Column, values: Sequence[Outcome | None]) -> dict[str, Column]:
        """Return who met whom, and who won."""
        first, second = self._first[positions], self._second[positions]
        won = np.array([_SIDES.get(value, 0) for value in values])
        winners = pa.array(np.where(won == 1, first, second), mask=won == 0)
        return {
            "pair_id": names,
            "first_id": self._ids.take(first),
            "second_id": self._ids.take(second),
            "first_contestant": self._contestants.take(first),
            "second_contestant": self._contestants.take(second),
            "group": self._groups.take(first),
            "winner_id": self._ids.take(winners),
            "winner_contestant": self._contestants.take(winners),
        }


class _Samples:
    """One sample, and the criterion it is judged by."""

    def __init__(self, run: Run) -> None:
        material = run.material
        self._ids, self._contestants = strings(material.ids), strings(material.contestants)
        self._groups = strings(material.groups)
        default = run.config.criterion.name or None
        named = zip(material.statements, material.criteria, strict=True)
        self._criteria = strings([statement or own or default for statement, own in named])

    def columns(
        self,
        positions: Positions,
        names: Column,  # noqa: ARG002 - the sample's own
        values: Sequence[object],  # noqa: ARG002 - they say nothing about the sample
    ) -> dict[str, Column]:
        """Return which sample was asked about."""
        return {
            "sample_id": self._ids.take(positions),
            "contestant": self._contestants.take(positions),
            "group": self._groups.take(positions),
            "criterion": self._criteria.take(positions),
        }


class _Turns:
    """A turn of a sample's conversation, and what was said in it."""

    def __init__(self, run: Run, renderer: TurnRenderer) -> None:
        self._samples = _Samples(run)
        self._renderer = renderer

    def columns(self, positions: Positions, names: Column, values: Sequence[object]) -> dict[str, Column]:
        """Return which turn of which sample's conversation it was; turns are counted from 1."""
        asked = self._samples.columns(self._renderer.samples[positions], names, values)
        said = [self._renderer.said(position) for position in positions.tolist()]
        turns = pa.array((self._renderer.turn[positions] + 1).astype(np.int16))
        return {**asked, "turn": turns, "said": strings(said)}


_SIDES: dict[Outcome | None, int] = {"first": 1, "second": 2}
