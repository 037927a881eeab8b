"""The task of answering a prompt: a sample's text is the prompt, its context the system prompt.

What was written can be judged by a later experiment: `samples: generations://<experiment>`.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.domain import Answer, Measure, RunConfig
from pipeline.tasks.answers import Unparsed
from pipeline.tasks.columns import GROUP, about_samples
from pipeline.tasks.templates import SAID, CompiledTemplate, split_template

VERSION = 1  # raise it when the built-in words or the reading of answers change meaning
TABLE = "generations"
SUBJECT = "prompt"
KEYS = frozenset[str]()
SLOTS = SAID
ANSWER: Answer = "tag"
TEMPLATES = {"default": "{SAMPLE}"}
SCHEMA = about_samples(subject=[GROUP], answer=[])
MEASURES = (Measure(column="content", kind="length", by=("model",)),)


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing besides the keys that every experiment file may have."""


def compiled(config: RunConfig) -> CompiledTemplate:
    """Return the words around the prompt: none, unless a template of one's own adds some."""
    return split_template(config.template, SLOTS, asked=None)


def json_schema(config: RunConfig) -> dict[str, object] | None:  # noqa: ARG001 - the writer is free
    """Return None: whatever is written is the answer."""
    return None


def reader(config: RunConfig) -> Callable[[str | None], str | Unparsed]:  # noqa: ARG001 - nothing is asked of a text
    """Return what takes any text for an answer, but nothing else."""
    return read


def read(content: str | None) -> str | Unparsed:
    """Return the text, or say that there is none; a row without one is not judged later."""
    return content if content is not None and content.strip() else Unparsed(reason="empty")


def written(rows: pa.Table) -> pa.Table:
    """Return what was written, each text under the id of its request, with its run and the sample it answers."""
    good = rows.filter(pc.equal(rows["status"], "ok"))
    return pa.table(
        {"run_id": good["run_id"], "sample_id": good["sample_id"], "id": good["request_id"], "text": good["content"]}
    )


def columns(values: Sequence[str | None]) -> Mapping[str, list[object]]:  # noqa: ARG001 - it is the content
    """Return no columns: the text is in `content` already."""
    return {}
