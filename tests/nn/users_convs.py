"""Convs as users write them, each with its own way to read edge attributes."""

import torch
from torch import nn
from torch_geometric.nn import MessagePassing


class UsersConv(MessagePassing):
    """Sums relu(x_j + edges), then a Linear; subclasses say what `edges` are."""

    def __init__(self, channels):
        super().__init__(aggr="add")
        self.lin = nn.Linear(channels, channels)

    def forward(self, x, edge_index, edge_attr):
        edges = self.encode(edge_attr)
        return self.lin(self.propagate(edge_index, x=x, edges=edges))

    def message(self, x_j, edges):
        return (x_j + edges).relu()


class BondConv(UsersConv):
    """As OGB does it: an Embedding for each categorical column, summed."""

    def __init__(self, channels, num_columns=3):
        super().__init__(channels)
        self.bonds = nn.ModuleList(
            nn.Embedding(5, channels) for _ in range(num_columns)
        )

    def encode(self, edge_attr):
        return sum(bond(edge_attr[:, i]) for i, bond in enumerate(self.bonds))


class BondTypeConv(UsersConv):
    """One category per edge, [e]."""

    def __init__(self, channels):
        super().__init__(channels)
        self.encode = nn.Embedding(5, channels)


class RawWeightConv(UsersConv):
    """Edge attributes of width 7 meet a bare parameter, not a Linear."""

    def __init__(self, channels):
        super().__init__(channels)
        self.weight = nn.Parameter(torch.rand(7, channels))

    def encode(self, edge_attr):
        return edge_attr @ self.weight


class ScalarConv(UsersConv):
    """One number per edge, [e], in an argument called edge_attr."""

    def encode(self, edge_attr):
        return edge_attr

    def message(self, x_j, edges):
        return edges.unsqueeze(-1) * x_j


class BesideConv(MessagePassing):
    """A Linear over state and edge attributes side by side; it tells no width."""

    def __init__(self, channels, edge_channels):
        super().__init__(aggr="add")
        self.lin = nn.Linear(channels + edge_channels, channels)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=x, edge_attr=edge_attr)

    def message(self, x_j, edge_attr):
        return self.lin(torch.cat([x_j, edge_attr], dim=1))


def users_convs(channels=8):
    """Name: (conv, edge attributes for it on a graph of four edges)."""
    return {
        "BondConv": (BondConv(channels), torch.tensor([[0, 1, 2]] * 3 + [[4, 3, 0]])),
        "BondTypeConv": (BondTypeConv(channels), torch.tensor([0, 1, 2, 4])),
        "RawWeightConv": (RawWeightConv(channels), torch.rand(4, 7)),
        "ScalarConv": (ScalarConv(channels), torch.rand(4)),
    }
