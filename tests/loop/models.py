"""Models, graphs and loops as a user writes them."""

import copy
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import BatchNorm, GINEConv, global_add_pool

from gnnak import TrainingStep


def molecules(
    count: int = 30, seed: int = 0, nodes: bool = False, most: int = 7
) -> list[Data]:
    """Random graphs of 3 to `most` nodes, with a target per graph or per node."""
    draw = torch.Generator().manual_seed(seed)
    graphs = []
    for number in range(count):
        n = 3 + number % (most - 2)
        ends = torch.randint(n, (2, 2 * n), generator=draw)
        graphs.append(
            Data(
                x=torch.rand(n, 4, generator=draw, dtype=torch.double),
                edge_index=torch.cat([ends, ends.flip(0)], dim=1),
                edge_attr=torch.rand(4 * n, 3, generator=draw, dtype=torch.double),
                y=torch.rand(n if nodes else 1, generator=draw, dtype=torch.double),
            )
        )
    return graphs


class Gine(nn.Module):
    """A user's GINE with BatchNorms on nodes, in the convs, and on graphs."""

    def __init__(self, channels: int = 8, nodes: bool = False) -> None:
        super().__init__()
        self.nodes = nodes
        self.start = nn.Linear(4, channels)
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for number in range(2):
            mlp = nn.Sequential(
                nn.Linear(channels, channels),
                nn.BatchNorm1d(channels),
                nn.ReLU(),
                nn.Linear(channels, channels),
            )
            self.convs.append(GINEConv(mlp, edge_dim=3))
            norm = BatchNorm if number else nn.BatchNorm1d
            self.norms.append(norm(channels))
        self.norm = nn.BatchNorm1d(channels)
        self.head = nn.Linear(channels, 1)

    def forward(self, x, edge_index, edge_attr, batch, graphs=None):
        h = self.start(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = h + norm(conv(h, edge_index, edge_attr)).relu()
        if not self.nodes:
            h = global_add_pool(h, batch, graphs)
        return self.head(self.norm(h)).flatten()


class TakesBatch(nn.Module):
    """A user's model whose forward takes the whole batch."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, data):
        return self.inside(data.x, data.edge_index, data.edge_attr, data.batch)


def mae(output: Tensor, batch: Data) -> Tensor:
    return nn.functional.l1_loss(output, batch.y)


def by_hand(
    model: nn.Module,
    batches: Iterable[Data],
    call: Callable,
    clip: float | None = None,
    scheduler: bool = False,
) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        value = mae(call(model, batch), batch)
        value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if scheduler:
            rates.step()
        losses.append(value.item())
    return losses


def by_step(
    model: nn.Module,
    batches: Iterable[Data],
    clip: float | None = None,
    scheduler: bool = False,
    **options: object,
) -> tuple[list[float], TrainingStep]:
    """Return the losses of the same loop with a `TrainingStep`, and the step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    step = TrainingStep(model, mae, optimizer, clip, **options)
    losses = []
    for batch in batches:
        losses.append(float(step(batch)))
        if scheduler:
            rates.step()
    return losses, step


def twins(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    model = model.double().train()
    return model, copy.deepcopy(model)


def assert_same_weights(one: nn.Module, other: nn.Module, tolerance: float) -> None:
    ours, theirs = one.state_dict(), other.state_dict()
    for name, value in theirs.items():
        close = {"rtol": tolerance, "atol": tolerance}
        torch.testing.assert_close(ours[name], value, **close, msg=name)


def fields(model: nn.Module, batch: Data) -> Tensor:
    return model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)


def sgd_step(
    model: nn.Module, loss: Callable = mae, rate: float = 0.1, **options: object
) -> TrainingStep:
    optimizer = torch.optim.SGD(model.parameters(), rate)
    return TrainingStep(model, loss, optimizer, **options)


def stepped(model: nn.Module, loader: Iterable, loss: Callable = mae) -> TrainingStep:
    """Return a step with SGD after all batches of a loader."""
    step = sgd_step(model, loss)
    for batch in loader:
        step(batch)
    return step


def in_float32(graphs: list[Data]) -> list[Data]:
    return [graph.apply(torch.Tensor.float, "x", "edge_attr", "y") for graph in graphs]


def ring_graphs(times: int) -> list[Data]:
    """Rings of several sizes; all degrees are 2."""
    rings = []
    for n in [5, 7, 9, 11, 40] * times:
        edges = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
        edges = torch.cat([edges, edges.flip(0)], dim=1)
        target = torch.full((1,), n / 40, dtype=torch.double)
        rings.append(Data(torch.ones(n, 1), edges, y=target))
    return rings
