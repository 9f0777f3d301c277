"""Build dense blocks (Linear, BatchNorm, ReLU), and MLPs."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from gnnak.nn.norm import BatchNorm, RowAxis
from gnnak.typing import Norm


def dense_block(
    in_channels: int, out_channels: int, rows: RowAxis = "nodes"
) -> nn.Sequential:
    """Build a block of three modules: a Linear without bias, BatchNorm and ReLU."""
    return nn.Sequential(
        nn.Linear(in_channels, out_channels, bias=False),
        BatchNorm(out_channels, rows),
        nn.ReLU(),
    )


def mlp(
    widths: Sequence[int],
    bias: bool = True,
    rows: RowAxis = "nodes",
    norm: Norm = "batch",
) -> nn.Sequential:
    """Build an MLP of the given widths: Linear, norm, ReLU; Linear at the end.

    `bias` is for the last Linear. The others have a bias if there is no norm.
    """
    blocks = []
    for before, after in pairwise(widths[:-1]):
        if norm == "batch":
            blocks.append(dense_block(before, after, rows))
        else:
            blocks.append(nn.Sequential(nn.Linear(before, after), nn.ReLU()))
    return nn.Sequential(*blocks, nn.Linear(widths[-2], widths[-1], bias=bias))
