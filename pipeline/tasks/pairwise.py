"""The question which of two samples is better.

The question's words are a template (`templates`), what to look at is a criterion (`traits`), the answer is read in
`answers`; here stands what makes them one task, and the table its answers become.
"""

import pyarrow as pa

from pipeline.domain import Answer, Outcome, Tags
from pipeline.tasks.answers import Unparsed, read_json, read_tag

VERSION = 1  # part of every request id: raise it when the built-in words or the reading of answers change meaning

_NAME = pa.dictionary(pa.int32(), pa.string())

SCHEMA = pa.schema(
    [
        pa.field("experiment", _NAME),
        pa.field("run_id", _NAME),
        pa.field("template", _NAME),
        pa.field("provider", _NAME),
        pa.field("model", _NAME),
        pa.field("reasoning", _NAME),
        pa.field("direction", _NAME),
        pa.field("repeat", pa.int16()),
        pa.field("pair_id", pa.string()),
        pa.field("first_id", pa.string()),
        pa.field("second_id", pa.string()),
        pa.field("first_contestant", pa.string()),
        pa.field("second_contestant", pa.string()),
        pa.field("group", pa.string()),
        pa.field("status", pa.string()),
        pa.field("outcome", pa.string()),
        pa.field("winner_id", pa.string()),
        pa.field("winner_contestant", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("content", pa.string()),
        pa.field("thoughts", pa.string()),
        pa.field("finish_reason", pa.string()),
        pa.field("returned_model", pa.string()),
        pa.field("input_tokens", pa.int32()),
        pa.field("cached_tokens", pa.int32()),
        pa.field("output_tokens", pa.int32()),
        pa.field("reasoning_tokens", pa.int32()),
        pa.field("attempt", pa.int16()),
        pa.field("request_id", pa.string()),
        pa.field("batch_id", pa.string()),
        pa.field("remote_batch_id", pa.string()),
        pa.field("judged_at", pa.timestamp("us", tz="UTC")),
    ]
)


def json_schema(*, ties: bool) -> dict[str, object]:
    """Return the JSON Schema of the answer, in the subset that every provider's structured output takes."""
    outcomes: list[Outcome] = ["first", "second", "tie"] if ties else ["first", "second"]
    return {
        "type": "object",
        "properties": {"better": {"type": "string", "enum": outcomes}},
        "required": ["better"],
        "additionalProperties": False,
    }


def read(content: str | None, *, answer: Answer, tags: Tags, ties: bool) -> Outcome | Unparsed:
    """Return what the judge decided, or why that cannot be told; never raises."""
    if content is None:
        return Unparsed(reason="empty")
    if answer == "json":
        return read_json(content, ties=ties)
    return read_tag(content, tags, ties=ties)
