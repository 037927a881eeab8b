import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Tags
from pipeline.tasks.answers import Reason, Unparsed, read_json, tag_reader
from tests.effort import effort

TAGS = Tags()
FIRST = "<BETTER_SAMPLE>SAMPLE_1</BETTER_SAMPLE>"
SECOND = "<BETTER_SAMPLE>SAMPLE_2</BETTER_SAMPLE>"
TIE = "<BETTER_SAMPLE>TIE</BETTER_SAMPLE>"
SPOILERS = [FIRST, SECOND, TIE, "<BETTER_SAMPLE>", "</BETTER_SAMPLE>", "SAMPLE_1", "**", '{"better": "first"}', "İ"]


def read_tag(content: str, tags: Tags, *, ties: bool) -> object:
    return tag_reader(tags, ties=ties)(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (FIRST, "first"),
        (SECOND, "second"),
        (TIE, "tie"),
        (f"Both argue well; the second gives reasons.\n\n{SECOND}\n", "second"),
        ("** <better_sample> sample_1 </BETTER_SAMPLE>**", "first"),
        ("<Better_Sample>\n\tSample_2\n</Better_Sample>", "second"),
        ("**<BETTER_SAMPLE>**SAMPLE_2**</BETTER_SAMPLE>**", "second"),
        ("<BETTER_SAMPLE>__SAMPLE_1__</BETTER_SAMPLE>", "first"),
        ("`<BETTER_SAMPLE>*SAMPLE_1*</BETTER_SAMPLE>`", "first"),
        ("```\n<BETTER_SAMPLE>`TIE`</BETTER_SAMPLE>\n```", "tie"),
        ("<BETTER_SAMPLE>\u00a0SAMPLE_1\u2003</BETTER_SAMPLE>", "first"),
        (f"{FIRST} As I said: {FIRST}", "first"),
        (f"{FIRST}\n<better_sample>**sample_1**</better_sample>", "first"),
        (f"I close with <BETTER_SAMPLE> as asked. {SECOND}", "second"),
        (f"İstanbul ẞ ﬁ {FIRST}", "first"),
        (f"\x00\u2028{SECOND}\ud800", "second"),
    ],
)
def test_a_tag_is_read_however_it_is_dressed(content: str, expected: str):
    assert read_tag(content, TAGS, ties=True) == expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty"),
        (" \n\t ", "empty"),
        ("I cannot decide.", "no_answer"),
        ("SAMPLE_1", "no_answer"),
        ("<BETTER_SAMPLE>SAMPLE_1", "no_answer"),
        ("SAMPLE_1</BETTER_SAMPLE>", "no_answer"),
        ("</BETTER_SAMPLE>SAMPLE_1<BETTER_SAMPLE>", "no_answer"),
        (f"{FIRST} {SECOND}", "two_answers"),
        (f"{SECOND} {FIRST}", "two_answers"),
        (f"{FIRST} or rather {TIE}", "two_answers"),
        (f"{FIRST} {SECOND} <BETTER_SAMPLE>?</BETTER_SAMPLE>", "two_answers"),
        ("<BETTER_SAMPLE></BETTER_SAMPLE>", "unknown_answer"),
        ("<BETTER_SAMPLE>SAMPLE_3</BETTER_SAMPLE>", "unknown_answer"),
        ("<BETTER_SAMPLE>SAMPLE_1 or SAMPLE_2</BETTER_SAMPLE>", "unknown_answer"),
        ("<BETTER_SAMPLE>SAMPLE_12</BETTER_SAMPLE>", "unknown_answer"),
        ("<BETTER_SAMPLE>SAMPLE 1</BETTER_SAMPLE>", "unknown_answer"),
        ("<BETTER_SAMPLE>NOT SAMPLE_1</BETTER_SAMPLE>", "unknown_answer"),
        (f"<BETTER_SAMPLE>…</BETTER_SAMPLE> {FIRST}", "unknown_answer"),
    ],
)
def test_a_text_without_one_clear_tag_is_unparsed(content: str, reason: Reason):
    assert read_tag(content, TAGS, ties=True) == Unparsed(reason=reason)


def test_a_tie_is_unparsed_where_none_was_offered():
    assert read_tag(TIE, TAGS, ties=False) == Unparsed(reason="tie_not_allowed")
    assert read_json('{"better": "tie"}', ties=False) == Unparsed(reason="tie_not_allowed")


@pytest.mark.parametrize(
    ("prefix", "suffix", "content"),
    [
        ("[[", "]]", "So [[sample_2]]."),
        ("(.*", ")+?", "(.*SAMPLE_2)+?"),
        ("Winner:", ".", "winner: **Sample_2**."),
        ("<A>", "<A/>", "<a>SAMPLE_2<a/>"),
        ("x", "xx", "xSAMPLE_2xx"),
        ("\\b", "$", "\\bSAMPLE_2$"),
    ],
)
def test_tags_of_ones_own_are_taken_literally(prefix: str, suffix: str, content: str):
    assert read_tag(content, Tags(prefix=prefix, suffix=suffix), ties=False) == "second"


