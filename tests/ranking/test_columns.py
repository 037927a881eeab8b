"""How the comparisons of a table are read: whatever form its texts have, the same ones."""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ranking.columns import Comparisons, Factor, judge_labels, read
from pipeline.storage.tables import coded
from tests.ranking.studies import a_table

NAMES = st.sampled_from(["a", "b", "ü", ""])
WORDS = st.sampled_from(["", "default", "low", "x/y", None])
TABLES = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from("abc"), st.sampled_from(["first", "second", "tie", "unparsed"]),
        NAMES, NAMES, WORDS, WORDS, WORDS, WORDS,
    ),
    max_size=12,
)  # fmt: skip
FURTHER = ("first_contestant", "second_contestant", "provider", "model", "reasoning", "group")


def as_said(found: Comparisons) -> dict[str, object]:
    """Every row's labels, written out."""
    return {
        name: [value.labels[code] for code in value.codes]
        if isinstance(value, Factor)
        else value.tolist()
        if isinstance(value, np.ndarray)
        else value
        for name, value in msgspec.structs.asdict(found).items()
    }


@given(TABLES, st.integers(0, 12))
def test_texts_as_codes_are_the_same_comparisons(rows: list[tuple[Any, ...]], cut: int) -> None:
    columns = dict(zip(FURTHER, zip(*(row[3:] for row in rows), strict=True), strict=True)) if rows else {}
    plain = a_table(
        [(one, other, said) for one, other, said, *_ in rows],
        **{name: pa.array(told, pa.string()) for name, told in columns.items()},
    )
    parts = [part.cast(coded(plain.schema)) for part in (plain.slice(0, cut), plain.slice(cut))]
    codes = pa.concat_tables(parts)
    assert as_said(read(codes)) == as_said(read(plain))
    assert judge_labels(codes).to_pylist() == judge_labels(plain).to_pylist()


def test_labels_are_sorted_and_those_of_rows_that_do_not_count_are_gone() -> None:
    table = a_table([("b", "a", "first"), ("a", "b", "refused")], model=["z", "only-refused"], provider=["p", "p"])
    for each in (table, table.cast(coded(table.schema))):
        found = read(each)
        assert found.judge.labels == ("p/z",)
        assert found.first_sample.labels == ("a", "b")


def test_judges_of_one_name_are_one_judge() -> None:
    rows = [("a", "b", "first"), ("b", "a", "first")]
    table = a_table(rows, provider=["", "p"], model=["p/m", "m"], reasoning=["default", ""])
    assert read(table).judge.labels == ("p/m",)
