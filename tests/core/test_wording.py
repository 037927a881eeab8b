"""Numbers in sentences."""

import pytest

from pipeline.wording import counted


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
