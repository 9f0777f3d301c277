"""FUSE in the paper: combine the centroid, subgraph and context encodings of a node."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnnak.nn.mlp import mlp
from gnnak.nn.options import LayerOptions


class ConcatFuse(nn.Module):
    r"""Fuse by concatenation: $W \, \text{Dropout}[h^1 \,\Vert\, \dots \,\Vert\, h^r]$.

    $h^1, \dots, h^r$ are the encodings of node $v$ that the layer uses: all or some of
    $h_v^{\text{Centroid}}$, $h_v^{\text{Subgraph}}$ and $h_v^{\text{Context}}$.

    Difference from the paper: the Linear $W$ maps the concatenation to the width of a
    node state. With `num_layers` > 1, an MLP with BatchNorm and ReLU replaces $W$; its
    hidden layers are as wide as the concatenation, r c.

    Args:
        num_encodings: Number of encodings, r.
        channels: Width of each encoding and of the result, c.
        num_layers: Number of layers of the MLP; 1 = the Linear $W$ alone.
        dropout: Dropout probability for the concatenated encodings.
    """

    def __init__(
        self, num_encodings: int, channels: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        widths = [num_encodings * channels] * num_layers
        self.mlp = mlp([*widths, channels], bias=False)

    def forward(self, encodings: Sequence[Tensor]) -> Tensor:
        """Fuse r encodings, each [n, c], into node states, [n, c]."""
        return self.mlp(self.dropout(torch.cat(list(encodings), dim=1)))


class SumFuse(nn.Module):
    r"""Fuse by summation: $h^1 + \dots + h^r$, the sum of a node's r encodings."""

    def forward(self, encodings: Sequence[Tensor]) -> Tensor:
        """Fuse r encodings, each [n, c], into node states, [n, c]."""
        return torch.stack(list(encodings)).sum(dim=0)


def make_fuse(options: LayerOptions, num_encodings: int, channels: int) -> nn.Module:
    """Build the module that fuses the encodings of a node, FUSE in the paper.

    Args:
        options: Options of the GNN-AK layer. `fuse` selects sum or concatenation.
        num_encodings: Number of encodings that are fused.
        channels: Width of each encoding and of the result.
    """
    if options.fuse == "sum":
        return SumFuse()
    num_layers = max(options.mlp_layers, 1)
    return ConcatFuse(num_encodings, channels, num_layers, options.dropout)
