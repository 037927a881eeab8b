"""The question which of two samples is better.

The question's words are a template (`templates`), what to look at is a criterion (`traits`), the answer is read in
`answers`; here stands what makes them one task, and the table its answers become.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import msgspec
import pyarrow as pa
from msgspec import Meta

from pipeline.domain import Answer, Measure, Outcome, RunConfig, Tags
from pipeline.tasks.answers import Unparsed, read_json, tag_reader
from pipeline.tasks.columns import HEAD, OUTPUT, REPEAT, STATUS
from pipeline.tasks.fields import object_schema
from pipeline.tasks.options import options_of
from pipeline.tasks.templates import PAIR, CompiledTemplate, compile_template
from pipeline.tasks.wording import WORDING

VERSION = 1  # part of every request id: raise it when the built-in words or the reading of answers change meaning
TABLE = "comparisons"
SUBJECT = "pair"
KEYS = frozenset({"criterion", "answer", "pairs", "directions", "reverse_share", "ties", "tags"})
SLOTS = PAIR
TEMPLATES = WORDING
ANSWER: Answer = "tag"
SCHEMA = pa.schema(
    [
        *HEAD,
        pa.field("direction", HEAD[0].type),
        REPEAT,
        pa.field("pair_id", pa.string()),
        pa.field("first_id", pa.string()),
        pa.field("second_id", pa.string()),
        pa.field("first_contestant", pa.string()),
        pa.field("second_contestant", pa.string()),
        pa.field("group", pa.string()),
        STATUS,
        pa.field("outcome", pa.string()),
        pa.field("winner_id", pa.string()),
        pa.field("winner_contestant", pa.string()),
        *OUTPUT,
    ]
)
MEASURES = (Measure(column="outcome", kind="choices", by=("model",)),)


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of its own that this task has in an experiment file."""

    not_applicable: Annotated[bool, Meta(description="true or false")] = False


def compiled(config: RunConfig) -> CompiledTemplate:
    """Return the words of the question."""
    return compile_template(
        config.template,
        answer=config.judge.answer,
        tags=config.tags,
        ties=config.ties,
        abstain=options_of(config, Options).not_applicable,
    )


def json_schema(config: RunConfig) -> dict[str, object] | None:
    """Return the JSON Schema of the answer."""
    return schema_of(ties=config.ties, abstain=options_of(config, Options).not_applicable)


def schema_of(*, ties: bool, abstain: bool = False) -> dict[str, object]:
    """Return the JSON Schema of an answer, in the subset that every provider's structured output takes."""
    choices = ["first", "second", *(["tie"] if ties else []), *(["n/a"] if abstain else [])]
    return object_schema({"better": {"type": "string", "enum": choices}})


def reader(config: RunConfig) -> Callable[[str | None], Outcome | Unparsed]:
    """Return what reads the answers of this run."""
    return reader_of(
        config.judge.answer, config.tags, ties=config.ties, abstain=options_of(config, Options).not_applicable
    )


def reader_of(
    answer: Answer, tags: Tags, *, ties: bool, abstain: bool = False
) -> Callable[[str | None], Outcome | Unparsed]:
    """Return what tells what the judge decided, or why that cannot be told; it never raises."""
    if answer == "tag":
        return tag_reader(tags, ties=ties, abstain=abstain)
    return lambda content: read_json(content or "", ties=ties, abstain=abstain)


def columns(values: Sequence[Outcome | None]) -> Mapping[str, list[Outcome | None]]:
    """Return the column that says who won; the winner's names follow from the pair."""
    return {"outcome": list(values)}
