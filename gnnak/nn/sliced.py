"""The encodings of a layer, a few rooted subgraphs at a time."""

from collections.abc import Callable

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.slices import slices
from gnnak.typing import Encoding, Reduce

Encodings = dict[Encoding, Tensor]


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
        encode: From some subgraphs to their encodings, the context summed. To be used
            in evaluation: norms that take statistics of a batch would take a slice's.
        subgraphs: A rooted subgraph for every node.
        num_nodes: Number of nodes, n.
        max_copies: About how many copies a slice has.
        reduce: POOL of the context encoding.
    """
    parts = [encode(part) for part in slices(subgraphs, max_copies)]
    if not parts:
        return encode(subgraphs)
    encodings: Encodings = {}
    for name in parts[0]:
        values = [part[name] for part in parts]
        if name != "context":
            encodings[name] = torch.cat(values)
            continue
        total = torch.stack(values).sum(dim=0)
        if reduce == "mean":
            total = total / counts_of(subgraphs.node, num_nodes).clamp(min=1)[:, None]
        encodings[name] = total
    return encodings
