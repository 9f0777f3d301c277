import networkx as nx
import pytest
import torch
from hypothesis import given, settings

from gnnak.graphs.adjacency import components
from gnnak.sampling import plan
from gnnak.sampling.plan import pair_distances
from tests.strategies import graphs


@settings(max_examples=150, deadline=None)
@given(graph=graphs(max_nodes=10))
def test_pair_distances_equal_networkx(graph):
    edge_index, num_nodes = graph
    built = nx.Graph(edge_index.t().tolist())
    built.add_nodes_from(range(num_nodes))
    distances = pair_distances(edge_index, *components(edge_index, num_nodes))
    for node, lengths in nx.all_pairs_shortest_path_length(built):
        others = torch.tensor(sorted(lengths))
        told = distances.between(torch.full_like(others, node), others)
        assert told.tolist() == [lengths[other] for other in others.tolist()]


@settings(max_examples=100, deadline=None)
@given(graph=graphs(max_nodes=10))
def test_pair_distances_do_not_depend_on_the_chunks_of_the_search(graph):
    edge_index, num_nodes = graph
    parts = components(edge_index, num_nodes)
    at_once = pair_distances(edge_index, *parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CHUNK", 2)
        in_chunks = pair_distances(edge_index, *parts)
    assert torch.equal(at_once.hop, in_chunks.hop)
