import copy
import pickle
import threading

import pytest

from gnnak.loading.demand import UNUSED_WINDOWS, Demand


class SlowDemand(Demand):
    """A `Demand` whose count of unused windows takes time to read.

    While the count is read, `reading` is set and `go_on` is awaited.
    """

    def __init__(self) -> None:
        self.reading, self.go_on = threading.Event(), threading.Event()
        super().__init__(always=False)

    @property
    def _unused(self) -> int:
        count = self.count
        if threading.current_thread() is not threading.main_thread():
            self.reading.set()
            self.go_on.wait(30)
        return count

    @_unused.setter
    def _unused(self, count: int) -> None:
        self.count = count


def test_padding_stops_after_unused_windows_and_starts_again_after_a_use():
    demand = Demand(always=False)
    assert [demand.pads_next() for _ in range(4)] == [True, True, False, False]
    demand.use()
    assert [demand.pads_next() for _ in range(3)] == [True, True, False]
    always = Demand(always=True)
    assert all(always.pads_next() for _ in range(5))


def test_a_use_while_a_window_is_counted_is_not_lost():
    demand = SlowDemand()
    demand.count = UNUSED_WINDOWS
    counting = threading.Thread(target=demand.pads_next)
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
