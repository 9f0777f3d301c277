"""Tables of all distances to the root: the PyTorch reference of the Triton kernels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gnnak.fast.kernels.records import HopLinears


def hop_tables(d: Tensor, linears: HopLinears) -> list[Tensor]:
    """Apply several Linears to the embeddings of all distances to the root.

    The results are tables with one row per distance: gates, which are sigmoids of the
    Linear, and at most one table that is added to node states.

    Args:
        d: The embeddings of t distances, [t, h].
        linears: The Linears. All gates have the same width.

    Returns:
        The table of each Linear, [t, c].
    """
    weights, biases = linears
    added = len(weights) - len(biases)
    tables = [d @ weight.mT for weight in weights[:added]]
    gates = zip(weights[added:], biases, strict=True)
    return tables + [torch.sigmoid(d @ weight.mT + bias) for weight, bias in gates]


def hop_tables_backward(
    d: Tensor, linears: HopLinears, tables: Sequence[Tensor], grads: Sequence[Tensor]
) -> tuple[Tensor, HopLinears]:
    """Compute the gradients of `hop_tables`.

    Args:
        d: The embeddings of t distances, [t, h].
        linears: The Linears.
        tables: The result of `hop_tables`.
        grads: The gradient of each table, [t, c].

    Returns:
        The gradients of `d`, and of the weights and biases of the Linears.
    """
    weights, biases = linears
    added = len(weights) - len(biases)
    gates = zip(grads[added:], tables[added:], strict=True)
    backs = [*grads[:added], *(grad * value * (1 - value) for grad, value in gates)]
    terms = [back @ weight for back, weight in zip(backs, weights, strict=True)]
    of_weights = [back.mT @ d for back in backs]
    of_biases = [back.sum(dim=0) for back in backs[added:]]
    return torch.stack(terms).sum(dim=0), HopLinears(of_weights, of_biases)
