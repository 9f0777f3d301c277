"""Read all fields of PyG graphs."""

from dataclasses import replace

import torch
from torch_geometric.data import Data

from gnnak.graphs.readers.pyg_fields import _no_edges, read_fields

META = torch.device("meta")


def test_graphs_are_moved_with_fields_that_are_on_another_device():
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(torch.ones(2, 1), edges, number=3, pos=torch.ones(2, 3))] * 2
    fields = read_fields(graphs)
    assert fields.to(fields.store.device) is fields
    # Graphs that are already on a device: only the numbers are on the CPU.
    store = fields.store.to(META)
    moved = replace(fields, store=store).to(META)
    assert {
        name: each.value.device for name, each in moved.attributes.tensors.items()
    } == {
        "number": META,
        "pos": META,
    }
    # Only `x` is on another device.
    store = replace(store, x=fields.store.x)
    assert replace(moved, store=store).to(META).store.x.device == META


def test_graphs_without_edges_are_on_the_device_of_their_fields():
    sizes = torch.tensor([2])
    edges, counts = _no_edges([Data(x=torch.ones(2, 1, device=META))], sizes)
    assert (edges.device, counts.device) == (META, sizes.device)
    edges, _ = _no_edges([Data(num_nodes=2)], sizes)
    assert edges.device == sizes.device
