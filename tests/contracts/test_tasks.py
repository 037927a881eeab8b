"""What every task must keep, found and tried one by one: a new file in `pipeline/tasks` is held to this as it is."""

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import providers
from pipeline.domain import Answer, Criterion, Judge, RunConfig, Tags, Template
from pipeline.ids import Digest, RunId
from pipeline.providers import BatchModule
from pipeline.ranking.columns import judge_labels
from pipeline.tasks import Scaled, Talks, task_keys, tasks
from pipeline.tasks.answers import Unparsed
from pipeline.tasks.columns import HEAD, OUTPUT

NAMES = sorted(tasks())
OPTIONS: dict[str, dict[str, Any]] = {
    "grading": {"scale": {"low": 1, "high": 5}},
    "classification": {"labels": {"yes": "it does", "no": "it does not"}},
    "conversation": {"turns": ["Go on."]},
}
WORTH_READING: dict[str, str] = {
    "pairwise": '{"better": "first"}',
    "compliance": '{"explanation": "Because.", "compliant": true, "confidence": 0.75}',
    "grading": '{"explanation": "Because.", "score": 4}',
    "classification": '{"explanation": "Because.", "label": "yes"}',
    "generation": "A text.",
    "conversation": "A text.",
}
FREE = ("generation", "conversation")


def a_config(name: str, *, answer: Answer = "json") -> RunConfig:
    task = tasks()[name]
    return RunConfig(
        run_id=RunId("r"),
        task=name,
        task_version=task.VERSION,
        template=Template(name="default", text=task.TEMPLATES["default"]),
        criterion=Criterion(name="Quality", description="How good it is."),
        tags=Tags(),
        ties=False,
        judge=Judge(provider="openai", model="m", answer=answer),
        direction="forward",
        repeat=1,
        samples=Digest("s"),
        pairs=Digest("p"),
        requests=1,
        options=OPTIONS.get(name, msgspec.UNSET),
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_task_has_a_table_of_its_own_with_the_columns_all_share(name: str) -> None:
    task = tasks()[name]
    assert [other.TABLE for other in tasks().values()].count(task.TABLE) == 1
    names = task.SCHEMA.names
    assert names[: len(HEAD)] == [field.name for field in HEAD]
    assert names[-len(OUTPUT) :] == [field.name for field in OUTPUT]
    assert "status" in names
    assert {measure.column for measure in task.MEASURES} <= set(names)
    assert set(task.columns([])) <= set(names)


@pytest.mark.parametrize("name", NAMES)
def test_a_task_that_speaks_of_turns_or_scales_says_which(name: str) -> None:
    task = tasks()[name]
    assert isinstance(task, Talks) == (task.SUBJECT == "turn")
    if isinstance(task, Scaled):
        means = {measure.column for measure in task.MEASURES if measure.kind == "mean"}
        bounds = task.bounds(a_config(name))
        assert set(bounds) <= means
        assert all(low < high for low, high in bounds.values())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answer", ["tag", "json"])
def test_its_built_in_words_can_be_split_and_say_how_to_answer(name: str, answer: Answer) -> None:
    compiled = tasks()[name].compiled(a_config(name, answer=answer))
    for fragments in (compiled.plain, compiled.contextual):
        assert sum(slot.startswith("SAMPLE") for slot in fragments.slots) == (2 if name == "pairwise" else 1)
        text = "".join(fragments.texts)
        assert "{" not in text.replace('{"', "").replace("{better", "")
        assert (name in FREE) or ("JSON" if answer == "json" else "</") in text


@pytest.mark.parametrize("name", NAMES)
@given(content=st.none() | st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(),
       lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)).map(json.dumps))  # fmt: skip
def test_its_reader_never_raises_and_its_columns_fit_the_schema(name: str, content: str | None) -> None:
    for answer in ("tag", "json"):
        task, config = tasks()[name], a_config(name, answer=answer)
        value = task.reader(config)(content)
        if isinstance(value, Unparsed):
            value = None
        for column, values in task.columns([value, None]).items():
            pa.array(values, task.SCHEMA.field(column).type)


@pytest.mark.parametrize("name", NAMES)
def test_what_it_asks_for_by_schema_is_what_it_reads(name: str) -> None:
    task, config = tasks()[name], a_config(name)
    assert not isinstance(task.reader(config)(WORTH_READING[name]), Unparsed)
    schema = task.json_schema(config)
    assert (schema is None) == (name in FREE)
    if schema is not None:
        properties: Any = schema["properties"]
        assert set(json.loads(WORTH_READING[name])) == set(properties) == set(schema["required"])  # type: ignore[call-overload]
        assert schema["additionalProperties"] is False
        assert not {"minimum", "maximum", "minLength"} & {key for each in properties.values() for key in each}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in FREE])
@pytest.mark.parametrize("provider", providers.names())
def test_its_schema_reaches_every_provider_that_takes_one(name: str, provider: str) -> None:
    module = providers.module(provider)
    judge = Judge(provider=provider, model="m", mode=module.MODES[0])
    make = module.frame if isinstance(module, BatchModule) else providers.live_module(provider).live_frame
    schema = tasks()[name].json_schema(a_config(name))
    line = b"x".join(make(judge, schema=schema).texts).decode()
    wanted = json.dumps(schema, separators=(",", ":"))
    assert (wanted in line) == ("json" in providers.particulars(provider).ANSWERS)


def test_no_two_tasks_mean_different_things_by_one_key() -> None:
    own = [key for keys in task_keys().values() for key in keys.own.__struct_fields__]
    assert len(own) == len(set(own))


def test_every_table_tells_its_judges_apart() -> None:
    for task in tasks().values():
        assert len(judge_labels(task.SCHEMA.empty_table())) == 0
