"""Base GNNs ready to use, all at one constant width and with one call signature."""

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

from gnnak.errors import OptionError
from gnnak.nn.mlp import mlp


def gine(channels: int) -> MessagePassing:
    """GINE: message ReLU(x_j + e), sum, learnable eps, Linear-BN-ReLU-Linear update."""
    return GINEConv(mlp([channels, channels, channels]), train_eps=True)


def gcn(channels: int) -> MessagePassing:
    """GCN with self loops and symmetric normalisation; reads no edge attributes."""
    return GCNConv(channels, channels)


def sage(channels: int) -> MessagePassing:
    """GraphSAGE with mean aggregation; reads no edge attributes."""
    return SAGEConv(channels, channels)


def gat(channels: int) -> MessagePassing:
    """GAT with four heads (one, where the width is no multiple of four)."""
    heads = 4 if channels % 4 == 0 else 1
    return GATConv(channels, channels // heads, heads=heads, edge_dim=channels)


def gatedgcn(channels: int) -> MessagePassing:
    """GatedGCN: edge-gated sums."""
    return ResGatedGraphConv(channels, channels, edge_dim=channels)


def pna(channels: int, degrees: Tensor) -> MessagePassing:
    """PNA: four aggregators, three degree scalers.

    Args:
        channels: Width, in and out.
        degrees: How many nodes of the training set have each in-degree, [max + 1];
            the scalers divide by the mean of log(degree + 1), which must not be 0.
    """
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
