"""Convs as users may write them; each reads edge attributes in another way."""

import torch
from torch import nn
from torch_geometric.nn import MessagePassing


class UsersConv(MessagePassing):
    """Sum relu(x_j + edges), then a Linear; subclasses compute `edges`."""

    def __init__(self, channels):
        super().__init__(aggr="add")
        self.lin = nn.Linear(channels, channels)

    def forward(self, x, edge_index, edge_attr):
        edges = self.encode(edge_attr)
        return self.lin(self.propagate(edge_index, x=x, edges=edges))

    def message(self, x_j, edges):
        return (x_j + edges).relu()


class BondConv(UsersConv):
    """Sum one Embedding per categorical column of edge_attr, as OGB does."""

    def __init__(self, channels, num_columns=3):
        super().__init__(channels)
        self.bonds = nn.ModuleList(
            nn.Embedding(5, channels) for _ in range(num_columns)
        )

    def encode(self, edge_attr):
        return sum(bond(edge_attr[:, i]) for i, bond in enumerate(self.bonds))


class BondTypeConv(UsersConv):
    def __init__(self, channels):
        super().__init__(channels)
        self.encode = nn.Embedding(5, channels)


class RawWeightConv(UsersConv):
    """Multiply edge attributes of width 7 by a parameter that is not in a Linear."""

    def __init__(self, channels):
        super().__init__(channels)
        self.weight = nn.Parameter(torch.rand(7, channels))

    def encode(self, edge_attr):
        return edge_attr @ self.weight


class ScalarConv(UsersConv):
    def encode(self, edge_attr):
        return edge_attr

    def message(self, x_j, edges):
        return edges.unsqueeze(-1) * x_j


class ConcatConv(MessagePassing):
    """Apply a Linear to [x_j, edge_attr]; no attribute declares their widths."""

    def __init__(self, channels, edge_channels):
        super().__init__(aggr="add")
        self.lin = nn.Linear(channels + edge_channels, channels)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=x, edge_attr=edge_attr)

    def message(self, x_j, edge_attr):
        return self.lin(torch.cat([x_j, edge_attr], dim=1))


class SquareConv(ConcatConv):
    """Apply a Linear to [x_i, x_j, edge_attr, edge_attr²]."""

    def __init__(self, channels, edge_channels):
        super().__init__(channels, channels + 2 * edge_channels)

    def message(self, x_i, x_j, edge_attr):
        return super().message(x_i, torch.cat([x_j, edge_attr, edge_attr**2], dim=1))


def users_convs(channels=8):
    return {
        "BondConv": (BondConv(channels), torch.tensor([[0, 1, 2]] * 3 + [[4, 3, 0]])),
        "BondTypeConv": (BondTypeConv(channels), torch.tensor([0, 1, 2, 4])),
        "RawWeightConv": (RawWeightConv(channels), torch.rand(4, 7)),
        "ScalarConv": (ScalarConv(channels), torch.rand(4)),
    }
