import pytest
import torch
from torch_geometric.data import Batch

from gnnak.errors import GraphError, OptionError, SizeError
from gnnak.subgraphs import MaskedEgoNets, NodeDeletion, WholeGraphs, egonets
from gnnak.subgraphs.whole import whole_graphs
from gnnak.testing import small_graphs

BATCH = Batch.from_data_list(list(small_graphs().values()))
PATH = small_graphs()["path"].edge_index


def pairs(subgraphs):
    return list(zip(subgraphs.subgraph.tolist(), subgraphs.node.tolist(), strict=True))


def edges(subgraphs):
    root = subgraphs.subgraph[subgraphs.edge_index[1]].tolist()
    return set(zip(root, subgraphs.edge.tolist(), strict=True))


@pytest.mark.parametrize(
    "extractor", [WholeGraphs(), NodeDeletion(), MaskedEgoNets(1)], ids=str
)
def test_extractors_keep_the_rules_of_the_record(extractor):
    subgraphs = extractor(BATCH.edge_index, BATCH.num_nodes, batch=BATCH.batch)
    induced = isinstance(extractor, WholeGraphs)
    subgraphs.check(BATCH.edge_index, BATCH.num_nodes, induced=induced)
    assert subgraphs.max_hop <= extractor.max_hops
    wanted = [
        (u, v)
        for u in range(BATCH.num_nodes)
        for v in range(BATCH.num_nodes)
        if BATCH.batch[u] == BATCH.batch[v]
    ]
    assert pairs(subgraphs) == wanted


def test_whole_graphs_have_every_edge_and_bounded_distances():
    subgraphs = whole_graphs(BATCH.edge_index, BATCH.num_nodes, BATCH.batch, max_hops=1)
    of_edge = BATCH.batch[BATCH.edge_index[0]]
    wanted = {
        (u, edge)
        for u in range(BATCH.num_nodes)
        for edge in range(BATCH.num_edges)
        if BATCH.batch[u] == of_edge[edge]
    }
    assert edges(subgraphs) == wanted
    near = egonets(BATCH.edge_index, BATCH.num_nodes, 1)
    found = {
        pair: hop
        for pair, hop in zip(pairs(subgraphs), subgraphs.hop.tolist(), strict=True)
        if hop >= 0
    }
    assert found == dict(zip(pairs(near), near.hop.tolist(), strict=True))


def test_node_deletion_removes_the_edges_of_the_root():
    subgraphs = NodeDeletion()(PATH, 3)
    assert subgraphs.hop.tolist() == [0, -1, -1, -1, 0, -1, -1, -1, 0]
    assert edges(subgraphs) == {(0, 2), (0, 3), (2, 0), (2, 1)}


def test_masked_egonets_have_the_edges_of_egonets():
    masked = MaskedEgoNets(1)(BATCH.edge_index, BATCH.num_nodes, batch=BATCH.batch)
    assert edges(masked) == edges(egonets(BATCH.edge_index, BATCH.num_nodes, 1))


def test_whole_graphs_that_are_too_large_say_what_they_would_take():
    ring = torch.arange(5000)
    edge_index = torch.stack([ring, ring.roll(1)])
    wanted = r"exactly 50,000,000 .* is in\), more than copy_limit=1,000 allows; lower"
    with pytest.raises(SizeError, match=wanted):
        WholeGraphs(copy_limit=1000)(edge_index, 5000)


def test_whole_graphs_answer_a_wrong_batch_in_one_sentence():
    with pytest.raises(GraphError, match="not sorted"):
        WholeGraphs()(PATH, 3, batch=torch.tensor([1, 0, 0]))
    with pytest.raises(GraphError, match="an edge joins nodes of two graphs"):
        WholeGraphs()(PATH, 3, batch=torch.tensor([0, 0, 1]))
    with pytest.raises(GraphError, match=r"give the graph of each node"):
        WholeGraphs()(PATH, 3, batch=torch.tensor([0, 0]))
    with pytest.raises(OptionError, match="max_hops is -1"):
        WholeGraphs(-1)
