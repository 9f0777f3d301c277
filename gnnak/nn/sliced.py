"""The encodings of a layer, a few rooted subgraphs at a time."""

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


def can_slice(layer: nn.Module, subgraphs: RootedSubgraphs) -> bool:
    """Whether slices give what all subgraphs at once give.

    They do not in training, nor where a norm takes the statistics of a batch, nor for
    a choice of subgraphs, whose context is scaled as a whole.
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
    """What encoding all subgraphs at once gives, with the memory of one slice.

    Centroid and subgraph encodings belong to one subgraph each. The context encoding
    pools over all of them: sums of slices are added up, and a mean is taken at the end.

    Args:
        encode: From some subgraphs to their encodings, the context summed.
        subgraphs: A rooted subgraph for every node.
        num_nodes: Number of nodes, n.
        max_copies: About how many copies a slice has.
        reduce: POOL of the context encoding.
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
        held = counts_of(subgraphs.node, num_nodes).clamp(min=1)
        encodings["context"] = encodings["context"] / held[:, None]
    return encodings or encode(subgraphs)
