import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnak import EgoNets, RandomWalks
from gnnak.errors import OptionError
from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs.extractors import extract
from gnnak.subgraphs.streamed import largest_sizes, streamed
from tests.graphs.graph_strategies import stores


@given(stores(), st.integers(1, 20), st.integers(0, 3))
def test_streamed_slices_have_the_subgraphs_of_their_roots(store, most, num_hops):
    graph = store.union()
    edge_index, num_nodes = graph.edge_index, graph.num_nodes
    extractor = EgoNets(num_hops)
    whole = extract(extractor, edge_index, num_nodes)
    largest = largest_sizes(extractor, incoming(edge_index, num_nodes))
    assert (largest >= whole.sizes).all()
    found = streamed(extractor, edge_index, num_nodes, most)
    copies = [
        (part.root[part.subgraph] * num_nodes + part.node).tolist()
        for part in found.parts
    ]
    expected = (whole.root[whole.subgraph] * num_nodes + whole.node).tolist()
    assert [key for part in copies for key in part] == expected
    for part in found.parts:
        assert len(part.root) == 1 or part.num_copies < most + num_nodes
    containing = torch.bincount(whole.node, minlength=num_nodes)
    assert torch.equal(found.num_containing, containing)


def test_streamed_refuses_extractors_that_are_random():
    with pytest.raises(OptionError, match=r"or is random; use gnnak\.EgoNets"):
        streamed(RandomWalks(2, 2), torch.tensor([[0], [1]]), 2, 1)
