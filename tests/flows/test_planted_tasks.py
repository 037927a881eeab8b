"""A further task is a further file, and nothing else is edited: two are planted and taken through whole studies."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline import tasks
from pipeline.ids import ExperimentName
from pipeline.operations.reading.summaries import measures_of, report, summary
from pipeline.operations.workers.worker import Worker
from pipeline.simulator import Simulator
from tests.flows.studies import column, counts, finished, problems, rows

WARMTH = '''
"""How warm is this text, in degrees?"""

import msgspec
import pyarrow as pa

from pipeline.domain import Measure
from pipeline.tasks.answers import Unparsed
from pipeline.tasks.columns import CONTESTANT, GROUP, about_samples
from pipeline.tasks.fields import columns_of, decimal, instruction, object_schema, read_fields
from pipeline.tasks.templates import JUDGED, split_template
from pipeline.tasks.wording import ONE_TEXT

VERSION = 1
TABLE = "warmths"
SUBJECT = "sample"
KEYS = frozenset({"criterion", "answer"})
SLOTS = JUDGED
ANSWER = "json"
SCHEMA = about_samples(subject=[CONTESTANT, GROUP], answer=[pa.field("degrees", pa.float64())])
MEASURES = (Measure(column="degrees", kind="mean", by=("contestant",)),)
TEMPLATES = {"default": f"How warm is it? {{TRAIT_NAME}} {{TRAIT_DESCRIPTION}}\\n{ONE_TEXT}\\n\\n{{ANSWER}}"}


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    warmest: int = 3


class Warmth(msgspec.Struct, frozen=True):
    degrees: float


def compiled(config):
    asked = instruction({"degrees": "a number"}, answer=config.judge.answer)
    return split_template(config.template, SLOTS, asked=asked, shown="<DEGREES>")


def json_schema(config):
    return object_schema({"degrees": {"type": "integer", "enum": [-7, -5, -3]}})


def reader(config):
    def read(content):
        found = read_fields(content, ("degrees",), answer=config.judge.answer)
        degrees = None if isinstance(found, Unparsed) else decimal(found["degrees"])
        return Unparsed(reason="no_answer") if degrees is None else Warmth(degrees)

    return read


def columns(values):
    return columns_of(values, ("degrees",))
'''

BOUNDED = """

def bounds(config):
    return {"degrees": (-7.0, -3.0)}
"""

QUARREL = '''
"""What follows if one says the opposite again and again?"""

from pipeline.tasks.conversation import *
from pipeline.tasks import generation
import msgspec

TABLE = "quarrels"
reader, json_schema, columns = generation.reader, generation.json_schema, generation.columns


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    quarrels: int


def turns(options):
    return ["I say the opposite."] * options.quarrels
'''


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Callable[[str, str], None]]:
    """Put a file among the tasks; it is gone when the test is over."""
    folder = tmp_path / "planted"
    folder.mkdir()
    known = set(sys.modules)

    def put(name: str, source: str) -> None:
        (folder / f"{name}.py").write_text(source)
        tasks.tasks.cache_clear()

    tasks.__path__.append(str(folder))
    yield put
    tasks.__path__.remove(str(folder))
    tasks.tasks.cache_clear()
    for name in set(sys.modules) - known:
        if name.startswith("pipeline.tasks."):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def file(text: str) -> Path:
        lines = "".join(f"{number},Text {number}.,{'ab'[number % 2]}\n" for number in range(24))
        (tmp_path / "s.csv").write_text(f"id,text,contestant\n{lines}")
        path = tmp_path / "e.yaml"
        path.write_text(f"name: essays\nsamples: s.csv\njudges: [{{provider: openai, model: m}}]\n{text}")
        return path

    return file


@pytest.mark.parametrize("bounded", [False, True])
def test_a_further_task_with_a_mean_is_summed_up_and_reported(
    simulate: Callable[..., Simulator],
    worker_for: Callable[..., Worker],
    plant: Callable[[str, str], None],
    write: Callable[[str], Path],
    bounded: bool,
) -> None:
    plant("warmth", WARMTH + (BOUNDED if bounded else ""))
    worker = worker_for(simulate())
    assert not finished(worker, write("task: warmth\nwarmest: 4\n")).is_open
    assert counts(worker)["ok"] == 24
    (found,) = measures_of(worker, ExperimentName("essays"))
    degrees = {-7.0, -5.0, -3.0}
    assert set(column(rows(worker), "degrees")) <= degrees
    assert found.bounds == ((-7.0, -3.0) if bounded else None)
    for cell in found.cells:
        assert cell.low is not None
        assert cell.high is not None
        assert -7 <= cell.value <= -3
        assert cell.low < cell.value < cell.high
    assert summary(worker, ExperimentName("essays")).lines[0][0] == "mean of degrees"
    assert "Means of degrees" in report(worker, ExperimentName("essays"))
    assert problems(worker) == []


def test_a_further_task_of_turns_has_its_own_options(
    simulate: Callable[..., Simulator],
    worker_for: Callable[..., Worker],
    plant: Callable[[str, str], None],
    write: Callable[[str], Path],
) -> None:
    plant("quarrel", QUARREL)
    worker = worker_for(simulate())
    assert not finished(worker, write("task: quarrel\nquarrels: 2\n")).is_open
    assert counts(worker)["ok"] == 3 * 24
    assert sorted(set(column(rows(worker), "turn"))) == [1, 2, 3]
    assert problems(worker) == []
