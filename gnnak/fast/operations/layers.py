"""Fast implementations of gathers, pools, norms, GNN-AK layers and networks.

Each method replaces a plain PyTorch function of the same name.
"""

from collections.abc import Callable
from inspect import unwrap
from typing import Any

from torch import Tensor, nn

from gnnak.fast.kernels.records import EdgeStates
from gnnak.fast.layers.affine import affine_states
from gnnak.fast.layers.batched import call_of
from gnnak.fast.layers.encoder import can_recompute, recomputed_encoding
from gnnak.fast.layers.fill import fused_fill
from gnnak.fast.layers.gather import (
    SMALL_TABLE,
    embedded_rows,
    gather_rows,
    lookup_rows,
    sum_rows,
)
from gnnak.fast.layers.general import (
    can_fuse_conv,
    can_fuse_pools,
    fused_embedding,
    pooled_encodings,
)
from gnnak.fast.layers.hop_tables import shared_gates
from gnnak.fast.layers.inside import (
    across_groups,
    can_fuse_messages,
    fused_messages,
)
from gnnak.fast.layers.layer import can_fuse, fused_encodings, reads_affine
from gnnak.fast.layers.lift import edges_of
from gnnak.fast.layers.norm import GivenNorm, norm_relu_add, norm_rows
from gnnak.fast.layers.parts import blocks_of, can_fuse_norm, has_hooks
from gnnak.fast.layers.ppgn import can_share_pairs, embedding_on_pairs
from gnnak.fast.layers.rows import Rows
from gnnak.models.network import Network
from gnnak.nn.calling import Inputs
from gnnak.nn.copies import Messages
from gnnak.nn.features import ContinuousEncoder
from gnnak.nn.norm import BatchNorm, NormReluDropout
from gnnak.nn.padding import on_copies
from gnnak.nn.sliced import can_slice
from gnnak.nn.uplift import GNNAK
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.across import AcrossEdges
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


