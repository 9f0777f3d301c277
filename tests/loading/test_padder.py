"""Shapes leave padding rows on every axis and rarely change."""

import copy
import pickle
import threading
from itertools import pairwise
from statistics import mean, pstdev

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.graphs.real import BATCH_AXES
from gnnak.loading import padder
from gnnak.loading.padder import (
    ENOUGH_BATCHES,
    FIRST_WINDOWS,
    LARGEST_STDS,
    UNUSED_EPOCHS,
    Demand,
    Shapes,
    choose_shape,
    is_inside,
)
from tests.loading.test_padding import molecule_store, window_of

AXIS_COUNTS = st.fixed_dictionaries(
    {axis: st.integers(0, 5000) for axis in (*BATCH_AXES, "fillings")}
)


@given(AXIS_COUNTS)
@settings(max_examples=200)
def test_choose_shape_leaves_padding_rows_but_not_many(most):
    shape = choose_shape(most)
    assert shape.fits(most)
    assert shape.graphs == most["graphs"] + 1
    for axis in BATCH_AXES[1:]:
        assert getattr(shape, axis) <= 1.02 * most[axis] + 64


def test_choose_shape_without_drop_has_as_many_subgraphs_as_nodes():
    most = dict.fromkeys(BATCH_AXES, 100)
    shape = choose_shape(most)
    assert shape.subgraphs == shape.nodes
    assert shape.fillings == 0


def test_shapes_grow_when_a_batch_does_not_fit():
    shapes, small = Shapes(), window_of(molecule_store(1), [7])
    (first,) = shapes.of(small, 1, 1)
    assert shapes.of(small, 1, 1)[0] is first
    (large,) = shapes.of(window_of(molecule_store(8), [56]), 1, 1)
    assert large.copies > first.copies
    assert shapes.of(small, 1, 1)[0] is large


def test_shapes_fit_batches_a_few_standard_deviations_larger():
    window = window_of(molecule_store(4), [2] * 14)
    shapes = Shapes().of(window, 14, 14)
    for axis in ("nodes", "edges", "copies", "edge_copies"):
        assert max(window.counts(axis)) < getattr(shapes[0], axis)
    copies = window.counts("copies")
    assert mean(copies) + LARGEST_STDS * pstdev(copies) < shapes[0].copies


def test_shapes_use_statistics_of_batches_of_full_size():
    window = window_of(molecule_store(40), [30] * 9 + [10])
    wanted = Shapes().of(window, 9, 9)
    assert Shapes().of(window, 10, 9) == [*wanted, wanted[0]]
    assert Shapes().of(window, 10, 10)[0] != wanted[0]


def test_shapes_never_shrink_on_an_axis():
    shapes = Shapes()
    old = shapes.of(window_of(molecule_store(8), [7] * 8), 8, 8)[0]
    shapes.most["nodes"] = old.nodes
    shapes.of(window_of(molecule_store(1), [7]), 1, 1)
    new = shapes.largest
    assert new.nodes > old.nodes
    assert all(getattr(new, axis) >= getattr(old, axis) for axis in BATCH_AXES)


def batches_of_many_sizes():
    """A window of batches of five graphs, some of them much larger than others."""
    store = molecule_store(20)
    order = torch.randperm(len(store), generator=torch.Generator().manual_seed(1))
    return window_of(store.subset(order), [5] * (len(store) // 5))


def test_shapes_of_later_batches_are_the_smallest_that_fit():
    shapes, window = Shapes(), batches_of_many_sizes()
    count = len(window.counts("graphs"))
    assert count > ENOUGH_BATCHES
    first = shapes.of(window, count, count)
    assert set(first[:ENOUGH_BATCHES]) == {shapes.largest}
    several = [*shapes.smaller, shapes.largest]
    assert len(set(several)) == len(several) > 2
    assert all(is_inside(*pair) for pair in pairwise(several))
    found = shapes.of(window, count, count)
    assert len(set(found)) > 2
    assert set(found) <= set(several)
    assert found[ENOUGH_BATCHES:] == first[ENOUGH_BATCHES:]
    for number, shape in enumerate(found):
        rows = {axis: window.counts(axis)[number] for axis in window.axes}
        assert shape.fits(rows)
        assert not any(one.fits(rows) for one in several[: several.index(shape)])


def test_smaller_shapes_do_not_change_when_the_largest_grows():
    shapes, window = Shapes(), batches_of_many_sizes()
    count = len(window.counts("graphs"))
    shapes.of(window, ENOUGH_BATCHES - 1, ENOUGH_BATCHES - 1)
    assert not shapes.smaller
    shapes.of(window, count, count)
    chosen, largest = list(shapes.smaller), shapes.largest
    assert chosen
    large = window_of(molecule_store(8), [56])
    assert shapes.of(large, 1, 1) == [shapes.largest] != [largest]
    assert shapes.smaller == chosen
    # The training step of the new largest shape is captured first.
    found = shapes.of(window, count, count)
    assert set(found[: ENOUGH_BATCHES - 1]) == {shapes.largest}
    assert set(found[ENOUGH_BATCHES:]) & set(chosen)


def test_largest_shape_does_not_change_if_expected_batches_fit():
    shapes, window = Shapes(), batches_of_many_sizes()
    shapes.of(window, ENOUGH_BATCHES - 1, ENOUGH_BATCHES - 1)
    first = shapes.largest
    shapes.of(window, ENOUGH_BATCHES, ENOUGH_BATCHES)
    assert shapes.smaller
    assert shapes.largest is first


def test_smaller_shapes_exceed_the_largest_on_no_axis(monkeypatch):
    monkeypatch.setattr(padder, "SMALLER_STDS", (-1.0, 99.0))
    shapes, window = Shapes(), batches_of_many_sizes()
    shapes.of(window, len(window.counts("graphs")), len(window.counts("graphs")))
    assert len(shapes.smaller) == 1
    assert is_inside(shapes.smaller[0], shapes.largest)


def test_batches_of_one_size_have_one_shape():
    store = molecule_store(ENOUGH_BATCHES)
    window = window_of(store, [len(store) // ENOUGH_BATCHES] * ENOUGH_BATCHES)
    shapes = Shapes()
    for _ in range(3):
        assert len(set(shapes.of(window, ENOUGH_BATCHES, ENOUGH_BATCHES))) == 1


def test_choose_shape_returns_multiples_that_kernels_are_compiled_for():
    shape = choose_shape(dict.fromkeys((*BATCH_AXES, "fillings"), 100))
    assert all(getattr(shape, axis) % 16 == 0 for axis in BATCH_AXES[1:])


class SlowDemand(Demand):
    """While it reads its count, `reading` is set and `go_on` is awaited."""

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
