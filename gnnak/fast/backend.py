"""Build the backend for GPUs and the backend for CPUs."""

from functools import partial

import torch
from torch import Tensor

from gnnak.backend import Backend
from gnnak.fast.cpu import cpu_encodings
from gnnak.fast.kernels import has_fast_kernels
from gnnak.fast.layers import convs, gather, general, layer, norm, ppgn, weights
from gnnak.fast.layers.parts import Serves, implementations_in
from gnnak.fast.step import captured, update
from gnnak.graphs.adjacency import Neighbors
from gnnak.optional import has_triton, interprets_triton
from gnnak.sampling.estimate import Filling
from gnnak.sampling.greedy import Ties
from gnnak.sampling.plan import Plan
from gnnak.sampling.random_roots import random_order
from gnnak.subgraphs.copy_limit import CopyLimit
from gnnak.subgraphs.rooted import RootedSubgraphs

FAST_NODES = 256
"""Largest connected component, in nodes, that the sampling kernels support."""


def default_backend() -> Backend:
    """Return the backend for GPUs if there is a GPU, else the backend for CPUs."""
    if torch.cuda.is_available() or (has_triton() and interprets_triton()):
        return make_backend()
    return cpu_backend()


def cpu_backend(min_copies: int = 5000) -> Backend:
    """Build the CPU backend; it fuses layers with at least `min_copies` node copies."""
    found = implementations_in(_is_full_on_cpu, ppgn)
    return Backend("cpu", found | {"encode": partial(cpu_encodings, min_copies)})


def _is_full_on_cpu(x: Tensor) -> bool:
    kind = x.device.type
    full = x.dtype in (torch.float, torch.double)
    return kind == "cpu" and full and not torch.is_autocast_enabled(kind)


def make_backend(serves: Serves = has_fast_kernels) -> Backend:
    """Build the backend for GPUs.

    Its fused layers run only on tensors for which `serves` returns True.
    """
    of_layers = (convs, gather, general, layer, norm, ppgn, weights)
    found = implementations_in(serves, *of_layers, captured, update)
    found["farthest_roots"] = partial(_sample_roots, True)
    found["set_cover_roots"] = partial(_sample_roots, False)
    found |= {"reach": _reach, "induced_edges": _induced_edges}
    return Backend("fast", found | {"filling_of": _filling_of, "pad_rows": _pad_rows})


def _runs_kernels(tensor: Tensor) -> bool:
    return has_triton() and (tensor.is_cuda or interprets_triton())


def _reach(
    root: Tensor,
    neighbors: Neighbors,
    num_hops: int,
    limit: CopyLimit | None = None,
    all_roots: bool = False,
) -> tuple[Tensor, Tensor]:
    if not all_roots or not _runs_kernels(root):
        return NotImplemented
    from gnnak.fast.extraction import fast_reach

    return fast_reach(neighbors, num_hops, limit or CopyLimit(None, root.device))


def _induced_edges(
    node: Tensor,
    subgraph: Tensor,
    num_subgraphs: int,
    neighbors: Neighbors,
    limit: CopyLimit | None = None,
) -> tuple[Tensor, Tensor]:
    if not _runs_kernels(node):
        return NotImplemented
    from gnnak.fast.extraction import fast_induced_edges

    limit = limit or CopyLimit(None, node.device)
    return fast_induced_edges(node, subgraph, num_subgraphs, neighbors, limit)


def _pad_rows(
    value: Tensor, first: Tensor, count: Tensor, size: int, padding: int
) -> Tensor:
    if not _runs_kernels(value):
        return NotImplemented
    from gnnak.fast import padding as kernels

    return kernels.pad_rows(value, first, count, size, padding)


def can_sample(plan: Plan) -> bool:
    if torch.compiler.is_compiling() or plan.largest > FAST_NODES:
        return False
    return _runs_kernels(plan.held)


def _sample_roots(
    farthest: bool,
    subgraphs: RootedSubgraphs,
    plan: Plan,
    min_coverage: int,
    generator: torch.Generator | None = None,
    ties: Ties = "random",
) -> Tensor:
    """Sample roots, farthest first or by greedy set cover; return a mask, [s]."""
    if not can_sample(plan):
        return NotImplemented
    from gnnak.fast.sampling import sample_greedily

    rank = random_order(subgraphs, generator)
    return sample_greedily(subgraphs, plan, min_coverage, rank, farthest, ties)


def _filling_of(
    subgraphs: RootedSubgraphs,
    edge_index: Tensor,
    sampled: Tensor,
    number: Tensor,
    root: Tensor,
    plan: Plan | None,
) -> Filling:
    if plan is None or not can_sample(plan):
        return NotImplemented
    from gnnak.fast.sampling import fast_filling

    return fast_filling(subgraphs, plan, sampled, number)
