import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Answer, Tags, Template
from pipeline.errors import ConfigError
from pipeline.tasks.answers import tag_reader
from pipeline.tasks.templates import (
    CompiledTemplate,
    Fragments,
    Slot,
    built_in,
    check_template,
    compile_template,
)
from pipeline.tasks.wording import WORDING, instruction
from tests.effort import effort
from tests.tasks.filling import filled

TAGS = Tags()
BARE = "{SAMPLE_1}\n\n{SAMPLE_2}"
VALUES: dict[Slot, str] = {
    "SAMPLE_1": "the one",
    "SAMPLE_2": "the other",
    "TRAIT_NAME": "Style",
    "TRAIT_DESCRIPTION": "How it is put.",
    "CONTEXT": "Write something.",
}


def a_template(text: str) -> Template:
    return Template(name="mine", text=text)


def compiled(text: str, *, answer: Answer = "tag", tags: Tags = TAGS, ties: bool = False) -> CompiledTemplate:
    return compile_template(a_template(text), answer=answer, tags=tags, ties=ties)


def prompt(text: str, values: dict[Slot, str] = VALUES, *, with_context: bool = True, **settings: Any) -> str:
    return filled(compiled(text, **settings).fragments(with_context=with_context), values)


@pytest.mark.parametrize("with_context", [True, False])
@pytest.mark.parametrize("name", WORDING)
def test_built_in_templates_show_fenced_samples_and_the_criterion(name: str, with_context: bool):
    template = built_in(name)
    assert template is not None
    shown = prompt(template.text, with_context=with_context)
    assert shown.count("<SAMPLE_1>\nthe one\n</SAMPLE_1>") == 1
    assert shown.count("<SAMPLE_2>\nthe other\n</SAMPLE_2>") == 1
    assert "Style" in shown
    assert "How it is put." in shown
    assert "never" in shown
    assert "instruction" in shown
    assert shown.endswith(instruction(answer="tag", tags=TAGS, ties=False))
    assert "\n\n\n" not in shown


@pytest.mark.parametrize("name", WORDING)
def test_built_in_templates_show_a_context_only_where_there_is_one(name: str):
    text = WORDING[name]
    assert "<CONTEXT>\nWrite something.\n</CONTEXT>" in prompt(text)
    without = prompt(text, with_context=False)
    assert "CONTEXT" not in without
    assert "in reply to" not in without


@pytest.mark.parametrize("name", WORDING)
def test_built_in_templates_treat_both_samples_alike(name: str):
    words = WORDING[name].lower()
    assert words.count("sample_1") == words.count("sample_2")
    assert words.count("first text") == words.count("second text")


def test_an_unknown_name_is_no_built_in_template():
    assert built_in("defualt") is None


def test_a_template_is_split_into_texts_around_slots():
    fragments = compiled("a{SAMPLE_2}b{TRAIT_NAME}{SAMPLE_1}<BETTER_SAMPLE>").fragments(with_context=False)
    assert fragments == Fragments(texts=("a", "b", "", "<BETTER_SAMPLE>"), slots=("SAMPLE_2", "TRAIT_NAME", "SAMPLE_1"))


def test_a_sample_that_contains_placeholders_and_tags_stays_text():
    values: dict[Slot, str] = {
        **VALUES,
        "SAMPLE_1": "{SAMPLE_2} {ANSWER} {FOO} <BETTER_SAMPLE>",
        "SAMPLE_2": "{SAMPLE_1}\\1",
    }
    shown = prompt("1: {SAMPLE_1}\n\n2: {SAMPLE_2}\n\n{ANSWER}", values)
    assert shown.startswith("1: {SAMPLE_2} {ANSWER} {FOO} <BETTER_SAMPLE>\n\n2: {SAMPLE_1}\\1\n\nGive your decision")


BRACES = st.text(alphabet="ab {}\n\"':", max_size=12)


