"""Build dense blocks (Linear, BatchNorm, ReLU), and MLPs from dense blocks."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from gnnak.nn.norm import BatchNorm, RowAxis


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
    widths: Sequence[int], bias: bool = True, rows: RowAxis = "nodes"
) -> nn.Sequential:
    """Build an MLP of the given widths: Linear, BatchNorm, ReLU; Linear at the end."""
    hidden = pairwise(widths[:-1])
    blocks = [dense_block(before, after, rows) for before, after in hidden]
    return nn.Sequential(*blocks, nn.Linear(widths[-2], widths[-1], bias=bias))
