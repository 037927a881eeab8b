"""What a reader who does not see the page, or who has no mouse, can do with it."""

import pytest

from pipeline.ranking.report.document import notices
from pipeline.ranking.report.markup import breakable, numbered, table, whole


def test_a_numbered_column_says_its_name() -> None:
    made = table(["", *numbered(["a & b"])], [["1. a & b", "7"]], caption="c", kind="matrix")
    assert '<th scope="col" title="a &amp; b" aria-label="1. a &amp; b">1</th>' in made


@pytest.mark.parametrize(
    ("columns", "kind", "minor", "stops"),
    [(4, "plain", (), 0), (5, "plain", (), 1), (5, "words", (), 0), (6, "plain", (4, 5), 0), (9, "matrix", (), 1)],
)
def test_only_a_table_that_may_scroll_is_a_stop_for_the_keyboard(
    columns: int, kind: str, minor: tuple[int, ...], stops: int
) -> None:
    made = table(["h"] * columns, [["x"] * columns], caption="c", kind=kind, minor=minor)
    assert made.count('tabindex="0"') == made.count('role="region"') == stops


def test_notices_have_a_heading_and_fold_the_later_ones_away() -> None:
    few = notices("Know", [f"n{at}" for at in range(7)])
    assert few.startswith('<section class="warn"><h2>Know</h2><ul><li>n0.</li>')
    assert "<details>" not in few
    many = notices("Know", [f"n{at}" for at in range(20)])
    assert "<li>n5.</li></ul><details><summary>14 more</summary><ul><li>n6.</li>" in many
    assert many.count("<li>") == 20


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("openai/gpt-6-luna", 'openai/<wbr><span class="whole">gpt-6-luna</span>'),
        ("x/a-b · strict", 'x/<wbr><span class="whole">a-b ·</span><wbr> strict'),
        ("Qwen/Qwen3-235B-A22B-fp8-tput", "Qwen/<wbr>Qwen3-235B-A22B-fp8-tput"),
        ("7. gpt-6-luna", '<span class="whole">7. gpt-6-luna</span>'),
        ("SHA-256 of the file", "SHA-256 of the file"),
        ("essays--default", "essays--<wbr>default"),
    ],
)
def test_a_name_goes_on_in_the_next_line_where_it_has_parts_not_inside_a_model(name: str, made: str) -> None:
    assert breakable(name) == made


def test_thousands_are_written_as_on_the_screen() -> None:
    assert whole(1_833_384) == "1,833,384"
