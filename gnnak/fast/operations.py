"""Fast implementations of functions and methods with the decorator `operation`.

Each method replaces a plain PyTorch function of the same name.
"""

from collections.abc import Callable, Sequence
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn

from gnnak.fast.cpu.layer import can_run_on_cpu, cpu_encodings
from gnnak.fast.kernels.records import EdgeStates
from gnnak.fast.layers.convs import (
    across_groups,
    can_fuse_messages,
    fused_messages,
)
from gnnak.fast.layers.encoder import affine_states, can_recompute, recomputed_encoding
from gnnak.fast.layers.gather import (
    SMALL_TABLE,
    embedded_rows,
    fused_fill,
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
from gnnak.fast.layers.layer import can_fuse, fused_encodings, reads_affine
from gnnak.fast.layers.lift import edges_of
from gnnak.fast.layers.lifted_gine import shared_gates
from gnnak.fast.layers.norm import GivenNorm, norm_relu_add, norm_rows
from gnnak.fast.layers.parts import blocks_of, can_fuse_norm, has_hooks
from gnnak.fast.layers.ppgn import (
    can_fuse_block,
    can_share_pairs,
    embedding_on_pairs,
    fused_block,
    fused_pool,
    fused_pool_block,
)
from gnnak.fast.layers.rows import Rows
from gnnak.fast.layers.weights import call_of
from gnnak.fast.sampling import can_sample
from gnnak.fast.step.captured import CapturedStep, Step, find_synchronising
from gnnak.fast.step.model import CapturedModel
from gnnak.fast.step.recorder import GraphRecorder
from gnnak.fast.step.update import CapturedUpdate, step_on_streams
from gnnak.loading.items import Item
from gnnak.loading.padding import Span
from gnnak.models.network import Network
from gnnak.nn.base.ppgn import NodePairs, PPGNBlock
from gnnak.nn.calling import Inputs
from gnnak.nn.copies import Messages
from gnnak.nn.features import ContinuousEncoder
from gnnak.nn.norm import BatchNorm, NormReluDropout
from gnnak.nn.padding import on_copies
from gnnak.nn.sliced import can_slice
from gnnak.nn.uplift import GNNAK
from gnnak.optional import has_triton, interprets_triton
from gnnak.sampling.estimate import Filling, SampledSubgraphs
from gnnak.sampling.greedy import Ties
from gnnak.sampling.plan import Plan
from gnnak.sampling.random_roots import random_order
from gnnak.subgraphs.across import AcrossEdges
from gnnak.subgraphs.groups import Groups
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


class BatchOperations:
    """Fast sampling of rooted subgraphs and fast padding of batches."""

    # Sampling of rooted subgraphs.

    def farthest_roots(
        self,
        subgraphs: RootedSubgraphs,
        plan: Plan,
        min_coverage: int,
        generator: torch.Generator | None = None,
        ties: Ties = "random",
    ) -> Tensor:
        return _greedy(subgraphs, plan, min_coverage, generator, True, ties)

    def set_cover_roots(
        self,
        subgraphs: RootedSubgraphs,
        plan: Plan,
        min_coverage: int,
        generator: torch.Generator | None = None,
        ties: Ties = "random",
    ) -> Tensor:
        return _greedy(subgraphs, plan, min_coverage, generator, False, ties)

    def filling_of(
        self,
        subgraphs: RootedSubgraphs,
        edge_index: Tensor,
        sampled: Tensor,
        number: Tensor,
        root: Tensor,
        plan: Plan | None,
    ) -> Filling:
        if plan is None or not can_sample(plan):
            return NotImplemented
        from gnnak.fast.sampling.fill import fast_filling

        return fast_filling(subgraphs, plan, sampled, number)

    # Padding of batches.

    def pad_rows(
        self, value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
    ) -> Tensor:
        if not _can_pad(value):
            return NotImplemented
        from gnnak.fast import padding as kernels

        return kernels.pad_rows(value, first, count, size, padding)

    def pad_numbers(
        self, values: list[Tensor], rows: Span, named: Span, to_last: bool
    ) -> Tensor:
        if not _can_pad(values[0]):
            return NotImplemented
        from gnnak.fast import padding as kernels

        return kernels.pad_numbers(values, rows, named, to_last)

    def pad_pointers(
        self,
        value: Tensor,
        first: Tensor,
        end: Tensor,
        size: int,
        rows_first: Tensor,
    ) -> Tensor:
        if not _can_pad(value):
            return NotImplemented
        from gnnak.fast import padding as kernels

        return kernels.pad_pointers(value, first, end, size, rows_first)


def _greedy(
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None,
    farthest: bool,
    ties: Ties,
) -> Tensor:
    """Sample the rooted subgraphs that SubgraphDrop uses; all others are dropped.

    Args:
        subgraphs: All s rooted subgraphs of a batch.
        plan: What SubgraphDrop precomputes for the batch.
        min_coverage: Each node must be in at least this many sampled subgraphs.
        generator: Source of randomness; PyTorch's default generator if None.
        farthest: Whether to use farthest-point sampling; if False, greedy set cover.
        ties: Which of several subgraphs with equal scores is sampled.

    Returns:
        A boolean mask of the sampled subgraphs, [s]; `NotImplemented` if the Triton
        kernels do not support the batch.
    """
    if not can_sample(plan):
        return NotImplemented
    from gnnak.fast.sampling.greedy import sample_greedily

    rank = random_order(subgraphs, generator)
    return sample_greedily(subgraphs, plan, min_coverage, rank, farthest, ties)


def _can_pad(value: Tensor) -> bool:
    """Return whether the Triton kernels for padding can run on a tensor."""
    return has_triton() and (value.is_cuda or interprets_triton())


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


class StepOperations:
    """Training steps captured as CUDA graphs; optimiser steps on several streams."""

    # Training steps captured as CUDA graphs.

    def can_capture(
        self, network: nn.Module, device: torch.device, precision: str
    ) -> bool:
        if device.type != "cuda" or precision == "16":
            return False
        return find_synchronising(network, precision) is None

    def make_captured(
        self, step: Step, device: torch.device, release: Callable[[], object]
    ) -> Step:
        if device.type != "cuda":
            return NotImplemented
        return CapturedStep(step, GraphRecorder(device), release)

    def make_captured_model(
        self,
        forward: Callable[[Item], Any],
        weights: Sequence[nn.Parameter],
        device: torch.device,
        update: Callable[[], object],
        optimizer: torch.optim.Optimizer,
    ) -> Callable[[Item], Any]:
        if device.type != "cuda":
            return NotImplemented
        recorder = GraphRecorder(device)
        captured = CapturedUpdate(update, optimizer, recorder, recorder.device)
        return CapturedModel(forward, recorder, weights, captured)

    def take_step(self, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
            return NotImplemented
        return step_on_streams(optimizer, device)
