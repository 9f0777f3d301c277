"""Models of several convs, as people write them, and the rest of PyG's models."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg


class Stack(nn.Module):
    """Convs one after the other, called with the same further arguments.

    With `keep`, convs also get the first states, as `x_0`; `jump` combines all states.
    """

    def __init__(
        self,
        convs: list[nn.Module],
        keep: bool = False,
        jump: nn.Module | None = None,
        norms: list[nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.norms = nn.ModuleList(norms or [nn.Identity() for _ in convs])
        self.keep, self.jump = keep, jump

    def forward(self, x: Tensor, edge_index: Tensor, **more: Tensor) -> Tensor:
        first, states = x, []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            given = (x, first) if self.keep else (x,)
            x = norm(conv(*given, edge_index, **more)).relu()
            states.append(x)
        return x if self.jump is None else self.jump(states)


class PointStack(nn.Module):
    """Convs on points in space: the first states are the positions."""

    def __init__(self, convs: list[nn.Module]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)

    def forward(self, pos: Tensor, edge_index: Tensor) -> Tensor:
        h = pos
        for conv in self.convs:
            h = conv(h, pos, edge_index).relu()
        return h


class Predictor(nn.Module):
    """A graph-level model: an embedding of atoms, convs, a pool and an MLP."""

    def __init__(self, conv: Callable[[], nn.Module], width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, width)
        self.convs = nn.ModuleList([conv(), conv()])
        self.head = pyg.MLP([width, width, 1], norm=None)

    def forward(self, z: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = self.embedding(z)
        for conv in self.convs:
            h = h + conv(h, edge_index).relu()
        return self.head(pyg.global_add_pool(h, batch))


class Recurrent(nn.Module):
    """One conv that is applied several times, with a GRU cell between."""

    def __init__(self, conv: nn.Module, width: int, times: int = 3) -> None:
        super().__init__()
        self.conv, self.cell, self.times = conv, nn.GRUCell(width, width), times

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for _ in range(self.times):
            x = self.cell(self.conv(x, edge_index), x)
        return x


class Dropped(nn.Module):
    """A model that removes edges itself between two convs."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x, edge_index).relu()
        kept = edge_index[:, edge_index[0] < edge_index[1]]
        return self.second(h, torch.cat([kept, kept.flip(0)], dim=1))


class Pooled(nn.Module):
    """A conv, a pooling layer that returns a smaller graph, and another conv."""

    def __init__(self, first: nn.Module, pool: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.pool, self.second = first, pool, second

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = self.first(x, edge_index).relu()
        pooled = self.pool(h, edge_index, batch=batch)
        return self.second(pooled[0], pooled[1])


class EdgeModel(nn.Module):
    """Computes new edge attributes from both ends of an edge, for `MetaLayer`."""

    def __init__(self, width: int, edge_width: int) -> None:
        super().__init__()
        self.mlp = nn.Linear(2 * width + edge_width, edge_width)

    def forward(self, x, target, edge_attr, u, batch):
        return self.mlp(torch.cat([x, target, edge_attr], dim=1))


class DenseUNet(pyg.GraphUNet):
    """PyG's GraphUNet with dense products: its sparse ones do not run on every CPU."""

    def augment_adj(self, edge_index, edge_weight, num_nodes):
        matrix = torch.eye(num_nodes, dtype=edge_weight.dtype)
        row, column = edge_index
        matrix = matrix.index_put((row, column), edge_weight, accumulate=True)
        square = (matrix @ matrix).fill_diagonal_(0)
        found = square.nonzero().t()
        return found, square[found[0], found[1]]


class AllPairs(nn.Module):
    """Joins all atoms, for ViSNet: edges, distances and difference vectors."""

    def forward(self, pos: Tensor, batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n = pos.size(0)
        ends = torch.cartesian_prod(torch.arange(n), torch.arange(n)).t()
        difference = pos[ends[0]] - pos[ends[1]]
        return ends, difference.norm(dim=1), difference
