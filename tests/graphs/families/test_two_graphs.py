import pytest

from gnnak.graphs.families import (
    _graph_of_matrix,
    descendants,
    latin_squares,
    regular_members,
    regular_two_graphs,
    triple_systems,
)
from gnnak.wl.families import unlike


@pytest.mark.slow
def test_the_four_two_graphs_hold_no_further_strongly_regular_graph():
    matrices = regular_two_graphs()
    below = [_graph_of_matrix(m) for s in matrices for m in descendants(s)]
    assert len(below) == 104
    assert len(unlike(below)) == 15
    inside = [_graph_of_matrix(m) for s in matrices for m in regular_members(s, 5)]
    assert len(inside) == 188
    assert len(unlike(inside)) == 10


def test_latin_squares_hold_each_symbol_once_in_every_line():
    for square in latin_squares():
        for line in [*square, *square.T]:
            assert sorted(line.tolist()) == [0, 1, 2, 3, 4]


def test_triple_systems_hold_each_pair_once():
    for blocks in triple_systems():
        pairs = {(a, b) for block in blocks for a in block for b in block if a < b}
        assert len(blocks) == 26
        assert len(pairs) == 78
