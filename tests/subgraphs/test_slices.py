import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak import EgoNets
from gnnak.errors import OptionError
from gnnak.nn.encodings import slices
from tests.strategies import graphs


@given(graphs(), st.integers(1, 40), st.integers(0, 3))
def test_concatenated_slices_equal_the_whole(graph, max_copies, num_hops):
    edge_index, num_nodes = graph
    whole = EgoNets(num_hops)(edge_index, num_nodes)
    copies = subgraphs = 0
    nodes, hops, ends, edges, roots = [], [], [], [], []
    for part in slices(whole, max_copies):
        assert part.num_subgraphs
        if part.num_subgraphs > 1:
            assert part.num_copies <= 2 * max_copies
        roots.append(part.root)
        nodes.append(part.node)
        hops.append(part.hop)
        ends.append(part.edge_index + copies)
        edges.append(part.edge)
        wanted = whole.subgraph[copies : copies + part.num_copies]
        assert torch.equal(part.subgraph + subgraphs, wanted)
        assert torch.equal(part.node[part.centroid], part.root)
        copies += part.num_copies
        subgraphs += part.num_subgraphs
    assert copies == whole.num_copies
    if not num_nodes:
        return
    for found, name in (
        (roots, "root"),
        (nodes, "node"),
        (hops, "hop"),
        (edges, "edge"),
    ):
        assert torch.equal(torch.cat(found), getattr(whole, name))
    assert torch.equal(torch.cat(ends, dim=1), whole.edge_index)


def test_slices_require_at_least_one_copy():
    whole = EgoNets(1)(torch.tensor([[0], [1]]), 2)
    with pytest.raises(OptionError, match="max_copies is 0"):
        list(slices(whole, 0))


def test_a_subgraph_larger_than_max_copies_is_a_slice_by_itself():
    """The hub of a star, with a copy of every leaf, between single nodes."""
    star = torch.tensor([[0, 1, 2], [3, 3, 3]])
    parts = list(slices(EgoNets(1)(star, 5), 2))
    assert [part.root.tolist() for part in parts] == [[0, 1], [2], [3], [4]]
