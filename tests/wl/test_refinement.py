import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.wl import partition
from gnnak.wl.inputs import read_union
from gnnak.wl.refinement import color_refinement
from tests.wl.plain import classes, graphs, plain_1_wl


def test_color_refinement_of_a_path_of_four_by_hand():
    rounds = list(color_refinement(read_union([nx.path_graph(4)])))
    assert [coloring.color.tolist() for coloring in rounds] == [
        [0, 0, 0, 0],
        [0, 1, 1, 0],
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(graphs(), min_size=2, max_size=5))
def test_1_wl_agrees_with_its_plain_form(many):
    assert partition("1-wl", many) == classes(plain_1_wl(many))
