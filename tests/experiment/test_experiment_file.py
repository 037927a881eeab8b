"""What an experiment file may say, and the one sentence it gets when it says something else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Tags
from pipeline.errors import ConfigError
from pipeline.experiment import ExperimentFile, read_experiment, template_name
from pipeline.experiment.document import MOST_BYTES
from pipeline.experiment.spec import BatchSpec, JudgeSpec, OwnCriterion, PairsSpec, file_type
from pipeline.ids import ExperimentName
from pipeline.tasks import task_keys

SMALL = """\
name: essays
samples: essays.csv
judges:
  - {provider: openai, model: gpt-6-luna}
"""

WHOLE = """\
name: essays
samples: essays.csv
task: pairwise
criterion: {name: clarity, description: "Which text is clearer?"}
templates: [default, prompts/mine.txt]
answer: tag
pairs: {design: random, count: 400, seed: 123, order: balanced}
directions: [forward, reverse]
reverse_share: 0.5
ties: true
tags: {prefix: "[[", suffix: "]]"}
repeats: 2
judges:
  - {provider: openai, model: gpt-6-luna, reasoning: [none, low], endpoint: chat, answer: json}
  - {provider: together, model: Qwen/Qwen3-235B-A22B-fp8-tput, mode: live, requests_per_second: 10}
  - {provider: gemini, model: gemini-3.8-flash, max_output_tokens: 2_000, temperature: 0}
