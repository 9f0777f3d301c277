"""Shapes: room for padding, told apart by their sizes, seldom changed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.training.items import ROWS
from gnnak.training.shapes import MOST_SHAPES, Shapes, choose_shape, fits
from tests.training.test_padding import molecule_store, window_of

AXIS_COUNTS = st.fixed_dictionaries(
    {axis: st.integers(0, 5000) for axis in (*ROWS, "fillings")}
)


@given(AXIS_COUNTS)
@settings(max_examples=200)
def test_choose_shape_leaves_room_and_tells_axes_apart(most):
    shape = choose_shape(most)
    assert fits(most, shape)
    assert shape.graphs == most["graphs"] + 1
    sizes = [getattr(shape, axis) for axis in ROWS]
    assert len(set(sizes)) == len(sizes)
    for axis in ROWS[1:]:
        assert getattr(shape, axis) <= 1.02 * most[axis] + 72


def test_choose_shape_of_all_subgraphs_has_as_many_as_nodes():
    most = dict.fromkeys(ROWS, 100)
    shape = choose_shape(most)
    assert shape.subgraphs == shape.nodes
    assert len({shape.nodes, shape.edges, shape.copies, shape.edge_copies}) == 4
    assert shape.fillings == 0


def windows(*copies):
    """Windows of one batch of so many molecules each."""
    return [window_of(molecule_store(count), [7 * count]) for count in copies]


def test_shapes_are_the_same_for_like_batches():
    shapes, (window,) = Shapes(), windows(4)
    assert shapes.of(window, 1) is shapes.of(window, 1)


def test_shapes_fit_large_and_small_batches():
    shapes = Shapes()
    middle, small, large = (shapes.of(window, 1) for window in windows(8, 7, 9))
    assert small.copies < middle.copies < large.copies
    assert shapes.of(windows(8)[0], 1) is middle


def test_shapes_are_few_whatever_comes():
    shapes = Shapes()
    for window in windows(*range(20, 3, -1)):
        shape = shapes.of(window, 1)
        most = {axis: max(window.counts(axis)) for axis in window.axes}
        assert fits(most, shape)
    assert len(shapes.rungs) == MOST_SHAPES
