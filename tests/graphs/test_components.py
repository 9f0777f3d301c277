import networkx as nx
import torch
from hypothesis import given, settings

from gnnak.graphs.adjacency import components
from tests.strategies import graphs


@settings(max_examples=200, deadline=None)
@given(graph=graphs(max_nodes=12))
def test_components_equal_networkx(graph):
    edge_index, num_nodes = graph
    built = nx.Graph(edge_index.t().tolist())
    built.add_nodes_from(range(num_nodes))
    parts = sorted(map(sorted, nx.connected_components(built)))
    component, count = components(edge_index, num_nodes)
    assert count == len(parts)
    for number, nodes in enumerate(parts):
        assert component[nodes].tolist() == [number] * len(nodes)


def test_components_of_a_shuffled_path_take_few_rounds(monkeypatch):
    order = torch.randperm(4096)
    path = torch.stack([order[:-1], order[1:]])
    rounds = []
    equal = torch.equal
    monkeypatch.setattr(torch, "equal", lambda a, b: rounds.append(1) or equal(a, b))
    assert components(path, 4096)[1] == 1
    assert len(rounds) < 40
