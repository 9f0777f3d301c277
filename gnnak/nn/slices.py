"""Encode rooted subgraphs in several slices, to bound the memory that a layer needs.

In training, the backward pass recomputes the activations of each slice. Gradients do
not change: BatchNorms take their statistics over the rows of all slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

from gnnak.backend import Backend, use_backend
from gnnak.distributed import several_processes
from gnnak.errors import OptionError, SubgraphError
from gnnak.graphs.ragged import chunk_cuts, counts_of
from gnnak.nn.encodings import scaled_to_all
from gnnak.nn.recompute import frozen_running_statistics, recomputed
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.streamed import LazySlices, StreamedSubgraphs
from gnnak.typing import Encoding, Reduce, check_count

Encodings = dict[Encoding, Tensor]
POOLED = ("sum", "mean")
"""Pools that can be computed slice by slice."""


class Slices(LazySlices):
    """Rooted subgraphs, cut into slices of about `max_copies` node copies each.

    In a slice, indices of node copies and subgraphs start at 0. Nodes and edges have
    the same indices as in the whole graph.
    """

    def __init__(self, subgraphs: RootedSubgraphs, max_copies: int) -> None:
        check_count("max_copies", max_copies, least=1)
        sizes = subgraphs.sizes
        alone = (sizes > max_copies).nonzero().flatten()
        inner = {*chunk_cuts(sizes, max_copies), *alone.tolist(), *(alone + 1).tolist()}
        self.subgraphs = subgraphs
        self.cuts = sorted({0, sizes.numel()} | inner)
        ends = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])[self.cuts]
        target = subgraphs.edge_index[1].contiguous()
        self.copies = ends.tolist()
        self.edges = torch.searchsorted(target, ends).tolist()

    def __getitem__(self, index: int) -> RootedSubgraphs:
        roots, copies, edges = (
            slice(*cuts[index : index + 2])
            for cuts in (self.cuts, self.copies, self.edges)
        )
        whole = self.subgraphs
        known = whole.derived.encodings.items()
        encodings = {
            key: found._replace(rows=found.rows[copies])
            for key, found in known
            if found.axis == "copies"
        }
        return RootedSubgraphs(
            whole.root[roots],
            whole.node[copies],
            whole.subgraph[copies] - roots.start,
            whole.hop[copies],
            whole.edge_index[:, edges] - copies.start,
            whole.edge[edges],
            whole.num_nodes,
            whole.num_edges,
        ).assume(encodings=encodings)


def norms_in_training(layer: nn.Module) -> list[_BatchNorm]:
    return [m for m in layer.modules() if isinstance(m, _BatchNorm) and m.training]


def can_slice(layer: nn.Module, subgraphs: RootedSubgraphs) -> bool:
    """Return whether a layer may encode its subgraphs slice by slice.

    If not, `SubgraphError` is raised for streamed subgraphs, which need slices.
    """
    one_process = not several_processes() or not norms_in_training(layer)
    is_known = layer.reduce in POOLED
    if isinstance(subgraphs, StreamedSubgraphs) and not (one_process and is_known):
        reason = (
            "several processes cannot encode them in slices while BatchNorms are in "
            "training; train in one process."
            if is_known
            else f"a layer with reduce={layer.reduce!r} cannot encode them in slices; "
            f"use one of: {', '.join(POOLED)}."
        )
        raise SubgraphError(f"the subgraphs do not fit into memory, and {reason}")
    return one_process and is_known and subgraphs.real is None


def sliced_encodings(
    encode: Callable[[RootedSubgraphs], Encodings],
    layer: nn.Module,
    subgraphs: RootedSubgraphs,
    num_nodes: int,
    max_copies: int,
    reduce: Reduce,
) -> Encodings:
    """Encode one slice of the rooted subgraphs after the other, to save memory.

    `encode` pools context encodings by "sum". The sums of all slices are added; with
    `reduce="mean"`, they are divided by the number of subgraphs that contain the node.
    In training, all slices are encoded several times. Pass i computes the statistics of
    the i-th BatchNorm call over the rows of all slices. The last pass gives encodings.
    """
    parts: LazySlices
    if isinstance(subgraphs, StreamedSubgraphs):
        parts = subgraphs.parts
    else:
        parts = Slices(subgraphs, max_copies)
    if not len(parts):
        return encode(subgraphs)
    norms = norms_in_training(layer)
    seed = int(torch.randint(2**62, (), device="cpu")) if layer.training else None

    def run(index: int, known: tuple[Statistics, ...]) -> Encodings | Statistics:
        with seeded(seed, index, subgraphs.device), BatchStatistics(known):
            try:
                return encode(parts[index])
            except UnknownStatisticsError as unknown:
                return unknown.args[0]

    def run_all(known: list[Statistics]) -> Iterator[Any]:
        for index in range(len(parts)):
            yield recomputed(layer, index, tuple(known), function=run)

    known: list[Statistics] = []
    backend = use_backend(SLICED) if norms else nullcontext()
    with backend, frozen_running_statistics(layer):
        found = _combined(run_all(known))
        while isinstance(found, Statistics):
            known.append(found)
            found = _combined(run_all(known))
    for statistics in known:
        statistics.update_running(norms)
    if "context" in found and reduce == "mean":
        if isinstance(subgraphs, StreamedSubgraphs):
            count = subgraphs.num_containing
        else:
            count = counts_of(subgraphs.node, num_nodes)
        found["context"] = found["context"] / count.clamp(min=1)[:, None]
    elif "context" in found:
        found["context"] = scaled_to_all(found["context"], subgraphs)
    return found


def _combined(results: Iterator[Encodings | Statistics]) -> Encodings | Statistics:
    """Combine results of all slices: encodings, or statistics of one BatchNorm call."""
    found: dict[Encoding, list[Tensor]] = {}
    inputs: list[Statistics] = []
    for result in results:
        if isinstance(result, Statistics):
            inputs.append(result)
            result = {}
        for name, values in result.items():
            if name == "context" and name in found:
                found[name] = [found[name][0] + values]
            else:
                found.setdefault(name, []).append(values)
    if inputs and (found or len({id(each.running_mean) for each in inputs}) > 1):
        raise OptionError(
            "the base GNN does not call the same BatchNorms on all subgraphs, so that "
            "their statistics cannot be computed in slices; set max_copies to None."
        )
    if inputs:
        return Statistics.of(inputs)
    return {name: torch.cat(values) for name, values in found.items()}


@contextmanager
def seeded(seed: int | None, index: int, device: torch.device) -> Iterator[None]:
    """Context manager: seed random numbers by `seed + index`; None means no seed."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed + index)
        yield


