"""Compare groups of copies and edge copies with plain Python loops."""

import pytest
import torch
from hypothesis import given

from gnnak import EgoNets
from gnnak.errors import SubgraphError
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs
from tests.strategies import graphs


def members(groups: Groups, rows: int) -> list[list[int]]:
    order = list(range(rows)) if groups.order is None else groups.order.tolist()
    ptr = groups.ptr.tolist()
    return [order[ptr[k] : ptr[k + 1]] for k in range(len(groups))]


@given(graphs())
def test_every_axis(graph: tuple[torch.Tensor, int]) -> None:
    edge_index, num_nodes = graph
    subs = EgoNets(2)(edge_index, num_nodes)
    keys = {
        "subgraph": (subs.subgraph, subs.num_subgraphs),
        "node": (subs.node, num_nodes),
        "target": (subs.edge_index[1], subs.num_copies),
        "source": (subs.edge_index[0], subs.num_copies),
        "edge": (subs.edge, edge_index.size(1)),
    }
    for axis, (key, size) in keys.items():
        named = key.tolist()
        wanted = [[i for i, k in enumerate(named) if k == g] for g in range(size)]
        assert members(subs.by(axis), len(named)) == wanted


def test_grouping_without_num_nodes_raises() -> None:
    subs = EgoNets(1)(torch.tensor([[0], [1]]), 2)
    fields = (subs.root, subs.node, subs.subgraph, subs.hop, subs.edge_index, subs.edge)
    with pytest.raises(SubgraphError, match="num_nodes"):
        RootedSubgraphs(*fields).by("node")
