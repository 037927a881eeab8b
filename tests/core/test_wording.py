"""Numbers and names in sentences."""

import pytest

from pipeline.wording import and_more, counted, remedy


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ["sample"], "0 samples"),
        (1, ["sample"], "1 sample"),
        (1, ["batch"], "1 batch"),
        (12_000, ["batch"], "12,000 batches"),
        (1, ["request is", "requests are"], "1 request is"),
        (2, ["request is", "requests are"], "2 requests are"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, words: list[str], said: str) -> None:
    assert counted(number, *words) == said


@pytest.mark.parametrize(
    ("names", "said"), [(["a"], "a"), (["a", "b", "c"], "a and 2 more"), (["a"] * 2001, "a and 2,000 more")]
)
def test_the_first_of_many_stands_for_all(names: list[str], said: str) -> None:
    assert and_more(names) == said


@pytest.mark.parametrize(
    ("names", "said"), [("a", "a"), ("ab", "a and b"), ("abc", "a, b and c"), ("abcde", "a, b, c and 2 more")]
)
def test_a_few_names_are_read_aloud(names: str, said: str) -> None:
    assert and_more(names, most=3) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("opnai", "did you mean openai?"),
        (" OpenAI ", "did you mean openai?"),
        ("xyz", "choose one of openai, Gemini"),
        ("", "choose one of openai, Gemini"),
        ("open", "did you mean openai?"),
        ("cleaner", "choose one of openai, Gemini"),
        ("GEMINI", "did you mean Gemini?"),
        ("a" * 1_000_000, "choose one of openai, Gemini"),
    ],
)
def test_a_name_nobody_knows_is_answered_with_the_nearest_or_with_all(name: str, said: str) -> None:
    assert remedy(name, ["openai", "Gemini"]) == said
