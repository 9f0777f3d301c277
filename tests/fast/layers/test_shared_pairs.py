"""GNN-AK layers around PPGN share the pairs of nodes of all rooted subgraphs."""

import pytest
import torch
from torch_geometric.data import Batch

from gnnak.backend import PLAIN, use_backend
from gnnak.nn.base.ppgn import find_pairs
from tests.models.zoo import molecules, small_network


@pytest.mark.parametrize("name", ["ppgn-ak", "ppgn-ak+"])
def test_layers_share_the_pairs_of_nodes(name, fused_operations, monkeypatch):
    found = []

    def find(batch):
        found.append(find_pairs(batch))
        return found[-1]

    monkeypatch.setattr("gnnak.fast.layers.ppgn.find_pairs", find)
    network = small_network(name).train()
    batch = Batch.from_data_list(molecules())
    out = network(batch)
    assert len(found) == 1
    assert fused_operations.count("embed") == len(network.layers) > 1
    with use_backend(PLAIN):
        wanted = network(batch)
    torch.testing.assert_close(out, wanted, rtol=1e-10, atol=1e-10)
