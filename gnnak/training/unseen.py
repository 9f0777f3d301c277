"""Give embeddings to the categories that no training graph has.

New graphs may have categories, such as atoms of an element, that do not occur in the
training graphs. Their embeddings are random numbers from the start of the training.
"""

import torch
from torch import Tensor, nn

from gnnak.graphs import GraphStore
from gnnak.models.network import Network
from gnnak.nn.features import CategoricalEncoder


@torch.no_grad()
def fill_unseen(network: Network, store: GraphStore, train: Tensor) -> None:
    """Set the embeddings of unseen categories to the mean embedding of their column.

    The mean is weighted by the number of nodes, or edges, of each category in the
    training graphs. Columns without any training row stay unchanged. Changes the
    weights of the network in place.

    Args:
        network: The trained network.
        store: All graphs of the data set.
        train: Indices of the training graphs.
    """
    graphs = store.subset(train.to(store.device))
    for encoder, values in _encoders(network, graphs):
        if not isinstance(encoder, CategoricalEncoder) or values is None:
            continue
        table = encoder.tables.weight
        sizes, first = encoder.limit.tolist(), encoder.first.tolist()
        values = values.reshape(values.size(0), -1)
        for column, (start, size) in enumerate(zip(first, sizes, strict=True)):
            rows = table[start : start + size]
            counts = torch.bincount(values[:, column], minlength=size).to(rows)
            if counts.sum() > 0:
                mean = (counts / counts.sum()) @ rows
                rows[counts == 0] = mean


def _encoders(
    network: Network, graphs: GraphStore
) -> list[tuple[nn.Module, Tensor | None]]:
    """Return all encoders of a network, each with the features that it encodes."""
    encoders: list[tuple[nn.Module, Tensor | None]] = [(network.encoder, graphs.x)]
    for layer in network.layers:
        encoders += [
            (module, graphs.edge_attr)
            for module in layer.modules()
            if isinstance(module, CategoricalEncoder)
        ]
    return encoders
