"""Compute the encodings of a GNN-AK layer for a few rooted subgraphs at a time.

This saves memory: a layer computes one state for each node of each subgraph, and only
the states of one slice of the subgraphs are in memory at a time.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gnnak.graphs.ragged import chunk_cuts, counts_of
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce, check_count


def slices(subgraphs: RootedSubgraphs, max_copies: int) -> Iterator[RootedSubgraphs]:
    """Split subgraphs into consecutive slices of about `max_copies` node copies each.

    A node copy is a node as it occurs in one rooted subgraph. Subgraphs are never
    split: a subgraph with more than `max_copies` nodes is a slice by itself. Each slice
    numbers node copies and subgraphs from 0, while `node` and `edge` still refer to the
    whole graph. Tensors of a slice that need no renumbering are views.

    Args:
        subgraphs: The rooted subgraphs to split.
        max_copies: Approximate number of node copies in a slice; at least 1.

    Yields:
        The slices, in order.

    >>> from gnnak import EgoNets
    >>> ring = torch.stack([torch.arange(6), torch.arange(1, 7) % 6])
    >>> [part.root.tolist() for part in slices(EgoNets(2)(ring, 6), 7)]
    [[0, 1], [2, 3], [4, 5]]
    """
    check_count("max_copies", max_copies, least=1)
    sizes = subgraphs.sizes
    alone = (sizes > max_copies).nonzero().flatten()
    inner = {*chunk_cuts(sizes, max_copies), *alone.tolist(), *(alone + 1).tolist()}
    cuts = sorted({0, sizes.numel()} | inner)
    ends = sizes.cumsum(0)
    target = subgraphs.edge_index[1].contiguous()
    for first, last in pairwise(cuts):
        if first == last:
            continue
        low = int(ends[first - 1]) if first else 0
        high = int(ends[last - 1])
        bounds = torch.tensor([low, high], device=target.device)
        begin, end = torch.searchsorted(target, bounds).tolist()
        yield _cut(subgraphs, slice(first, last), slice(low, high), slice(begin, end))


def _cut(
    subgraphs: RootedSubgraphs, roots: slice, copies: slice, edges: slice
) -> RootedSubgraphs:
    """Return consecutive subgraphs as one slice, renumbered from 0.

    `roots`, `copies` and `edges` are the ranges of these subgraphs and of their nodes
    and edges.
    """

    def from_zero(values: Tensor, start: int) -> Tensor:
        return values - start if start else values

    return RootedSubgraphs(
        subgraphs.root[roots],
        subgraphs.node[copies],
        from_zero(subgraphs.subgraph[copies], roots.start),
        subgraphs.hop[copies],
        from_zero(subgraphs.edge_index[:, edges], copies.start),
        subgraphs.edge[edges],
        subgraphs.num_nodes,
        subgraphs.num_edges,
    )


Encodings = dict[Encoding, Tensor]
"""The encodings (centroid, subgraph, context, or some of these) by name."""


def can_slice(layer: nn.Module, subgraphs: RootedSubgraphs) -> bool:
    """Return whether encoding the subgraphs in slices gives the same output of `layer`.

    Slicing changes the output if the layer or one of its BatchNorms is in training
    mode, because BatchNorms then use the statistics of the whole batch. Slicing also
    changes the output for subgraphs sampled by SubgraphDrop, because the scale of their
    context encoding depends on all sampled subgraphs.
    """
    norms = (m for m in layer.modules() if isinstance(m, _BatchNorm))
    fixed = not layer.training and not any(norm.training for norm in norms)
    return fixed and not isinstance(subgraphs, SampledSubgraphs)


def sliced_encodings(
    encode: Callable[[RootedSubgraphs], Encodings],
    subgraphs: RootedSubgraphs,
    num_nodes: int,
    max_copies: int,
    reduce: Reduce,
) -> Encodings:
    """Encode slices of the subgraphs one after the other, to save memory.

    The centroid and the subgraph encodings of the slices are concatenated. The context
    encodings of the slices are added, because the subgraphs of a node can be in several
    slices; for a mean, the total is divided by the number of subgraphs of the node.

    Args:
        encode: Function that returns the encodings of a slice. The context encoding
            must be a sum, not a mean.
        subgraphs: A rooted subgraph for every node.
        num_nodes: Number of nodes, n.
        max_copies: Approximate number of nodes in a slice, summed over its subgraphs.
        reduce: How the context encoding is pooled over all subgraphs.

    Returns:
        The same encodings as for all subgraphs at once, by name.
    """
    found: dict[Encoding, list[Tensor]] = {}
    for part in slices(subgraphs, max_copies):
        for name, values in encode(part).items():
            if name == "context" and name in found:
                found[name] = [found[name][0] + values]
            else:
                found.setdefault(name, []).append(values)
    encodings = {name: torch.cat(values) for name, values in found.items()}
    if "context" in encodings and reduce == "mean":
        count = counts_of(subgraphs.node, num_nodes).clamp(min=1)
        encodings["context"] = encodings["context"] / count[:, None]
    return encodings or encode(subgraphs)
