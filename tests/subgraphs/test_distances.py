import networkx as nx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.graphs.adjacency import hops_to_root
from tests.strategies import graphs


@settings(max_examples=200, deadline=None)
@given(graph=graphs(), bound=st.integers(0, 6), data=st.data())
def test_hops_to_root_equal_networkx(graph, bound, data):
    edge_index, num_nodes = graph
    nodes = st.integers(0, max(num_nodes - 1, 0))
    roots = data.draw(st.sets(nodes, max_size=num_nodes)) if num_nodes else set()
    reverse = nx.DiGraph(edge_index.flip(0).t().tolist())
    reverse.add_nodes_from(range(num_nodes))
    expected = [-1] * num_nodes
    if roots:
        far = nx.multi_source_dijkstra_path_length(reverse, roots, cutoff=bound)
        for node, length in far.items():
            expected[node] = int(length)
    index = torch.tensor(sorted(roots), dtype=torch.long)
    assert hops_to_root(edge_index, index, num_nodes, bound).tolist() == expected
