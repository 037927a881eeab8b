"""A file with more than one mistake: all of them are named, and nothing that only follows from another."""

from tests.experiment.test_experiment_file import SMALL, refusal

SEVERAL = """\
nmae: essays
samples: essays.csv
attempts: many
pairs: {desing: random}
judges:
  - {provider: openai, model: gpt-6-luna}
  - {provder: openai, model: gpt-6-luna}
  - {provider: openai, model: 5}
"""


def test_the_mistakes_of_several_keys_are_named_together_and_a_misspelt_key_is_not_missing_too() -> None:
    assert refusal(SEVERAL) == (
        "study.yaml, line 1: nmae is not a known key; did you mean name? "
        "also line 3: attempts is 'many'; it must be a whole number from 1 to 20; "
        "also line 4: pairs.desing is not a known key; did you mean design? "
        "also line 7: judges[1].provder is not a known key; did you mean provider? "
        "also line 8: judges[2].model is 5, which YAML does not read as text; put it in quotes"
    )


def test_of_many_mistakes_the_first_are_named_and_the_others_counted() -> None:
    many = "".join(f"key{number}: 1\n" for number in range(9))
    told = refusal(SMALL + many)
    assert told.count(" is not a known key; ") == 6
    assert told.endswith("; also 3 more")


def test_all_missing_keys_are_named_together() -> None:
    told = refusal("criterion: clarity")
    assert [f"{key} is missing; add" in told for key in ("name", "samples", "judges")] == [True] * 3
