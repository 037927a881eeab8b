"""The task of keeping up a talk: a sample's text is said first, each further turn answers what the model wrote.

The turns come from the experiment file, or from a sample's own `turns`. A turn is asked only when the model's real
answer to the one before is there; where there is none the conversation ends. Whole conversations can be judged by a
later experiment: `samples: conversations://<experiment>`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from pipeline.domain import Answer, Measure, RunConfig
from pipeline.tasks import generation
from pipeline.tasks.answers import Unparsed
from pipeline.tasks.columns import GROUP, about_samples
from pipeline.tasks.templates import SAID, CompiledTemplate, split_template

VERSION = 1  # raise it when the built-in words or the reading of answers change meaning
TABLE = "conversations"
SUBJECT = "turn"
KEYS = frozenset[str]()
SLOTS = SAID
ANSWER: Answer = "tag"
TEMPLATES = {"default": "{SAMPLE}"}
SCHEMA = about_samples(subject=[GROUP, pa.field("turn", pa.int16()), pa.field("said", pa.string())], answer=[])
MEASURES = (Measure(column="content", kind="length", by=("model", "turn")),)

_TOLD = ["run_id", "sample_id", "turn", "said", "status", "content", "request_id"]
_Turn = Annotated[str, Meta(pattern=r"\S", description="text that is not empty")]


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of its own that this task has in an experiment file."""

    turns: Annotated[tuple[_Turn, ...], Meta(description="a list of texts, each said after an answer")] = ()


def turns(options: Options) -> Sequence[str]:
    """Return what is said after each answer."""
    return options.turns


def compiled(config: RunConfig) -> CompiledTemplate:
    """Return the words around what is said first: none, unless a template of one's own adds some."""
    return split_template(config.template, SLOTS, asked=None)


def json_schema(config: RunConfig) -> dict[str, object] | None:
    """Return None: whatever is written is the answer."""
    return generation.json_schema(config)


def reader(config: RunConfig) -> Callable[[str | None], str | Unparsed]:
    """Return what takes any text for an answer, but nothing else."""
    return generation.reader(config)


def written(rows: pa.Table) -> pa.Table:
    """Return whole conversations, each under the id of its last request; one that broke off is left out."""
    order = [("run_id", "ascending"), ("sample_id", "ascending"), ("turn", "ascending")]
    plain = rows.set_column(rows.schema.get_field_index("run_id"), "run_id", pc.cast(rows["run_id"], pa.string()))
    talks: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in plain.select(_TOLD).sort_by(order).to_pylist():
        talks.setdefault((row["run_id"], row["sample_id"]), []).append(row)
    whole = {key: talk for key, talk in talks.items() if all(row["status"] == "ok" for row in talk)}
    return pa.table(
        {
            "run_id": pa.array([run_id for run_id, _ in whole], pa.string()),
            "sample_id": pa.array([sample_id for _, sample_id in whole], pa.string()),
            "id": pa.array([talk[-1]["request_id"] for talk in whole.values()], pa.string()),
            "text": pa.array([_transcript(talk) for talk in whole.values()], pa.string()),
        }
    )


def _transcript(talk: Sequence[Mapping[str, str]]) -> str:
    return "\n\n".join(f"User: {row['said']}\n\nModel: {row['content']}" for row in talk)


def columns(values: Sequence[str | None]) -> Mapping[str, list[object]]:
    """Return no columns: the text is in `content` already."""
    return generation.columns(values)
