"""Fast implementation of GNN-AK layers on a CPU."""

from torch import Tensor

from gnnak.fast.cpu.layer import can_run_on_cpu, cpu_encodings
from gnnak.nn.calling import Inputs
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


class CpuOperations:
    """GNN-AK layers on a CPU, in float32 or float64.

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
