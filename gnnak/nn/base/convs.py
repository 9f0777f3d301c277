"""PyG convs to use as base GNNs, each with equal input and output width."""

import torch
from torch import Tensor
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINEConv,
    MessagePassing,
    PNAConv,
    ResGatedGraphConv,
    SAGEConv,
)
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from gnnak.errors import OptionError
from gnnak.nn.mlp import mlp


class GCN(GCNConv):
    """PyG's `GCNConv` in a form that can be captured as a CUDA graph.

    Self loops of the input get weight zero: `GCNConv` removes them, which synchronises.
    """

    synchronises = False

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        size = x.size(0)
        source, target = edge_index
        loops = torch.arange(size, device=x.device).expand(2, -1)
        edges = torch.cat([edge_index, loops], dim=1)
        weights = torch.cat([(source != target).to(x.dtype), x.new_ones(size)])
        edges, weights = gcn_norm(edges, weights, size, add_self_loops=False)
        out = self.propagate(edges, x=self.lin(x), edge_weight=weights)
        return out + self.bias


def gine(channels: int) -> MessagePassing:
    r"""Build GINE, a GIN that adds edge states $e_{ij}$ to the states of neighbours.

    $$x_i' = \text{MLP}\big((1 + \epsilon)\, x_i +
        \sum_j \text{ReLU}(x_j + e_{ij})\big)$$
    """
    return GINEConv(mlp([channels, channels, channels]), train_eps=True)


def gcn(channels: int) -> MessagePassing:
    """Build GCN with self loops and symmetric normalisation, without edge states."""
    return GCN(channels)


def sage(channels: int) -> MessagePassing:
    """Build GraphSAGE with mean aggregation, without edge states."""
    return SAGEConv(channels, channels)


def gat(channels: int) -> MessagePassing:
    """Build GAT with four heads, or one head if `channels` is not a multiple of 4."""
    heads = 4 if channels % 4 == 0 else 1
    return GATConv(channels, channels // heads, heads=heads, edge_dim=channels)


def gatedgcn(channels: int) -> MessagePassing:
    """Build GatedGCN, which multiplies each message by a learned sigmoid gate."""
    return ResGatedGraphConv(channels, channels, edge_dim=channels)


def pna(channels: int, degrees: Tensor) -> MessagePassing:
    """Build PNA; `degrees[d]` is the number of training nodes with in-degree d."""
    whole = not degrees.is_floating_point() and not degrees.is_complex()
    if degrees.dim() != 1 or not whole or not bool((degrees[1:] > 0).any()):
        raise OptionError(
            f"degrees is {degrees.dtype} {list(degrees.shape)}; give the histogram of "
            "in-degrees as whole numbers [max + 1], with a node of degree 1 or more."
        )
    return PNAConv(
        channels,
        channels,
        aggregators=["mean", "min", "max", "std"],
        scalers=["identity", "amplification", "attenuation"],
        deg=degrees.to(torch.long),
        edge_dim=channels,
    )
