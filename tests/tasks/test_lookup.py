"""An id that comes back is known only if all of it is the id of a request of the batch."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ids import Digest, RequestId, RequestIds, hinted_position, name_digests
from pipeline.tasks.columns import strings
from pipeline.tasks.lookup import Lookup

IDS = RequestIds(Digest("run"))
MEMBERS = st.lists(st.integers(0, 3_000), min_size=1, max_size=40, unique=True).map(sorted)


def the_ids(positions: list[int]) -> list[RequestId]:
    names = name_digests(f"pair {position}" for position in positions)
    return [RequestId(name.decode()) for name in IDS.encoded(np.array(positions), names).tolist()]


def a_lookup(positions: list[int]) -> Lookup:
    return Lookup(np.array(positions), strings(the_ids(positions)))


@given(MEMBERS, st.data())
def test_every_id_is_found_as_a_dictionary_finds_it(positions: list[int], data: st.DataObject) -> None:
    ours = the_ids(positions)
    others = the_ids([position + 1 for position in positions])
    nearly = st.sampled_from(ours).flatmap(lambda name: st.sampled_from([name[:-1], name + "0", "é" + name[2:], ""]))
    forged = st.builds(lambda name, hint: name[:24] + hint[24:], st.sampled_from(others), st.sampled_from(ours))
    asked = data.draw(st.lists(st.sampled_from(ours) | st.sampled_from(others) | nearly | forged | st.text()))
    known = {name: place for place, name in enumerate(ours)}
    assert a_lookup(positions).places(asked).tolist() == [known.get(RequestId(name), -1) for name in asked]


def test_a_part_of_a_column_is_looked_up_as_what_it_is() -> None:
    ours = the_ids([5, 6, 9])
    column = pa.array(["", None, *ours, "x"]).slice(1, 4)
    assert a_lookup([5, 6, 9]).places(column).tolist() == [-1, 0, 1, 2]


def test_an_id_hints_at_its_position() -> None:
    assert [hinted_position(name) for name in the_ids([0, 7, 2**30])] == [0, 7, 2**30]


def test_what_is_no_id_hints_at_nothing() -> None:
    name = the_ids([7])[0]
    assert [hinted_position(other) for other in ("", name + "0", name[:-1] + "g", name[:-1] + " ")] == [None] * 4
