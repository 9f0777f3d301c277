"""Fast implementations of the blocks and sums of PPGN, on a GPU and on a CPU."""

from collections.abc import Callable

import torch
from torch import Tensor

from gnnak.fast.layers.parts import has_hooks
from gnnak.fast.layers.ppgn import (
    can_fuse_block,
    fused_block,
    fused_pool,
    fused_pool_block,
)
from gnnak.nn.base.ppgn import NodePairs, PPGNBlock


class PairOperations:
    """Blocks and sums of PPGN, which has a state for each pair of nodes of a graph.

    Each method replaces a plain PyTorch function of the same name.

    Args:
        serves: Takes an input tensor and returns whether the fast implementation may be
            used for this tensor.
    """

    def __init__(self, serves: Callable[[Tensor], bool]) -> None:
        self._serves = serves

    def update_pairs(self, block: PPGNBlock, x: Tensor, pairs: NodePairs) -> Tensor:
        if not self._serves(x) or not can_fuse_block(block, x):
            return NotImplemented
        return fused_block(block, x, pairs)

    def pool_block(self, block: PPGNBlock, x: Tensor, pairs: NodePairs) -> Tensor:
        if not self._serves(x) or has_hooks(block) or not can_fuse_block(block, x):
            return NotImplemented
        return fused_pool_block(block, x, pairs)

    def pool_pairs(self, x: Tensor, pairs: NodePairs) -> Tensor:
        return fused_pool(x, pairs) if self._serves(x) else NotImplemented


def is_full_on_cpu(x: Tensor) -> bool:
    """Return whether `x` is a tensor on a CPU, in full precision without autocast."""
    kind = x.device.type
    full = x.dtype in (torch.float, torch.double)
    return kind == "cpu" and full and not torch.is_autocast_enabled(kind)