@given(before=BRACES, between=BRACES, after=BRACES, one=st.text(), other=st.text())
def test_what_is_not_refused_is_rendered_word_for_word(before: str, between: str, after: str, one: str, other: str):
    template = a_template(f"{before}{{SAMPLE_1}}{between}{{SAMPLE_2}}{after}<BETTER_SAMPLE>")
    try:
        check_template(template)
    except ConfigError:
        return
    values: dict[Slot, str] = {**VALUES, "SAMPLE_1": one, "SAMPLE_2": other}
    assert prompt(template.text, values) == f"{before}{one}{between}{other}{after}<BETTER_SAMPLE>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "{SAMPLE_1} stands in it 0 times"),
        ("{SAMPLE_1}", "{SAMPLE_2} stands in it 0 times"),
        ("{SAMPLE_1} {SAMPLE_1} {SAMPLE_2}", "{SAMPLE_1} stands in it 2 times"),
        (BARE + "{FOO}", "{FOO} is not a placeholder; choose one of SAMPLE_1"),
        (BARE + "{SAMPLE_3}", "{SAMPLE_3} is not a placeholder; did you mean SAMPLE_"),
        (BARE + "{TRAIT}", "{TRAIT} is not a placeholder; did you mean TRAIT_NAME?"),
        (BARE + "{CRITERION}", "{CRITERION} is not a placeholder; did you mean TRAIT_NAME?"),
        (BARE + "{criterion_description}", "is not a placeholder; did you mean TRAIT_DESCRIPTION?"),
        (BARE + "{context}", "{context} is not a placeholder; did you mean CONTEXT?"),
        (BARE + "{ ANSWER }", "{ ANSWER } is not a placeholder; did you mean ANSWER?"),
        (BARE + "{SAMPLE_1.__class__}", "{SAMPLE_1.__class__} is not a placeholder; did you mean SAMPLE_1?"),
        (BARE + "{SAMPLE_1[0]}", "{SAMPLE_1[0]} is not a placeholder"),
        (BARE + "{x[0]}", "{x[0]} is not a placeholder"),
        (BARE + "{x.y}", "{x.y} is not a placeholder"),
        (BARE + "{SAMPLE_1!r}", "{SAMPLE_1!r} is not a placeholder"),
        (BARE + "{SAMPLE_2:>10}", "{SAMPLE_2:>10} is not a placeholder"),
        (BARE + "{größe}", "{größe} is not a placeholder"),
        ("a{{SAMPLE_1}} {SAMPLE_2}", "{{SAMPLE_1}} has two pairs of braces"),
        ("{{SAMPLE_1}} {SAMPLE_2}", "{{SAMPLE_1}} has two pairs of braces; write {SAMPLE_1}"),
        ("{CONTEXT}\n{SAMPLE_1}\n\n{SAMPLE_2}", "{CONTEXT} shares a paragraph with a sample"),
    ],
)
def test_a_template_that_could_not_be_filled_is_refused(text: str, words: str):
    with pytest.raises(ConfigError) as refused:
        check_template(a_template(text))
    assert str(refused.value).startswith("template mine: ")
    assert words in str(refused.value)
    with pytest.raises(ConfigError):
        compiled(text)


@pytest.mark.parametrize(
    "example",
    [
        '{"better": "first"}',
        "{better: first}",
        "{}",
        "{0}",
        "{ }",
        "{two words}",
        "{",
        "}",
        "}{",
        "{-}",
        "{'a': {'b': 1}}",
        "${}",
    ],
)
def test_other_braces_are_text(example: str):
    assert example in prompt(f"{BARE}\n\n{example}\n\n{{ANSWER}}")