def test_tags_of_ones_own_replace_the_usual_ones():
    assert read_tag(FIRST, Tags(prefix="[[", suffix="]]"), ties=False) == Unparsed(reason="no_answer")


@pytest.mark.parametrize("tags", [Tags(prefix="", suffix=""), Tags(prefix="", suffix="x"), Tags(prefix="x", suffix="")])
def test_empty_tags_mark_no_answer(tags: Tags):
    assert read_tag(f"x{FIRST}x", tags, ties=True) == Unparsed(reason="no_answer")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"better": "first"}', "first"),
        ('\n {"better":"second"}\n', "second"),
        ('{"better": "tie"}', "tie"),
        ('```json\n{"better": "first"}\n```', "first"),
        ('```JSON\r\n{"better": "first"}\r\n```', "first"),
        ('```\n{"better": "second"}\n```', "second"),
        ('```{"better": "second"}```', "second"),
        ('{"why": {"better": "second"}, "better": "first", "sure": 0.9, "n": 1' + "0" * 6000 + "}", "first"),
        ('{"better": "first", "better": "first"}', "first"),
        ('{"\\u0062etter": "first"}', "first"),
    ],
)
def test_an_object_is_read_with_or_without_a_fence(content: str, expected: str):
    assert read_json(content, ties=True) == expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty"),
        ("\n", "empty"),
        ("first", "not_json"),
        ('The answer is {"better": "first"}', "not_json"),
        ('{"better": "first"} because it is clear', "not_json"),
        ('{"better": "first"}{"better": "first"}', "not_json"),
        ('```json\n{"better": "first"}\n``` That is it.', "not_json"),
        ('``````json\n{"better": "first"}\n``````', "not_json"),
        ('```python\n{"better": "first"}\n```', "not_json"),
        ("```", "not_json"),
        ("`````", "not_json"),
        ("``````", "not_json"),
        ("{'better': 'first'}", "not_json"),
        ('{"better": "first",}', "not_json"),
        ('{"better": "first", "sure": NaN}', "not_json"),
        ('{"better": "first", "sure": -Infinity}', "not_json"),
        ('{"better": "first"', "not_json"),
        ("[" * 100_000, "not_json"),
        ('{"better":' * 100_000, "not_json"),
        ("{}", "no_answer"),
        ('{"Better": "first"}', "no_answer"),
        ('{"answer": {"better": "first"}}', "no_answer"),
        ('[{"better": "first"}]', "no_answer"),
        ('"first"', "no_answer"),
        ("null", "no_answer"),
        ('{"better": null}', "unknown_answer"),
        ('{"better": 1}', "unknown_answer"),
        ('{"better": ["first"]}', "unknown_answer"),
        ('{"better": {"better": "first"}}', "unknown_answer"),
        ('{"better": "neither"}', "unknown_answer"),
        ('{"better": "SAMPLE_1"}', "unknown_answer"),
        ('{"better": "first", "better": "second"}', "two_answers"),
        ('{"better": "first", "better": null}', "unknown_answer"),
    ],
)
def test_anything_but_one_clear_object_is_unparsed(content: str, reason: Reason):
    assert read_json(content, ties=True) == Unparsed(reason=reason)


@given(st.one_of(st.text(), st.lists(st.sampled_from(SPOILERS)).map("".join)), st.booleans())
def test_reading_never_raises(content: str, ties: bool):
    for read in (read_tag(content, TAGS, ties=ties), read_json(content, ties=ties)):
        assert isinstance(read, Unparsed) or read in {"first", "second", *(["tie"] if ties else [])}


@given(st.lists(st.sampled_from(SPOILERS[:3])), st.text(alphabet=" abc\n*"))
def test_only_unanimous_tags_are_an_answer(given_tags: list[str], between: str):
    read = read_tag(between.join(given_tags), TAGS, ties=True)
    assert isinstance(read, Unparsed) == (len(set(given_tags)) != 1)


@pytest.mark.parametrize(
    "piece",
    [
        "<BETTER_SAMPLE>",
        "</BETTER_SAMPLE>",
        "<BETTER_SAMPLE><",
        "<BETTER_SAMPLE>*_` ",
        "<BETTER_SAMPLE> SAMPLE_1 ",
        " ",
        "*",
        "_",
        "`",
        "<",
        "[",
        '{"better":',
        '{"better":"first"}',
        '"\\',
        "1",
    ],
)
def test_a_megabyte_of_spite_is_read_in_a_moment(piece: str):
    spite = piece * (1_000_000 // len(piece))
    with effort() as spent:
        for content in (spite, f"<BETTER_SAMPLE>{spite}</BETTER_SAMPLE>", f"```json{spite}```", f'{{"x":{spite}'):
            read_tag(content, TAGS, ties=True)
            read_json(content, ties=True)
    assert spent.million_steps < 15
