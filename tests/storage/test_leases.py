"""Leases: one holder at a time, takeover after silence, no comparison of clocks."""

import pytest

from pipeline.clock import FixedClock
from pipeline.storage import keys
from pipeline.storage.leases import Leases
from pipeline.storage.memory import MemoryStore

RUN = "e--t--p--m--r--forward"


@pytest.fixture
def shared() -> MemoryStore:
    return MemoryStore()


def a_worker(store: MemoryStore, clock: FixedClock, owner: str) -> Leases:
    return Leases(store, clock=clock, owner=owner, seconds=60)


def test_only_one_worker_holds(shared: MemoryStore, clock: FixedClock) -> None:
    one, other = a_worker(shared, clock, "one"), a_worker(shared, clock, "other")
    assert one.take(RUN) == 0
    assert other.take(RUN) is None
    assert not other.is_free(RUN)


def test_what_is_given_back_can_be_taken_at_once(shared: MemoryStore, clock: FixedClock) -> None:
    one, other = a_worker(shared, clock, "one"), a_worker(shared, clock, "other")
    one.take(RUN)
    one.give_back(RUN)
    assert other.take(RUN) == 2
    assert one.take(RUN) is None


def test_a_silent_holder_is_replaced_after_its_time(shared: MemoryStore, clock: FixedClock) -> None:
    one, other = a_worker(shared, clock, "one"), a_worker(shared, clock, "other")
    one.take(RUN)
    assert other.take(RUN) is None
    clock.sleep(59)
    assert other.take(RUN) is None
    clock.sleep(1)
    assert other.take(RUN) == 1
    assert one.take(RUN) is None


def test_a_holder_at_work_renews_and_is_not_replaced(shared: MemoryStore, clock: FixedClock) -> None:
    one, other = a_worker(shared, clock, "one"), a_worker(shared, clock, "other")
    epochs = []
    for _ in range(10):
        epochs.append(one.take(RUN))
        assert other.take(RUN) is None
        clock.sleep(25)
    assert epochs == list(range(10))


def test_a_clock_that_is_a_day_off_changes_nothing(shared: MemoryStore, clock: FixedClock) -> None:
    one = a_worker(shared, clock, "one")
    one.take(RUN)
    tomorrow = FixedClock(clock.now())
    tomorrow.sleep(86_400)
    assert a_worker(shared, tomorrow, "other").take(RUN) is None


def test_giving_back_what_another_took_over_does_not_disturb_it(shared: MemoryStore, clock: FixedClock) -> None:
    one, other = a_worker(shared, clock, "one"), a_worker(shared, clock, "other")
    one.take(RUN)
    other.take(RUN)
    clock.sleep(60)
    other.take(RUN)
    one.give_back(RUN)
    assert other.take(RUN) == 1


def test_a_lease_is_not_believed_to_last_for_ever(shared: MemoryStore, clock: FixedClock) -> None:
    shared.put_new(keys.lease(RUN, 0), b'{"owner":"x","seconds":1e300}')
    one = a_worker(shared, clock, "one")
    assert one.take(RUN) is None
    clock.sleep(600)
    assert one.take(RUN) == 1