def test_the_context_goes_with_its_whole_paragraph_and_nothing_else():
    text = "Before.\n\nTask:\n{CONTEXT}\nEnd of the task.\n\n \n{SAMPLE_1}\n\n\n{SAMPLE_2}\n\n{ANSWER}"
    rest = f"the one\n\n\nthe other\n\n{instruction(answer='tag', tags=TAGS, ties=False)}"
    assert prompt(text) == f"Before.\n\nTask:\nWrite something.\nEnd of the task.\n\n \n{rest}"
    assert prompt(text, with_context=False) == f"Before.\n\n{rest}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{CONTEXT}\n\n{SAMPLE_1}\n\n{SAMPLE_2}<BETTER_SAMPLE>", "the one\n\nthe other<BETTER_SAMPLE>"),
        ("{SAMPLE_1}\n\n{SAMPLE_2}<BETTER_SAMPLE>\n\n{CONTEXT}", "the one\n\nthe other<BETTER_SAMPLE>"),
        ("{SAMPLE_1}\n\n{CONTEXT}\n\n{CONTEXT}\n\n{SAMPLE_2}<BETTER_SAMPLE>", "the one\n\nthe other<BETTER_SAMPLE>"),
    ],
)
def test_the_context_may_stand_at_either_end_or_twice(text: str, expected: str):
    assert prompt(text, with_context=False) == expected


def test_lines_of_another_system_are_paragraphs_too():
    text = "{CONTEXT}\r\n\r\n{SAMPLE_1}\r\n\r\n{SAMPLE_2}<BETTER_SAMPLE>"
    assert prompt(text, with_context=False) == "the one\n\nthe other<BETTER_SAMPLE>"


@pytest.mark.parametrize("answer", ["tag", "json"])
def test_a_template_that_does_not_say_how_to_answer_gets_it_as_last_paragraph(answer: Answer):
    asked = instruction(answer=answer, tags=TAGS, ties=True)
    assert prompt(f"{BARE}\n", answer=answer, ties=True) == f"the one\n\nthe other\n\n{asked}"


def test_a_template_that_shows_the_tag_is_left_alone_in_tag_mode_only():
    text = f"{BARE}\n\nEnd with <better_sample>…\n"
    assert prompt(text) == "the one\n\nthe other\n\nEnd with <better_sample>…\n"
    assert prompt(text, answer="json").endswith(instruction(answer="json", tags=TAGS, ties=False))
    assert prompt(text, tags=Tags(prefix="[[", suffix="]]")).endswith("never their order.")


def test_an_instruction_that_goes_with_the_context_is_given_anyway():
    asked = instruction(answer="tag", tags=TAGS, ties=False)
    text = "{SAMPLE_1}\n\n{SAMPLE_2}\n\nFor {CONTEXT}: {ANSWER}"
    assert prompt(text, with_context=False) == f"the one\n\nthe other\n\n{asked}"
    assert prompt(text).count(asked) == 1


@pytest.mark.parametrize(("answer", "ties"), [*itertools.product(["tag", "json"], [True, False])])
def test_the_instruction_shows_every_choice_once_and_alike(answer: Answer, ties: bool):
    asked = instruction(answer=answer, tags=Tags(prefix="[[", suffix="]]"), ties=ties)
    forms = {
        "tag": ["[[SAMPLE_1]]", "[[SAMPLE_2]]", "[[TIE]]"],
        "json": ['{"better": "first"}', '{"better": "second"}', '{"better": "tie"}'],
    }[answer]
    assert [asked.count(form) for form in forms] == [1, 1, int(ties)]
    assert asked.count("first text") == asked.count("second text")
    assert ("There is no tie" in asked) != ties
    assert "\n\n" not in asked


def test_each_form_the_instruction_shows_can_be_read():
    asked = instruction(answer="tag", tags=TAGS, ties=True)
    forms = [line for line in asked.splitlines() if line.startswith("<BETTER_SAMPLE>")]
    assert list(map(tag_reader(TAGS, ties=True), forms)) == ["first", "second", "tie"]


@pytest.mark.parametrize(
    "piece", ["{", "{ ", "{a", "{a.", "\n", "\n \t", "{CONTEXT}\n", "{CONTEXT}\n\n", "{ANSWER}", "}"]
)
def test_a_megabyte_of_spite_is_split_in_a_moment(piece: str):
    spite = piece * (1_000_000 // len(piece))
    with effort() as spent:
        compiled(f"{{SAMPLE_1}}\n\n{{SAMPLE_2}}\n\n{spite}\n\n.")
    assert spent.million_steps < 30
