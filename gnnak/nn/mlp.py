"""The two small networks that everything else is made of."""

from collections.abc import Iterable, Sequence

from torch import nn

from gnnak.nn.norm import BatchNorm
from gnnak.typing import Encoding


def dense_block(in_channels: int, out_channels: int) -> nn.Sequential:
    """Linear without bias, BatchNorm, ReLU."""
    return nn.Sequential(
        nn.Linear(in_channels, out_channels, bias=False),
        BatchNorm(out_channels),
        nn.ReLU(),
    )


def mlp(widths: Sequence[int], bias: bool = True) -> nn.Sequential:
    """Dense blocks through all `widths`, the last one a bare Linear.

    >>> [type(layer).__name__ for layer in mlp([4, 8, 8, 2])]
    ['Sequential', 'Sequential', 'Linear']
    """
    blocks = [dense_block(widths[i], widths[i + 1]) for i in range(len(widths) - 2)]
    return nn.Sequential(*blocks, nn.Linear(widths[-2], widths[-1], bias=bias))


def make_transforms(
    names: Iterable[Encoding], channels: int, num_layers: int
) -> nn.ModuleDict:
    """`num_layers` dense blocks before the pool of each of these encodings."""
    if not num_layers:
        return nn.ModuleDict()
    return nn.ModuleDict(
        {
            name: nn.Sequential(
                *(dense_block(channels, channels) for _ in range(num_layers))
            )
            for name in names
        }
    )
