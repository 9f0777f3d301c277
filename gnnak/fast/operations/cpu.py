"""Fast implementation of GNN-AK layers on a CPU."""

from torch import Tensor

from gnnak.fast.cpu.layer import can_run_on_cpu, cpu_encodings
from gnnak.nn.calling import Inputs
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


class CpuOperations:
    """GNN-AK layers on a CPU, in float32 or float64."""

    def encode(
        self,
        layer: GNNAK,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | Inputs | None,
        context_reduce: Reduce,
    ) -> dict[Encoding, Tensor]:
        if not can_run_on_cpu(layer, x, subgraphs, edge_attr):
            return NotImplemented
        return cpu_encodings(layer, x, subgraphs, edge_attr, context_reduce)