class LayerOperations:
    """Fast implementations of gathers, pools, norms, GNN-AK layers and networks.

    Args:
        serves: Takes an input tensor and returns whether the fast implementation may be
            used for this tensor. Fused norms and the fused layers of networks by name
            also need full precision.
    """

    def __init__(self, serves: Callable[[Tensor], bool]) -> None:
        self._serves = serves

    def _serves_full(self, x: Tensor) -> bool:
        return x.dtype.itemsize >= 4 and self._serves(x)

    # Gathers and pools, used with any base GNN.

    def lookup(self, table: Tensor, index: Tensor) -> Tensor:
        if table.size(0) > SMALL_TABLE or not self._serves(table):
            return NotImplemented
        return lookup_rows(table, index)

    def embed_rows(self, table: Tensor, index: Tensor) -> Tensor:
        if table.size(0) > SMALL_TABLE or not self._serves(table):
            return NotImplemented
        return embedded_rows(table, index)

    def lift(self, x: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        if not self._serves(x) or subgraphs.num_nodes is None:
            return NotImplemented
        return gather_rows(x, subgraphs.node, subgraphs.by("node"))

    def lift_edges(self, e: Tensor, subgraphs: RootedSubgraphs) -> Tensor:
        if e.dim() != 2 or not self._serves(e) or subgraphs.num_edges is None:
            return NotImplemented
        return gather_rows(e, subgraphs.edge, subgraphs.by("edge"))

    def pool_subgraph(
        self, z: Tensor, subgraphs: RootedSubgraphs, reduce: Reduce
    ) -> Tensor:
        if not self._serves(z):
            return NotImplemented
        return _pooled(z, subgraphs.subgraph, subgraphs.by("subgraph"), reduce)

    def pool_context(
        self, z: Tensor, subgraphs: RootedSubgraphs, num_nodes: int, reduce: Reduce
    ) -> Tensor:
        if not self._serves(z) or subgraphs.num_nodes != num_nodes:
            return NotImplemented
        return _pooled(z, subgraphs.node, subgraphs.by("node"), reduce)

    # Messages of all subgraph GNNs.

    def inside(
        self,
        conv: Messages,
        z: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | None,
    ) -> Tensor:
        if not self._serves(z) or not can_fuse_messages(conv, z, subgraphs, edge_attr):
            return NotImplemented
        return fused_messages(conv, z, subgraphs, edge_attr, edges_of(subgraphs))

    def pass_across(
        self,
        conv: Messages,
        z: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | None,
        links: AcrossEdges,
    ) -> Tensor:
        if not self._serves(z) or not can_fuse_messages(conv, z, subgraphs, edge_attr):
            return NotImplemented
        edges = across_groups(subgraphs, links)
        return fused_messages(conv, z, subgraphs, edge_attr, edges)

    # SubgraphDrop.

    def fill_dropped(
        self,
        encodings: dict[Encoding, Tensor],
        subgraphs: SampledSubgraphs,
        num_nodes: int,
    ) -> dict[Encoding, Tensor]:
        if not all(map(self._serves, encodings.values())):
            return NotImplemented
        return {name: fused_fill(h, subgraphs) for name, h in encodings.items()}

    # BatchNorms.

    def over_rows(self, norm: BatchNorm, x: Tensor) -> Tensor:
        if not self._serves_full(x) or not can_fuse_norm(norm, x):
            return NotImplemented
        return norm_rows(norm, x)

    def norm_real_rows(
        self,
        x: Tensor,
        count: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        momentum: float,
        eps: float,
    ) -> Tensor:
        if running_mean is None or running_var is None or not self._serves(x):
            return NotImplemented
        if weight is None or bias is None or x.size(0) < 2 or x.stride(1) != 1:
            return NotImplemented
        tensors = (weight, bias, running_mean, running_var)
        return norm_rows(GivenNorm(*tensors, momentum, eps, count), x)

    def added_to(self, block: NormReluDropout, x: Tensor, out: Tensor) -> Tensor:
        norm, _, dropout = block
        assert isinstance(norm, BatchNorm)
        assert isinstance(dropout, nn.Dropout)
        if any(map(has_hooks, block.modules())):
            return NotImplemented
        if x.dtype != out.dtype or not self._serves_full(out):
            return NotImplemented
        if not can_fuse_norm(norm, out):
            return NotImplemented
        return norm_relu_add(norm, Rows(out), x, dropout.p if dropout.training else 0.0)

    # GNN-AK layers and networks.

    def encode(
        self,
        layer: GNNAK,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | Inputs | None,
        context_reduce: Reduce,
    ) -> dict[Encoding, Tensor]:
        if not self._serves(x):
            return NotImplemented
        if not isinstance(edge_attr, Inputs) and self._serves_full(x):
            states = None if edge_attr is None else EdgeStates(edge_attr)
            if can_fuse(layer, x, subgraphs, states):
                return fused_encodings(layer, x, subgraphs, states, context_reduce)
        if not can_fuse_pools(layer, subgraphs):
            return NotImplemented
        with shared_gates():
            emb = layer.embed(x, subgraphs, edge_attr)
            return pooled_encodings(layer, emb, subgraphs, context_reduce)

    def embed(
        self,
        layer: GNNAK,
        x: Tensor,
        subgraphs: RootedSubgraphs,
        edge_attr: Tensor | Inputs | None,
    ) -> Tensor:
        if not self._serves(x) or isinstance(edge_attr, Inputs):
            return NotImplemented
        if can_share_pairs(layer):
            return embedding_on_pairs(layer, x, subgraphs, edge_attr)
        if not can_fuse_conv(layer, x, subgraphs, edge_attr):
            return NotImplemented
        return fused_embedding(layer, x, subgraphs, edge_attr)

    def run_uplifted(
        self,
        layer: GNNAK,
        encoder: nn.Module,
        values: Tensor | None,
        num_edges: int,
        x: Tensor,
        subgraphs: RootedSubgraphs,
    ) -> Tensor:
        """Run a GNN-AK layer on a graph with one real number as feature of each edge.

        The kernels compute the edge states from these numbers when they read them, so
        no tensor of edge states is stored.
        """
        if type(layer) is not GNNAK or not self._serves_full(x):
            return NotImplemented
        sliced = layer.max_copies is not None and can_slice(layer, subgraphs)
        if has_hooks(layer) or sliced or type(encoder) is not ContinuousEncoder:
            return NotImplemented
        if not reads_affine(layer, x, subgraphs, encoder):
            return NotImplemented
        states = affine_states(encoder, values, num_edges)
        if states is None:
            return NotImplemented
        layer.check(x, subgraphs, states.number)
        with on_copies(subgraphs):
            encodings = fused_encodings(layer, x, subgraphs, states, layer.reduce)
        return layer.fuse_encodings(encodings, subgraphs, x.size(0))

    def run_with_edges(
        self,
        encoder: nn.Module,
        values: Tensor | None,
        num_edges: int,
        run: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Encode raw edge features as edge states, and run a GNN with these.

        The edge states are not saved for backward but recomputed in the backward pass.
        """
        if type(encoder) is not ContinuousEncoder:
            return NotImplemented
        if has_hooks(encoder):
            return NotImplemented
        checked = encoder.checked(values, num_edges)
        (block,) = blocks_of(nn.Sequential(encoder.block))
        if not self._serves_full(checked) or not can_recompute(block, checked):
            return NotImplemented
        with recomputed_encoding(block, checked) as states:
            return run(states)

    def run_layers(self, network: Network, *given: Any) -> Tensor:
        """Run all layers of a network.

        Matrix products that depend only on weights are computed for all layers in one
        batch.
        """
        if network.recompute and network.training:
            return NotImplemented
        with call_of(network):
            return unwrap(Network.run_layers)(network, *given)


def _pooled(z: Tensor, index: Tensor, groups: Groups, reduce: Reduce) -> Tensor:
    """Sum or average the rows of `z` in each group.

    Args:
        z: The rows, [m, c].
        index: The group of each row, [m].
        groups: The same groups in CSR form.
        reduce: "sum" or "mean".
    """
    pooled = sum_rows(z, index, groups)
    if reduce == "mean":
        pooled = pooled / groups.ptr.diff().clamp(min=1)[:, None]
    return pooled
