"""Weight-only terms of GNN-AK layers, computed for all layers of a network at once.

A weight-only term depends on the weights of a layer but not on its inputs. Each layer
needs a few tiny matrix products of this kind, whose kernels take longer to launch than
to run. Batched over all layers, the products need about a tenth of the launches.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from gnnak.fast.kernels.records import BIAS_COLUMN
from gnnak.fast.layers.encoder import has_foreign_hooks
from gnnak.fast.layers.parts import blocks_of
from gnnak.nn.gates import HopGate
from gnnak.nn.uplift import GNNAK


class WeightProducts(NamedTuple):
    """Tensors of one GNN-AK layer that depend on its weights but not on its inputs.

    After the base GNN comes `project`, a Linear (weight P, bias b) or the identity.
    Then comes a transform for every pooled encoding: an MLP whose first Linear has no
    bias. Let W be the weights of these first Linears, stacked, and s the states that
    the base GNN returns. One matrix product then replaces `project` and all the first
    Linears: W (P s + b) = (W P) s + W b.
    """

    matrix: Tensor
    """[c', w]: W P, or W if `project` is the identity."""
    offset: Tensor | None
    """[c']: W b; None if `project` is the identity."""
    gates: dict[str, Tensor]
    """For each encoding that is multiplied by a gate (a sigmoid of the distance to the
    root), [t, c]: the gate's values for each of the t rows of the hop table. The
    centroid encoding's gate is left out if it is part of the matrix `centroid`."""
    centroid: Tensor | None
    """[c, w + 4]: the matrix [P, b, b, b, b], each row times the centroid encoding's
    gate if there is one. Its product with base-GNN states to which `BIAS_COLUMN` is
    appended is the centroid encoding. None if `project` is the identity."""


@contextmanager
def batched_weight_products(layers: Sequence[GNNAK]) -> Iterator[None]:
    """Context manager: `weight_products` is batched over these layers, and cached.

    Within the `with` block, the first call of `weight_products` for one of `layers`
    also computes the results for all others whose weights have the same shapes. Calls
    for these layers then return the cached results.
    """
    token = _cache.set(_ProductCache(layers))
    try:
        yield
    finally:
        _cache.reset(token)


def weight_products(layer: GNNAK) -> WeightProducts:
    """Return the tensors of a layer that depend on its weights but not on its inputs.

    The layer must apply an MLP to node states before it pools them. Within
    `batched_weight_products`, the results of several layers are computed in one batch
    and cached, except under activation checkpointing.
    """
    cache = _cache.get()
    if cache is None or layer not in cache.layers or has_foreign_hooks():
        return _compute([layer])[0]
    products = cache.products[torch.is_grad_enabled()]
    if layer not in products:
        alike = [one for one in cache.layers if _shapes(one) == _shapes(layer)]
        products |= zip(alike, _compute(alike), strict=True)
    return products[layer]


class _ProductCache:
    """Caches the results of `weight_products` for some layers.

    Args:
        layers: The layers.

    Attributes:
        products: Two dictionaries from layers to results: `products[True]` has results
            computed with gradients enabled, `products[False]` those without.
    """

    def __init__(self, layers: Sequence[GNNAK]) -> None:
        self.layers = layers
        self.products: dict[bool, dict[GNNAK, WeightProducts]] = {True: {}, False: {}}


_cache: ContextVar[_ProductCache | None] = ContextVar("weight_products", default=None)


def _shapes(layer: GNNAK) -> Hashable:
    """Return the shapes and types of a layer's weights, to compare layers.

    The weights of layers with equal results can be stacked.
    """
    parts = (layer.hop_table, layer.gates, layer.project, layer.transforms)
    weights = [w for part in parts if part is not None for w in part.parameters()]
    sizes = tuple((w.shape, w.dtype, w.device) for w in weights)
    return layer.encodings, tuple(layer.gates), type(layer.project), sizes


def _compute(layers: Sequence[GNNAK]) -> list[WeightProducts]:
    """Compute `weight_products` for layers whose weights have the same shapes."""
    count, one = len(layers), layers[0]
    names = [name for name in one.encodings if name in one.transforms]
    firsts = [
        blocks_of(layer.transforms[name])[0].linear.weight
        for layer in layers
        for name in names
    ]
    matrix = torch.cat(firsts).view(count, -1, firsts[0].size(1))
    tables = _gate_tables(layers)
    if not isinstance(one.project, nn.Linear):
        bare = zip(matrix.unbind(), _per_layer(tables, count), strict=True)
        return [WeightProducts(matrix, None, gates, None) for matrix, gates in bare]
    projects = [cast(nn.Linear, layer.project) for layer in layers]
    weight = torch.stack([project.weight for project in projects])
    bias = torch.stack([project.bias for project in projects])[:, :, None]
    joint, offset = torch.bmm(matrix, weight), torch.bmm(matrix, bias)
    # Repeat the bias for each entry of `BIAS_COLUMN`; only the first is not zero, so
    # the other repeats have no effect.
    centroid = torch.cat([weight, bias.expand(-1, -1, len(BIAS_COLUMN))], dim=2)
    if "centroid" in tables:
        centroid = centroid * tables.pop("centroid")[:, 0, :, None]
    gates = _per_layer(tables, count)
    parts = (joint.unbind(), offset[:, :, 0].unbind(), gates, centroid.unbind())
    return [WeightProducts(*part) for part in zip(*parts, strict=True)]


def _per_layer(tables: dict[str, Tensor], count: int) -> list[dict[str, Tensor]]:
    """Split tensors along their first dimension, which has an entry per layer.

    Args:
        tables: Tensors by name.
        count: Number of layers.

    Returns:
        For each layer, its entries of all tensors, by name.
    """
    parts = {name: of_all.unbind() for name, of_all in tables.items()}
    return [{name: part[i] for name, part in parts.items()} for i in range(count)]


def _gate_tables(layers: Sequence[GNNAK]) -> dict[str, Tensor]:
    """Return, by encoding, the factors that nodes at each distance are multiplied by.

    The factors, called gates, are `sigmoid(linear(hop_table))`, stacked over all
    layers: [layers, distances, channels].
    """
    tables: list[Tensor] = [
        layer.hop_table.weight for layer in layers if layer.hop_table is not None
    ]
    linears = [
        cast(HopGate, gate).linear for layer in layers for gate in layer.gates.values()
    ]
    if not tables or not linears:
        return {}
    each = len(linears) // len(tables)
    table = torch.stack(tables).repeat_interleave(each, dim=0)
    matrix = torch.stack([linear.weight for linear in linears])
    offset = torch.stack([linear.bias for linear in linears])[:, :, None]
    # With the weights as the left factor, the gradients of the weights are contiguous.
    values = torch.baddbmm(offset, matrix, table.transpose(1, 2)).transpose(1, 2)
    values = torch.sigmoid(values.contiguous()).unflatten(0, (len(tables), each))
    return dict(zip(layers[0].gates, values.unbind(1), strict=True))
