"""Lines come out of a stream the same wherever its chunks were cut, and a block tells if each is one object."""

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.storage import streams
from pipeline.storage.streams import LONGEST_LINE, blocks_of_lines, lines, lines_of, objects_in

PIECES = st.sampled_from([b"{}", b"{", b"}", b"\n", b"\r\n", b" ", b'{"a": 1}', b'"', b"[]", b"\0", b"\xff", b"x"])


@given(st.lists(PIECES).map(b"".join), st.lists(st.integers(0, 60)))
def test_lines_are_the_same_wherever_the_chunks_are_cut(data: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[start:end] for start, end in pairwise(edges)]
    assert list(lines(chunks)) == lines_of(data)
    blocks = list(blocks_of_lines(chunks))
    assert all(block.endswith(b"\n") for block in blocks[:-1])


@given(st.lists(PIECES).map(b"".join))
def test_as_many_objects_as_lines_are_one_object_a_line(data: bytes) -> None:
    count = objects_in(data)
    try:
        together = msgspec.json.Decoder(dict[str, int]).decode_lines(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    if count == len(together):
        assert [json.loads(line) for line in data.splitlines()] == together


@pytest.mark.parametrize(
    ("block", "count"),
    [
        (b'{"a":1}\n{"b":2}\n', 2),
        (b'{"a":1}\n{"b":2}', None),
        (b'{"a":1}\r\n', None),
        (b'{"a":1}\n\n{}\n', None),
        (b'{"a":\n1}\n', None),
        (b'{"a":{}\n}\n{}{}\n', None),
        (b"\n", None),
        (b"", None),
    ],
)
def test_a_block_is_counted_only_if_its_lines_look_like_objects(block: bytes, count: int | None) -> None:
    assert objects_in(block) == count


def test_a_line_of_many_chunks_that_is_too_long_costs_only_itself() -> None:
    half = b"x" * (LONGEST_LINE // 2 + 1)
    assert list(lines([b"a\n", half, half, half, b"y\nb\n", b"c"])) == [b"a", b"", b"b", b"c"]
    assert objects_in(b"{" + b" " * LONGEST_LINE + b"}\n") is None
    assert streams.lines_of(b"{" + b" " * LONGEST_LINE + b"}\n{}\n") == [b"", b"{}"]
