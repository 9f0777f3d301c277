import pytest
import torch

from gnnak.errors import SubgraphError
from gnnak.subgraphs import (
    EgoNets,
    NodeDeletion,
    RandomWalks,
    WholeGraphs,
    across_edges,
    across_whole,
    edge_pairs,
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
def test_across_whole_finds_the_same_edges(name):
    data = small_graphs()[name]
    given = WholeGraphs()(data.edge_index, data.num_nodes), data.edge_index
    found = [
        sorted(zip(*one.edge_index.tolist(), one.edge.tolist(), strict=True))
        for one in (across_whole(*given), across_edges(*given))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", [name for name in small_graphs() if name != "empty"])
@pytest.mark.parametrize("extractor", [WholeGraphs(), EgoNets(0), EgoNets(1)], ids=str)
def test_edge_pairs_finds_the_two_copies_of_each_edge(extractor, name):
    data = small_graphs()[name]
    subgraphs = extractor(data.edge_index, data.num_nodes)
    pairs = list(zip(subgraphs.subgraph.tolist(), subgraphs.node.tolist(), strict=True))
    found = edge_pairs(subgraphs, data.edge_index)
    for row, ends in enumerate((data.edge_index, data.edge_index.flip(0))):
        for edge, pair in enumerate(map(tuple, ends.t().tolist())):
            assert found.exists[row, edge] == (pair in pairs)
            if pair in pairs:
                assert found.copy[row, edge] == pairs.index(pair)
    assert edge_pairs(subgraphs, data.edge_index) is found


def test_across_whole_refuses_other_subgraphs():
    star = small_graphs()["star"]
    for extractor in (NodeDeletion(), EgoNets(1)):
        subgraphs = extractor(star.edge_index, star.num_nodes)
        with pytest.raises(SubgraphError, match="built for whole graphs, but got"):
            across_whole(subgraphs, star.edge_index)
