import pytest
import torch

from gnnak.subgraphs import (
    EgoNets,
    NodeDeletion,
    RandomWalks,
    WholeGraphs,
    across_edges,
)
from gnnak.testing import small_graphs

EXTRACTORS = [EgoNets(1), WholeGraphs(), NodeDeletion(), RandomWalks(2, 1)]


@pytest.mark.parametrize("extractor", EXTRACTORS, ids=str)
@pytest.mark.parametrize("name", small_graphs())
def test_across_edges_join_the_copies_of_a_node_at_adjacent_roots(name, extractor):
    data = small_graphs()[name]
    generator = torch.Generator().manual_seed(0)
    subgraphs = extractor(data.edge_index, data.num_nodes, generator)
    pairs = list(zip(subgraphs.subgraph.tolist(), subgraphs.node.tolist(), strict=True))
    wanted = [
        (pairs.index((a, v)), pairs.index((u, v)), edge)
        for u, v in pairs
        for edge, (a, b) in enumerate(data.edge_index.t().tolist())
        if b == u and (a, v) in pairs
    ]
    found = across_edges(subgraphs, data.edge_index)
    rows = zip(*found.edge_index.tolist(), found.edge.tolist(), strict=True)
    assert sorted(rows) == sorted(wanted)
    assert (found.edge_index[1].diff() >= 0).all()


@pytest.mark.parametrize("name", small_graphs())
def test_across_edges_of_whole_graphs_are_transposed_edge_copies(name):
    data = small_graphs()[name]
    size = data.num_nodes
    subgraphs = WholeGraphs()(data.edge_index, size)
    swapped = subgraphs.node * size + subgraphs.subgraph
    wanted = {(*pair,) for pair in swapped[subgraphs.edge_index].t().tolist()}
    found = across_edges(subgraphs, data.edge_index).edge_index.t().tolist()
    assert {(*pair,) for pair in found} == wanted