batch: {max_requests: 5000, max_bytes: 50_000_000}
attempts: 5
"""


def read(text: str | bytes) -> ExperimentFile:
    return read_experiment(text if isinstance(text, bytes) else text.encode(), source="study.yaml", tasks=task_keys())


def refusal(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    message = str(caught.value)
    assert message.startswith("study.yaml")
    assert "\n" not in message
    assert message.isprintable()
    return message


def said_about(text: str | bytes) -> str:
    try:
        read(text)
    except ConfigError as error:
        return str(error)
    return ""


def with_judge(fields: str) -> str:
    return f"name: essays\nsamples: essays.csv\njudges:\n  - {{provider: openai, {fields}}}\n"


def a_pairwise_file(**fields: Any) -> ExperimentFile:
    return file_type("pairwise", task_keys()["pairwise"].own)(**fields)


def test_a_small_file_gets_the_defaults() -> None:
    assert read(SMALL) == a_pairwise_file(
        name=ExperimentName("essays"),
        samples="essays.csv",
        judges=(JudgeSpec(provider="openai", model="gpt-6-luna", reasoning="default"),),
        task="pairwise",
        criterion="overall_quality",
        templates=("default",),
        answer=None,
        not_applicable=False,
        pairs=PairsSpec(design="all", count=None, share=None, seed=0, order="random"),
        directions=("forward",),
        reverse_share=None,
        ties=False,
        tags=Tags(prefix="<BETTER_SAMPLE>", suffix="</BETTER_SAMPLE>"),
        repeats=1,
        batch=BatchSpec(max_requests=None, max_bytes=None, segments=None),
        attempts=3,
    )


def test_every_field_can_be_set() -> None:
    assert read(WHOLE) == a_pairwise_file(
        name=ExperimentName("essays"),
        samples="essays.csv",
        criterion=OwnCriterion(name="clarity", description="Which text is clearer?"),
        templates=("default", "prompts/mine.txt"),
        answer="tag",
        pairs=PairsSpec(design="random", count=400, seed=123, order="balanced"),
        directions=("forward", "reverse"),
        reverse_share=0.5,
        ties=True,
        tags=Tags(prefix="[[", suffix="]]"),
        repeats=2,
        judges=(
            JudgeSpec(provider="openai", model="gpt-6-luna", reasoning=("none", "low"), endpoint="chat", answer="json"),
            JudgeSpec(provider="together", model="Qwen/Qwen3-235B-A22B-fp8-tput", mode="live", requests_per_second=10),
            JudgeSpec(provider="gemini", model="gemini-3.8-flash", max_output_tokens=2000, temperature=0),
        ),
        batch=BatchSpec(max_requests=5000, max_bytes=50_000_000),
        attempts=5,
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("../up", id="A1"),
        pytest.param("a/../b", id="A1-inside"),
        pytest.param("/etc", id="A2-slash"),
        pytest.param("~root", id="A2-tilde"),
        pytest.param("c:x", id="A2-drive"),
        pytest.param("a\\b", id="A2-backslash"),
        pytest.param("a%2e%2e", id="A3"),
        pytest.param("a\x00b", id="A4-nul"),
        pytest.param("a\n", id="A4-newline"),
        pytest.param("\x1b[31mred", id="A4-ansi"),
        pytest.param("caf\u00e9", id="A5-composed"),
        pytest.param("cafe\u0301", id="A5-decomposed"),
        pytest.param("Essays", id="A6"),
        pytest.param("a" * 41, id="A7"),
        pytest.param("", id="A8-empty"),
        pytest.param("  ", id="A8-blank"),
        pytest.param("-a", id="dash-first"),
        pytest.param("a_b", id="underscore"),
    ],
)
def test_a_bad_name_is_refused_and_shown_as_repr(name: str) -> None:
    escaped = "".join(f"\\U{ord(character):08x}" for character in name)
    message = refusal(SMALL.replace("essays\n", f'"{escaped}"\n', 1))
    assert message.startswith(f"study.yaml, line 1: name is {name!r}; it must be 1 to 40 of a-z")


@pytest.mark.parametrize("model", ["org/model", "model:7b", "model@2026", "a model with x"])
def test_a9_model_names_keep_their_odd_characters(model: str) -> None:
    assert read(with_judge(f'model: "{model}"')).judges[0].models == (model,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("x: !!python/object/apply:os.system [ls]", "line 5: x: the tag 'tag:yaml", id="A10-python"),
        pytest.param("ties: !!bool true", "line 5: ties: the tag", id="A10-standard"),
        pytest.param("ties: !mine true", "line 5: ties: the tag '!mine' is not allowed", id="A10-own"),
        pytest.param("ties: true\nties: false", "line 6: ties: the key stands twice", id="A12"),
        pytest.param("pairs: {seed: 1, seed: 2}", "line 5: pairs.seed: the key stands twice", id="A12-inside"),
        pytest.param("1: a", "line 5: a key must be text: 1", id="number-key"),
        pytest.param("no: a", "line 5: a key must be text: no", id="bool-key"),
        pytest.param("? [a]\n: b", "line 5: a key must be text: a list", id="list-key"),
        pytest.param("---\nname: b", "line 5: a second document begins", id="two-documents"),
        pytest.param("ties: [true", "line 5: not valid YAML: expected ',' or ']'", id="syntax"),
        pytest.param(
            "criterion: {name: wit, description: Which is funnier?}",
            "not valid YAML: expected ',' or '}', but got '?'; close what is open, and put a text with a mark",
            id="question-mark",
        ),
        pytest.param(
            "criterion: Style: how it is written",
            "not valid YAML: mapping values are not allowed here; begin keys of one level alike, and put a text with a",
            id="colon",
        ),
        pytest.param("\tties: true", "line 5: a tab stands where YAML takes spaces only; use spaces", id="tab"),
        pytest.param("ties: *gone", "line 5: ties: the alias *gone stands for nothing", id="no-anchor"),
        pytest.param("ties: &a [*a]", "line 5: ties[0]: the alias *a stands for nothing", id="own-alias"),
        pytest.param("ties: \x07", "line 5: the character U+0007 is not allowed", id="control"),
        pytest.param('criterion: "\\ud800"', "line 5: criterion: half of a surrogate pair", id="surrogate"),
        pytest.param("ties: " + "[" * 5000, "nested more than 32 levels", id="deep"),
    ],
)
def test_yaml_beyond_the_plain_kind_is_refused(text: str, said: str) -> None:
    assert said in refusal(SMALL + text)


def test_a_character_that_json_writes_as_two_halves_is_one() -> None:
    text = 'criterion: {name: "\\ud83d\\ude00", description: "d\\ud83d\\ude00"}'
    assert read(SMALL + text).criterion == OwnCriterion(name="\U0001f600", description="d\U0001f600")


def test_a_model_with_too_long_a_name_is_refused_for_that() -> None:
    assert "of at most 200 characters" in refusal(with_judge(f"model: {'m' * 201}"))


def test_a11_an_alias_bomb_is_refused() -> None:
    bomb = "x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n"
    bomb += "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, 30))
    assert "values when every alias is written out" in refusal(SMALL + bomb)


def test_small_anchors_and_merges_are_fine() -> None:
    text = (
        "name: essays\nsamples: essays.csv\njudges:\n"
        "  - &one {provider: openai, model: a, reasoning: &levels [none, low]}\n"
        "  - {<<: *one, model: b}\n"
        "  - {provider: anthropic, model: c, reasoning: *levels}\n"
    )
    assert read(text).judges == (
        JudgeSpec(provider="openai", model="a", reasoning=("none", "low")),
        JudgeSpec(provider="openai", model="b", reasoning=("none", "low")),
        JudgeSpec(provider="anthropic", model="c", reasoning=("none", "low")),
    )


def test_a11_a_file_above_one_mebibyte_is_refused() -> None:
    assert f"at most {MOST_BYTES}" in refusal(SMALL.encode() + b"#" * MOST_BYTES)


def test_a_file_that_is_not_utf8_is_refused_with_the_line() -> None:
    assert refusal(SMALL.encode() + b"criterion: \xff") == ("study.yaml, line 5: not UTF-8; save the file as UTF-8")


def test_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    assert read(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode()) == read(SMALL)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n"])
def test_an_empty_file_is_refused(text: str) -> None:
    assert "empty" in refusal(text)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        pytest.param("no", "judges[0].model is no, which YAML does not read as text; put it in quotes", id="A13-no"),
        pytest.param("4.1", "judges[0].model is 4.1, which YAML does not read as text; put it in", id="A13-float"),
        pytest.param("1e3", "judges[0].model is 1e3, which YAML does not read as text; put it in", id="A13-1e3"),
        pytest.param("012", "judges[0].model: 012 is a number in another notation", id="A13-octal"),
        pytest.param("0x1F", "judges[0].model: 0x1F is a number in another notation", id="A13-hex"),
        pytest.param("1:30", "judges[0].model: 1:30 is a number of base 60", id="A13-sexagesimal"),
        pytest.param("2026-01-31", "judges[0].model: 2026-01-31 is a date to YAML; put it in quotes", id="A13-date"),
        pytest.param("", "judges[0].model is empty; it must be text, or a list", id="A13-null"),
        pytest.param("[a, 7]", "judges[0].model[1] is 7, which YAML does not read as text", id="A13-in-list"),
        pytest.param("[]", "judges[0].model is an empty list; it must be text, or a list of texts", id="empty-list"),
        pytest.param("''", "judges[0].model is ''; it must be text", id="empty-text"),
        pytest.param("{a: b}", "judges[0].model is a mapping; it must be text", id="mapping"),
        pytest.param("' a'", "judges[0].model is ' a'; it must be text", id="space"),
        pytest.param('"a\\nb"', "judges[0].model is 'a\\nb'; it must be text", id="newline"),
        pytest.param("[a, b, a]", "judges[0]: model holds 'a' twice", id="twins"),
    ],
)
def test_a_model_that_is_no_text_is_refused_with_its_path(written: str, said: str) -> None:
    assert f"study.yaml, line 4: {said}" in refusal(with_judge(f"model: {written}"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("atempts: 3", "atempts is not a known key; did you mean attempts?", id="A14"),
        pytest.param("Ties: true", "Ties is not a known key; did you mean ties?", id="A14-case"),
        pytest.param("zzz: 3", "zzz is not a known key; choose one of name, samples, judges", id="A14-far"),
        pytest.param("pairs: {desing: all}", "pairs.desing is not a known key; did you mean design?", id="A14-pairs"),
        pytest.param("batch: {segment: 4}", "batch.segment is not a known key; did you mean segments?", id="A14-batch"),
        pytest.param("tags: {prefx: a}", "tags.prefx is not a known key; did you mean prefix?", id="A14-tags"),
        pytest.param("criterion: {nam: a}", "criterion.nam is not a known key; did you mean name?", id="A14-criterion"),
        pytest.param("criterion: {name: a}", "criterion.description is missing; add text", id="half-criterion"),
        pytest.param("criterion: 3", "criterion is 3, which YAML does not read as text", id="criterion-number"),
        pytest.param("criterion: ' '", "criterion is ' '; it must be a name, or", id="criterion-blank"),
        pytest.param("task: essay", "task is 'essay'; choose one of classification, compliance, conv", id="task"),
        pytest.param("answer: xml", "answer is 'xml'; it must be tag or json", id="answer"),
        pytest.param("templates: []", "templates is an empty list; it must be a list of at least one", id="templates"),
        pytest.param("templates: default", "templates is 'default'; it must be a list", id="templates-text"),
        pytest.param("templates: [a, a]", "templates holds 'a' twice", id="template-twins"),
        pytest.param("templates: [mine, x/mine.txt]", "templates holds 'mine' twice", id="template-names"),
        pytest.param("pairs: {design: some}", "pairs.design is 'some'; it must be all, random or groups", id="design"),
        pytest.param("pairs: {order: up}", "pairs.order is 'up'; it must be random, alternate", id="order"),
        pytest.param("pairs: {seed: -1}", "pairs.seed is -1; it must be a whole number, 0 or more", id="seed"),
        pytest.param("pairs:", "pairs is empty; it must be a mapping", id="pairs-null"),
        pytest.param("pairs: all", "pairs is 'all'; it must be a mapping, such as {design: random", id="pairs-text"),
        pytest.param("pairs: {design: random}", "pairs: design random needs to know how many", id="random-alone"),
        pytest.param("pairs: {count: 4}", "pairs: count goes only with design random, not all", id="count-all"),
        pytest.param("pairs: {design: groups, share: 0.5}", "pairs: share goes only with design", id="share-groups"),
        pytest.param("pairs: {design: random, count: 0}", "pairs.count is 0; it must be a whole", id="count-zero"),
        pytest.param("pairs: {design: random, count: 1e3}", "pairs.count is 1e3; it must be a whole", id="count-1e3"),
        pytest.param("pairs: {design: random, count: '4'}", "pairs.count is '4'; it must be a whole", id="count-text"),
        pytest.param("pairs: {design: random, count: true}", "pairs.count is true; it must be", id="count-bool"),
        pytest.param("pairs: {design: random, share: 0}", "pairs.share is 0; it must be a number above", id="share-0"),
        pytest.param("pairs: {design: random, share: 1.01}", "pairs.share is 1.01; it must be", id="share-high"),
        pytest.param("pairs: {design: random, share: .nan}", "pairs.share: .nan is not a finite number", id="nan"),
        pytest.param("pairs: {design: random, share: .inf}", "pairs.share: .inf is not a finite number", id="inf"),
        pytest.param("pairs: {design: random, share: 1e999}", "pairs.share: 1e999 is too large", id="1e999"),
        pytest.param(
            "pairs: {design: random, count: 3, share: 0.5}", "pairs: count and share both say how many", id="both"
        ),
        pytest.param("directions: []", "directions is an empty list", id="directions"),
        pytest.param("directions: [up]", "directions[0] is 'up'; it must be forward or reverse", id="direction"),
        pytest.param("directions: [reverse, reverse]", "directions holds 'reverse' twice", id="direction-twins"),
        pytest.param("reverse_share: 0.5", "reverse_share needs the direction reverse", id="reverse-share"),
        pytest.param("ties: maybe", "ties is 'maybe'; it must be true or false", id="ties-text"),
        pytest.param("ties: 1", "ties is 1; it must be true or false", id="ties-number"),
        pytest.param("tags: {prefix: ''}", "tags.prefix is empty", id="no-prefix"),
        pytest.param("tags: {prefix: '|', suffix: '|'}", "tags.prefix and tags.suffix are both '|'", id="same-tags"),
        pytest.param("tags: {prefix: 1}", "tags.prefix is 1, which YAML does not read as text", id="tag-number"),
        pytest.param("repeats: 0", "repeats is 0; it must be a whole number from 1 to 100", id="repeats"),
        pytest.param("repeats: 101", "repeats is 101; it must be a whole number from 1 to 100", id="repeats-101"),
        pytest.param("attempts: 21", "attempts is 21; it must be a whole number from 1 to 20", id="attempts"),
        pytest.param("attempts: -1", "attempts is -1; it must be a whole number from 1 to 20", id="attempts-below"),
        pytest.param("attempts: 1.0", "attempts is 1.0; it must be a whole number", id="attempts-float"),
        pytest.param(f"attempts: 1{'0' * 99}", f"attempts: 1{'0' * 76}... is a number with", id="huge"),
        pytest.param("batch: {max_bytes: 0}", "batch.max_bytes is 0; it must be a whole number", id="max-bytes"),
        pytest.param("batch: {segments: 0}", "batch.segments is 0; it must be a whole number", id="segments"),
        pytest.param("batch: {segments: 2, max_requests: 9}", "batch: segments and max_requests", id="two-ways"),
    ],
)
def test_a_wrong_field_is_refused_with_line_path_value_and_remedy(text: str, said: str) -> None:
    assert f"study.yaml, line 5: {said}" in refusal(SMALL + text)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("model: a, provder: b", "judges[0].provder is not a known key; did you mean provider?"),
        ("modle: a", "judges[0].modle is not a known key; did you mean model?"),
        ("modl: a", "judges[0].modl is not a known key; did you mean model?"),
        ("reasoning: low", "judges[0].model is missing; add text"),
        ("model: a, endpoint: completions", "judges[0].endpoint is 'completions'; it must be chat or responses"),
        ("model: a, mode: fast", "judges[0].mode is 'fast'; it must be batch or live"),
        ("model: a, max_output_tokens: 0", "judges[0].max_output_tokens is 0; it must be a whole number"),
        ("model: a, temperature: -0.1", "judges[0].temperature is -0.1; it must be a number from 0 to 2"),
        ("model: a, requests_per_second: 0", "judges[0].requests_per_second is 0; it must be a number above 0"),
        ("model: a, mode: batch, requests_per_second: 5", "judges[0]: requests_per_second goes only with mode live"),
        ("model: a, reasoning: [low, low]", "judges[0]: reasoning holds 'low' twice"),
    ],
)
def test_a_wrong_judge_is_refused(fields: str, said: str) -> None:
    assert f"study.yaml, line 4: {said}" in refusal(with_judge(fields))


@pytest.mark.parametrize(
    "second",
    ["{provider: openai, model: [x, gpt-6-luna]}", "{provider: openai, model: gpt-6-luna, reasoning: default}"],
)
def test_equal_judges_are_refused(second: str) -> None:
    message = refusal(f"{SMALL}  - {second}\n")
    line = SMALL.count("\n") + 1
    assert f"line {line}: judges[1] repeats judges[0] (openai, gpt-6-luna, default)" in message


def test_a_grid_of_too_many_runs_is_refused_at_once() -> None:
    many = ", ".join(f"m{n}" for n in range(5000))
    message = refusal(with_judge(f"model: [{many}], reasoning: [{many}]"))
    assert "judges and the rest of the grid make 25000000 runs; at most 10000" in message


@pytest.mark.parametrize("field", ["name", "samples", "judges"])
def test_a_missing_required_key_is_named(field: str) -> None:
    kept = {"name": "name: a\n", "samples": "samples: b\n", "judges": "judges: [{provider: c, model: d}]\n"}
    assert f"line 1: {field} is missing; add" in refusal("".join(kept[each] for each in kept if each != field))


def test_a_list_instead_of_an_experiment_is_refused() -> None:
    needed = "it must be a mapping with at least name, samples and judges"
    assert refusal("- name: a") == f"study.yaml, line 1: the file is a list; {needed}"
    assert refusal("id,text\nS01,A text.") == f"study.yaml, line 1: the file is plain text; {needed}"


def test_a_value_that_may_hold_a_secret_is_not_shown_when_its_key_is_unknown() -> None:
    assert "sk-secret" not in refusal(with_judge("model: a, api_key: sk-secret"))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_in_one_sentence(data: bytes) -> None:
    assert "\n" not in said_about(data)


@given(st.text(max_size=200))
def test_any_value_is_read_or_refused_in_one_sentence(value: str) -> None:
    assert "\n" not in said_about(f"{SMALL}criterion: {value}")


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("default", "default"),
        ("prompts/mine.txt", "mine"),
        ("mine.TXT", "mine"),
        ("mine.v2.md", "mine.v2"),
        ("s3://bucket/a/b.txt", "b"),
        ("v2.1", "v2.1"),
    ],
)
def test_a_template_is_called_by_its_name_or_stem(entry: str, name: str) -> None:
    assert template_name(entry) == name