class Statistics(NamedTuple):
    """Mean and squared deviations of a BatchNorm's input, in one slice or in all."""

    running_mean: Tensor | None
    """The running mean of the BatchNorm, which identifies the BatchNorm."""
    rows: int
    mean: Tensor
    m2: Tensor
    """For each column, the sum of squared deviations from `mean`."""

    @staticmethod
    def of(parts: Sequence[Statistics]) -> Statistics:
        """Merge the statistics of all slices."""
        zero = torch.zeros_like(parts[0].mean)
        rows = sum(part.rows for part in parts)
        mean = sum((part.mean * (part.rows / max(rows, 1)) for part in parts), zero)
        m2 = (p.m2 + p.rows * (p.mean - mean).square() for p in parts)
        return Statistics(parts[0].running_mean, rows, mean, sum(m2, zero))

    def update_running(self, norms: Sequence[_BatchNorm]) -> None:
        """Update running statistics as one call of the BatchNorm on all rows would."""
        for norm in norms:
            mean, variance = norm.running_mean, norm.running_var
            if mean is None or variance is None or mean is not self.running_mean:
                continue
            assert norm.num_batches_tracked is not None
            norm.num_batches_tracked.add_(1)
            weight = norm.momentum
            if weight is None:
                weight = 1 / float(norm.num_batches_tracked)
            unbiased = self.m2 / max(self.rows, 1) * (self.rows / max(self.rows - 1, 1))
            with torch.no_grad():
                mean.lerp_(self.mean.flatten(), weight)
                variance.lerp_(unbiased.flatten(), weight)


class UnknownStatisticsError(Exception):
    """A BatchNorm call needs the `Statistics` of all slices, but has those of one."""


class BatchStatistics(TorchFunctionMode):
    """Context manager: the i-th BatchNorm call uses the i-th given `Statistics`."""

    def __init__(self, known: Sequence[Statistics]) -> None:
        super().__init__()
        self.unused = iter(known)

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is not F.batch_norm:
            return func(*args, **kwargs)
        return self.batch_norm(*args, **kwargs)

    def batch_norm(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        if not training:
            given = running_mean, running_var, weight, bias
            return F.batch_norm(x, *given, False, momentum, eps)
        wide = x.float() if x.dtype.itemsize < 4 else x
        known = next(self.unused, None)
        if known is None:
            inner = [axis for axis in range(x.dim()) if axis != 1]
            rows = x.numel() // x.size(1)
            mean = wide.sum(inner, keepdim=True) / max(rows, 1)
            m2 = (wide - mean).square().sum(inner, keepdim=True)
            raise UnknownStatisticsError(Statistics(running_mean, rows, mean, m2))
        scaled = (wide - known.mean) * (known.m2 / max(known.rows, 1) + eps).rsqrt()
        if weight is not None:
            scaled = scaled * weight.view_as(known.mean)
        if bias is not None:
            scaled = scaled + bias.view_as(known.mean)
        return scaled.to(x.dtype)


SLICED = Backend("slices", {"over_rows": nn.BatchNorm1d.forward})
"""A backend in which `BatchNorm` always calls `torch.nn.functional.batch_norm`, which
`BatchStatistics` intercepts."""
