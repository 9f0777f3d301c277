"""Loaders of a user who has set a default device.

The meta device stands for a GPU: a tensor that is made there by mistake has no values.
"""

import pytest
import torch
from torch_geometric.data import Data

from gnnak import Budget, EgoNets, GraphLoader, RandomWalks
from gnnak.graphs import from_pyg
from tests.loading.test_graph_loader import RICH, assert_same_batch

PLAIN = [Data(x=each.x, edge_index=each.edge_index, y=each.number) for each in RICH]
CHOSEN = torch.tensor([0, 2])
LOADERS = {
    "rich": (RICH, {}),
    "budget": (PLAIN, {"batch_size": Budget(nodes=9)}),
    "padded": (PLAIN, {"pad": True}),
    "walks": (PLAIN, {"subgraphs": RandomWalks(3, 2)}),
    "egonets": (PLAIN, {"subgraphs": EgoNets(2)}),
    "padded egonets": (PLAIN, {"subgraphs": EgoNets(2), "pad": True}),
    "store": (from_pyg(PLAIN), {}),
}


@pytest.mark.parametrize("kind", LOADERS)
def test_batches_do_not_depend_on_the_default_device(kind):
    graphs, options = LOADERS[kind]
    options = {"batch_size": 3, "shuffle": True, **options}
    wanted = [*GraphLoader(graphs, **options)]
    with torch.device("meta"):
        found = [*GraphLoader(graphs, **options)]
        parts = found[0].to_data_list()
    assert len(parts) == wanted[0].num_graphs
    for one, other in zip(found, wanted, strict=True):
        if "subgraphs" in other:
            assert torch.equal(one.subgraphs.node, other.subgraphs.node)
            one, other = (batch.clone() for batch in (one, other))
            del one.subgraphs, other.subgraphs
        assert_same_batch(one, other)


def test_graphs_of_a_store_are_selected_whatever_the_default_device():
    store = from_pyg(PLAIN)
    with torch.device("meta"):
        for indices in ([0, 2], slice(0, 3, 2), CHOSEN):
            assert store[indices].num_graphs == 2
