"""Compute the encodings of a GNN-AK layer for a few rooted subgraphs at a time.

This saves memory: a layer computes one state per node copy (a node as seen in one
rooted subgraph), and only the node copies of one slice of the subgraphs are in memory.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gnnak.graphs.ragged import counts_of
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.slices import slices
from gnnak.typing import Encoding, Reduce

Encodings = dict[Encoding, Tensor]
"""Encodings by name, in the order in which they are fused."""


def can_slice(layer: nn.Module, subgraphs: RootedSubgraphs) -> bool:
    """Return whether slicing the subgraphs leaves the output of `layer` unchanged.

    Slicing changes the output if the layer or one of its BatchNorms is in training
    mode, because BatchNorms then use the statistics of the whole batch. It also changes
    the output for subgraphs sampled by SubgraphDrop, because their context encoding is
    scaled by counts over all sampled subgraphs.
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
    encoding of a node pools over subgraphs in several slices, so the sums of the slices
    are added; a mean is this sum divided by the number of subgraphs that contain the
    node.

    Args:
        encode: Computes the encodings of a slice. It must sum, not average, the context
            encoding.
        subgraphs: A rooted subgraph for every node.
        num_nodes: Number of nodes, n.
        max_copies: Approximate number of node copies in a slice.
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
