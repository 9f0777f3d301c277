"""Shapes: room for padding, told apart by their sizes, seldom changed."""

from statistics import mean, pstdev

from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.training.batches.items import ROWS
from gnnak.training.batches.shapes import Shapes, choose_shape, fits
from tests.training.batches.test_padding import molecule_store, window_of

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


def test_shapes_grow_when_a_batch_does_not_fit():
    shapes, small = Shapes(), window_of(molecule_store(1), [7])
    first = shapes.of(small, 1, 1)
    assert shapes.of(small, 1, 1) is first
    large = shapes.of(window_of(molecule_store(8), [56]), 1, 1)
    assert large.copies > first.copies
    assert shapes.of(small, 1, 1) is large


def test_shapes_have_room_for_batches_that_are_a_little_larger():
    window = window_of(molecule_store(4), [2] * 14)
    shape = Shapes().of(window, 14, 14)
    for axis in ("nodes", "edges", "copies", "edge_copies"):
        assert max(window.counts(axis)) < getattr(shape, axis)
    copies = window.counts("copies")
    assert mean(copies) + 4 * pstdev(copies) < shape.copies


def test_shapes_judge_by_batches_of_full_size():
    window = window_of(molecule_store(40), [30] * 9 + [10])
    wanted = Shapes().of(window, 9, 9)
    assert Shapes().of(window, 10, 9) == wanted
    assert Shapes().of(window, 10, 10) != wanted


def test_shapes_never_shrink_on_an_axis():
    shapes = Shapes()
    old = shapes.of(window_of(molecule_store(8), [7] * 8), 8, 8)
    shapes.most["nodes"] = old.nodes
    new = shapes.of(window_of(molecule_store(1), [7]), 1, 1)
    assert new.nodes > old.nodes
    assert all(getattr(new, axis) >= getattr(old, axis) for axis in ROWS)
