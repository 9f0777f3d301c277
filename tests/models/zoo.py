"""Batches and small networks shared by the tests of the models."""

import torch
from torch_geometric.data import Batch

from gnnak.models import ModelOptions, build_model
from gnnak.models.bases import BASES
from gnnak.models.factory import SUFFIXES
from gnnak.models.members import MEMBERS
from gnnak.nn import Categorical, Continuous
from gnnak.subgraphs import EgoNets
from gnnak.testing import small_graphs

ATOMS, BONDS = Categorical((5, 3)), Categorical((4,))
SMALL = {
    "num_layers": 2,
    "channels": 8,
    "hop_channels": 4,
    "subgraphs": EgoNets(2),
}


DEGREES = (3, 8, 4, 1)
UPLIFTED = [base + suffix for base in BASES for suffix in SUFFIXES]
"""Every base GNN, alone and uplifted by GNN-AK."""
FAMILY = [f"{name}-gin" for name in MEMBERS]
"""Every other subgraph GNN, with GIN as its base GNN."""


def small_network(
    name, edge_features=BONDS, out_channels=3, seed=0, node_task=False, **options
):
    """A small network on `molecules`, float64."""
    torch.manual_seed(seed)
    chosen = ModelOptions(**(SMALL | options))
    given = (ATOMS, edge_features, out_channels, chosen, node_task, DEGREES)
    return build_model(name, *given).double()


def continuous_network(name, seed=0, node_task=False, **options):
    """A small network on `small_graphs(channels=4, edge_channels=3)`, float64."""
    torch.manual_seed(seed)
    chosen = ModelOptions(**(SMALL | options))
    given = (Continuous(4), Continuous(3), 3, chosen, node_task, DEGREES)
    return build_model(name, *given).double()


def molecules(with_edges=True):
    """The named corner cases with categorical features, the empty one left out."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for name, data in small_graphs().items():
        if name == "empty":
            continue
        rows, edges = data.x.size(0), data.edge_index.size(1)
        data.x = torch.stack(
            [torch.randint(size, (rows,), generator=generator) for size in ATOMS.sizes],
            dim=1,
        )
        if with_edges:
            data.edge_attr = torch.randint(4, (edges,), generator=generator)
        graphs.append(data)
    return graphs


def molecule_batch(with_edges=True):
    """All `molecules` as one batch."""
    return Batch.from_data_list(molecules(with_edges))


def tensors_of(data):
    """Copies of all tensors of a batch, by name."""
    return {k: v.clone() for k, v in data.to_dict().items() if torch.is_tensor(v)}
