"""The simulator reads prompts as a person would: two texts, and how the answer is to be spelled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.simulator.known import KnownTexts
from pipeline.simulator.prompts import read_question, read_spelling
from tests.simulator.openai_wire import a_prompt

NOTHING = KnownTexts(())
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=80)


@given(first=texts, second=texts)
def test_what_stands_between_the_fences_is_found_whatever_it_is(first: str, second: str) -> None:
    question = read_question(a_prompt(first, second), NOTHING)
    assert question is not None
    assert (question.first, question.second) == (first, second)


FENCED = (
    "mine\n</SAMPLE_1>\nmore",
    "<SAMPLE_1>\nmine\n</SAMPLE_1>",
    "<SAMPLE_2>\nmine\n</SAMPLE_2>",
    "<SAMPLE_2>\nmine",
    "a\n</SAMPLE_1>\n<SAMPLE_2>\nb",
)


@pytest.mark.parametrize("text", FENCED)
def test_a_first_text_with_fences_in_it_stays_text(text: str) -> None:
    question = read_question(a_prompt(text, "plain"), NOTHING)
    assert question is not None
    assert (question.first, question.second) == (text, "plain")


@pytest.mark.parametrize("text", FENCED)
def test_a_second_text_with_fences_in_it_stays_text_if_it_is_known(text: str) -> None:
    question = read_question(a_prompt("plain", text), KnownTexts(["plain", text]))
    assert question is not None
    assert (question.first, question.second) == ("plain", text)


def test_a_prompt_without_two_texts_is_no_question() -> None:
    assert read_question("Write a poem about <SAMPLE_1>.", KnownTexts(["poem about"])) is None


KNOWN = [f"Text {number} speaks about matter {number * 7}." for number in range(300)] + ["one", "twofold", "¿?", "x y"]


@given(first=st.sampled_from(KNOWN), second=st.sampled_from(KNOWN), glue=st.sampled_from(["\n", " | ", '"', "", "A"]))
def test_known_texts_are_found_where_there_are_no_fences(first: str, second: str, glue: str) -> None:
    prompt = f"Please compare.\nA: {glue}{first}{glue}\nB: {glue}{second}{glue}\nNow decide."
    question = read_question(prompt, KnownTexts(KNOWN))
    assert question is not None
    assert (question.first, question.second) == (first, second)


def test_prompts_of_one_template_after_another_are_all_read_rightly() -> None:
    known = KnownTexts(KNOWN)
    for template in ("A: {}\nB: {}", "First «{}», then «{}».", "{} or {}?"):
        for first, second in zip(KNOWN[:50], KNOWN[50:100], strict=True):
            question = read_question(template.format(first, second), known)
            assert question is not None
            assert (question.first, question.second) == (first, second)


def test_the_longer_of_two_overlapping_known_texts_counts() -> None:
    known = KnownTexts(["a good day", "a good day at sea", "night"])
    question = read_question("1. a good day at sea 2. night", known)
    assert question is not None
    assert (question.first, question.second) == ("a good day at sea", "night")


@pytest.mark.parametrize(
    ("around", "spelled"),
    [
        ("Nothing is said.", ("<BETTER_SAMPLE>", "</BETTER_SAMPLE>")),
        ("Say <B>SAMPLE_1</B> or <B>SAMPLE_2</B>.", ("<B>", "</B>")),
        ("Say [[SAMPLE_1]], or [[SAMPLE_2]]; nothing else", ("[[", "]]")),
        ("<SAMPLE_1> and <SAMPLE_2> are fences. Say **SAMPLE_1** / **SAMPLE_2**", ("**", "**")),
        ("SAMPLE_1 is first, SAMPLE_2 second: ANSWER=SAMPLE_1; or ANSWER=SAMPLE_2;", ("ANSWER=", ";")),
    ],
)
def test_the_answer_is_spelled_as_the_prompt_asks(around: str, spelled: tuple[str, str]) -> None:
    spelling = read_spelling(around)
    assert (spelling.prefix, spelling.suffix) == spelled


@pytest.mark.parametrize(
    ("around", "ties"),
    [("or <B>TIE</B>", True), ("or TIE", True), ("There is no tie.", False), ("TIES", False), ("", False)],
)
def test_a_tie_is_allowed_only_where_it_is_offered(around: str, ties: bool) -> None:
    assert read_spelling(around).ties is ties
