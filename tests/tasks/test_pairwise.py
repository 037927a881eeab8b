import json

import pyarrow as pa
import pytest

from pipeline.domain import Answer, Tags
from pipeline.errors import ConfigError
from pipeline.tasks import pairwise, task_named
from pipeline.tasks.answers import Unparsed

NAMES = ["experiment", "run_id", "template", "provider", "model", "reasoning", "direction"]
REST = {
    "repeat": pa.int16(),
    "pair_id": pa.string(),
    "first_id": pa.string(),
    "second_id": pa.string(),
    "first_contestant": pa.string(),
    "second_contestant": pa.string(),
    "group": pa.string(),
    "status": pa.string(),
    "outcome": pa.string(),
    "winner_id": pa.string(),
    "winner_contestant": pa.string(),
    "reason": pa.string(),
    "content": pa.string(),
    "thoughts": pa.string(),
    "finish_reason": pa.string(),
    "returned_model": pa.string(),
    "input_tokens": pa.int32(),
    "cached_tokens": pa.int32(),
    "output_tokens": pa.int32(),
    "reasoning_tokens": pa.int32(),
    "attempt": pa.int16(),
    "request_id": pa.string(),
    "batch_id": pa.string(),
    "remote_batch_id": pa.string(),
    "judged_at": pa.timestamp("us", tz="UTC"),
}


def test_the_table_has_the_columns_users_rely_on_in_their_order():
    expected = {name: pa.dictionary(pa.int32(), pa.string()) for name in NAMES} | REST
    assert list(zip(pairwise.SCHEMA.names, pairwise.SCHEMA.types, strict=True)) == list(expected.items())


def test_the_task_is_found_by_its_name():
    found: object = task_named("pairwise")
    assert found is pairwise
    assert pairwise.VERSION == 1


@pytest.mark.parametrize("name", ["pairwice", "Pairwise", "zzzz", ""])
def test_an_unknown_task_is_refused(name: str):
    with pytest.raises(ConfigError, match=r"is not a known task; .*pairwise"):
        task_named(name)


@pytest.mark.parametrize(("ties", "values"), [(False, ["first", "second"]), (True, ["first", "second", "tie"])])
def test_the_schema_of_an_answer_allows_what_can_be_read(ties: bool, values: list[str]):
    schema = json.loads(json.dumps(pairwise.schema_of(ties=ties)))
    assert schema == {
        "type": "object",
        "properties": {"better": {"type": "string", "enum": values}},
        "required": ["better"],
        "additionalProperties": False,
    }
    for value in values:
        content = json.dumps({"better": value})
        assert pairwise.reader_of("json", Tags(), ties=ties)(content) == value


@pytest.mark.parametrize(
    ("content", "answer", "expected"),
    [
        ("<BETTER_SAMPLE>SAMPLE_2</BETTER_SAMPLE>", "tag", "second"),
        ('{"better": "second"}', "json", "second"),
        ('{"better": "second"}', "tag", Unparsed(reason="no_answer")),
        ("<BETTER_SAMPLE>SAMPLE_2</BETTER_SAMPLE>", "json", Unparsed(reason="not_json")),
        (None, "tag", Unparsed(reason="empty")),
        (None, "json", Unparsed(reason="empty")),
    ],
)
def test_an_answer_is_read_in_the_way_it_was_asked_for(content: str | None, answer: Answer, expected: object):
    assert pairwise.reader_of(answer, Tags(), ties=False)(content) == expected
