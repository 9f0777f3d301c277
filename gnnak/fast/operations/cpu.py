"""Fast implementation of GNN-AK layers and PPGN on a CPU."""

import torch
from torch import Tensor

from gnnak.fast.cpu.layer import can_run_on_cpu, cpu_encodings
from gnnak.fast.layers.parts import has_hooks
from gnnak.fast.layers.ppgn import (
    can_fuse_block,
    fused_block,
    fused_pool,
    fused_pool_block,
)
from gnnak.nn.base.node_pairs import NodePairs
from gnnak.nn.base.ppgn import PPGNBlock
from gnnak.nn.calling import Inputs
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


class CpuOperations:
    """GNN-AK layers and PPGN on a CPU, in float32 or float64.

    Args:
        min_copies: Least number of node copies (nodes as they occur in one rooted
            subgraph) in a batch; plain PyTorch is as fast for smaller batches.
    """

    def __init__(self, min_copies: int) -> None:
        self._min_copies = min_copies

    def encode(
        self,
        layer: GNNAK,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | Inputs | None,
        context_reduce: Reduce,
    ) -> dict[Encoding, Tensor]:
        if subgraphs.num_copies < self._min_copies:
            return NotImplemented
        if not can_run_on_cpu(layer, x, subgraphs, edge_attr):
            return NotImplemented
        return cpu_encodings(layer, x, subgraphs, edge_attr, context_reduce)

    def update_pairs(self, block: PPGNBlock, x: Tensor, pairs: NodePairs) -> Tensor:
        if not _is_full(x) or not can_fuse_block(block, x):
            return NotImplemented
        return fused_block(block, x, pairs)

    def pool_block(self, block: PPGNBlock, x: Tensor, pairs: NodePairs) -> Tensor:
        if not _is_full(x) or has_hooks(block) or not can_fuse_block(block, x):
            return NotImplemented
        return fused_pool_block(block, x, pairs)

    def pool_pairs(self, x: Tensor, pairs: NodePairs) -> Tensor:
        return fused_pool(x, pairs) if _is_full(x) else NotImplemented


def _is_full(x: Tensor) -> bool:
    """Return whether `x` is a tensor on a CPU, in full precision without autocast."""
    kind = x.device.type
    full = x.dtype in (torch.float, torch.double)
    return kind == "cpu" and full and not torch.is_autocast_enabled(kind)
