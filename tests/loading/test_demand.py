import copy
import pickle
import threading

import pytest

from gnnak.loading.padder import FIRST_WINDOWS, UNUSED_EPOCHS, Demand


class SlowDemand(Demand):
    """A `Demand` whose count of unused epochs takes time to read.

    While the count is read, `reading` is set and `go_on` is awaited.
    """

    def __init__(self) -> None:
        self.reading, self.go_on = threading.Event(), threading.Event()
        super().__init__(always=False)

    @property
    def _unused(self) -> int | None:
        count = self.count
        if threading.current_thread() is not threading.main_thread():
            self.reading.set()
            self.go_on.wait(30)
        return count

    @_unused.setter
    def _unused(self, count: int | None) -> None:
        self.count = count


def epoch(demand: Demand, windows: int = 4) -> list[bool]:
    """Return which windows of an epoch are padded."""
    demand.begin_epoch()
    return [demand.pads_next() for _ in range(windows)]


def test_only_the_first_windows_are_padded_before_the_first_use():
    demand = Demand(always=False)
    assert epoch(demand) == [True] * FIRST_WINDOWS + [False, False]
    assert not any(epoch(demand))
    always = Demand(always=True)
    assert all(epoch(always) + epoch(always) + epoch(always) + epoch(always))


def test_padding_goes_on_for_a_whole_epoch_without_a_use_and_then_stops():
    demand = Demand(always=False)
    for _ in range(3):
        demand.use()
        assert all(epoch(demand)), "an evaluation after an epoch of training"
        assert all(epoch(demand)), "the next epoch of training"
    demand.use()
    assert [all(epoch(demand)) for _ in range(4)] == [True, True, False, False]
    demand.use()
    assert demand.pads_next()


def test_epochs_without_use_before_the_first_use_do_not_count():
    demand = Demand(always=False)
    for _ in range(5):
        epoch(demand)
    demand.use()
    assert all(epoch(demand))


def test_a_use_while_an_epoch_begins_is_not_lost():
    demand = SlowDemand()
    demand.count = UNUSED_EPOCHS
    counting = threading.Thread(target=demand.begin_epoch)
    counting.start()
    assert demand.reading.wait(30)
    using = threading.Thread(target=demand.use)
    using.start()
    using.join(0.05)  # without a lock, the use ends here, and the count replaces it
    demand.go_on.set()
    counting.join(30)
    using.join(30)
    assert demand.count == 0


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))]
)
def test_a_demand_can_be_copied_with_the_batch_that_refers_to_it(copied):
    demand = Demand(always=False)
    demand.pads_next()
    again = copied(demand)
    assert [again.pads_next() for _ in range(2)] == [True, False]
