"""The encodings of a layer, a few rooted subgraphs at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnak.graphs.ragged import counts_of
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.subgraphs.slices import slices
from gnnak.typing import Encoding

if TYPE_CHECKING:
    from gnnak.nn.uplift import GNNAK


def sliced_encodings(
    layer: GNNAK, x: Tensor, subgraphs: RootedSubgraphs, edge_attr: Tensor | None
) -> dict[Encoding, Tensor]:
    """What `layer.encodings_of` gives, with the memory of one slice.

    Centroid and subgraph encodings belong to one subgraph each. The context encoding
    pools over all of them: sums of slices are added up, and a mean is taken at the end.

    Args:
        layer: A layer in evaluation mode: norms that take the statistics of a batch
            would take those of a slice.
        x: Node states, [n, c].
        subgraphs: A rooted subgraph for every node.
        edge_attr: Edge states or weights.
    """
    assert layer.max_copies is not None
    parts = [
        layer.encodings_of(x, part, edge_attr, "sum")
        for part in slices(subgraphs, layer.max_copies)
    ]
    if not parts:
        return layer.encodings_of(x, subgraphs, edge_attr, layer.reduce)
    encodings: dict[Encoding, Tensor] = {}
    for name in layer.encodings:
        values = [part[name] for part in parts]
        if name != "context":
            encodings[name] = torch.cat(values)
            continue
        total = torch.stack(values).sum(dim=0)
        if layer.reduce == "mean":
            total = total / counts_of(subgraphs.node, x.size(0)).clamp(min=1)[:, None]
        encodings[name] = total
    return encodings
