"""What people look at in Dagster: a judge's words are shown as they are, and nothing they contain comes to life."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from assets.metadata import markdown_list, markdown_table, preview, signed

PLANTED = [
    "![x](https://evil.test/pixel.png)",
    "[click](javascript:alert(1))",
    "![x][y]",
    "[y]: https://evil.test",
    "<img src=x onerror=alert(1)>",
    "<https://evil.test>",
    "a | b",
    "\\[x](y) \\![x](y) \\\\| \\",
    "&lt;b&gt; &#91;x](y)",
    "`[x](y)` **bold** ~~gone~~ _slanted_",
]
TEXTS = st.lists(st.sampled_from([*"\\![]()<>|&;`*_~#-+:/ \n\rab", *PLANTED]), max_size=12).map("".join)
ALIVE = {"image", "link_open", "html_inline", "html_block", "code_inline", "em_open", "strong_open", "s_open"}


def tokens(markdown: str) -> list[Token]:
    parsed = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    return [each for token in parsed for each in (token, *(token.children or ()))]


def words(parsed: list[Token]) -> list[str]:
    """The text of each cell or line, white space aside: Markdown does not keep it."""
    inline = [token for token in parsed if token.type == "inline"]
    shown = ("".join(child.content for child in token.children or ()) for token in inline)
    return ["".join(each.split()) for each in shown]


def plain(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("text", PLANTED)
def test_nothing_a_judge_says_becomes_an_image_a_link_or_markup(text: str) -> None:
    for markdown in (markdown_table(["said", "by"], [[text, "x"]]), markdown_list([text])):
        assert not ALIVE & {token.type for token in tokens(markdown)}


@given(TEXTS, TEXTS)
def test_a_cell_shows_exactly_its_text_and_keeps_to_itself(first: str, second: str) -> None:
    parsed = tokens(markdown_table(["a", "b"], [[first, second]]))
    assert words(parsed) == ["a", "b", plain(first), plain(second)]
    assert not ALIVE & {token.type for token in parsed}


@given(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=3))
def test_a_list_shows_exactly_its_lines(lines: list[str]) -> None:
    parsed = tokens(markdown_list(lines))
    assert words(parsed) == [plain(line) for line in lines]
    assert sum(token.type == "list_item_open" for token in parsed) == len(lines)
    assert not ALIVE & {token.type for token in parsed}


def test_a_preview_leaves_out_columns_that_say_nothing() -> None:
    table = pa.table({"first_id": ["a", "b"], "reason": pa.nulls(2, pa.string()), "content": [None, "x"]})
    assert str(preview(table).value).splitlines() == [
        "| first\\_id | content |",
        "| --- | --- |",
        "| a |  |",
        "| b | x |",
    ]


@pytest.mark.parametrize(
    ("value", "shown"), [(-0.001, "0.00"), (0.0, "0.00"), (0.004, "0.00"), (-0.3, "-0.30"), (1.5, "+1.50")]
)
def test_what_shows_as_zero_has_no_sign(value: float, shown: str) -> None:
    assert signed(value) == shown
