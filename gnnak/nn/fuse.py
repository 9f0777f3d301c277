"""FUSE: from the selected encodings of a node to its new state."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnnak.nn.mlp import mlp
from gnnak.nn.options import LayerOptions


class ConcatFuse(nn.Module):
    r"""$W \, [h^1 \,\Vert\, \dots \,\Vert\, h^r]$: concatenate, drop out, map.

    The Linear (or `num_layers` of them, BatchNorm and ReLU between) brings the
    concatenation back to the width of a node state.

    Args:
        num_encodings: How many encodings come in, r.
        channels: Width of each, and of the result.
        num_layers: Linears after the concatenation.
        dropout: Share of entries dropped before them.
    """

    def __init__(
        self, num_encodings: int, channels: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        widths = [num_encodings * channels] + [channels] * num_layers
        self.mlp = mlp(widths, bias=False)

    def forward(self, encodings: Sequence[Tensor]) -> Tensor:
        """Fuse [n, c] encodings into [n, c] states."""
        return self.mlp(self.dropout(torch.cat(list(encodings), dim=1)))


class SumFuse(nn.Module):
    r"""$h^1 + \dots + h^r$."""

    def forward(self, encodings: Sequence[Tensor]) -> Tensor:
        """Fuse [n, c] encodings into [n, c] states."""
        return torch.stack(list(encodings)).sum(dim=0)


def make_fuse(options: LayerOptions, num_encodings: int, channels: int) -> nn.Module:
    """Build the FUSE of a layer with these options."""
    if options.fuse == "sum":
        return SumFuse()
    num_layers = max(options.mlp_layers, 1)
    return ConcatFuse(num_encodings, channels, num_layers, options.dropout)
