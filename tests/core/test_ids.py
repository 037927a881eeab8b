"""Identifiers tell apart what is different, and are the same for what is the same, on any machine."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ids import Digest, PairIds, RequestIds, SampleId, name_digests

SAMPLES = st.lists(st.text(min_size=1, max_size=9), min_size=2, max_size=30, unique=True)


@given(SAMPLES)
def test_a_pair_has_one_name_in_both_orders_and_no_other_pair_has_it(samples: list[str]) -> None:
    ids = PairIds([SampleId(sample) for sample in samples])
    first, second = np.triu_indices(len(samples), 1)
    forward = ids.encoded(first, second).tolist()
    assert forward == ids.encoded(second, first).tolist()
    assert len(set(forward)) == len(forward)


def test_ids_stay_what_they_are() -> None:
    ids = PairIds([SampleId("one"), SampleId("two")])
    assert ids.encoded(np.array([0]), np.array([1])).tolist() == [b"d52a3b4ec53348d0291d44c4"]
    made = RequestIds(Digest("run")).encoded(np.array([7, 2**30]), name_digests(["one", "two"])).tolist()
    assert made == [b"6c33ff020cea3c70896ce18b00000007", b"adcc40f87aab3af4b97e857140000000"]


@given(SAMPLES)
def test_requests_of_two_runs_share_no_id(samples: list[str]) -> None:
    positions, names = np.arange(len(samples)), name_digests(samples)
    made = [name for run in ("one", "two") for name in RequestIds(Digest(run)).encoded(positions, names).tolist()]
    assert len({name[:24] for name in made}) == 2 * len(samples)
