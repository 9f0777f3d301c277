"""Weight-only terms of GNN-AK layers, computed for all layers of a network at once.

These are a few tiny matrix products per layer, whose kernels take longer to launch than
to run. Batched over all layers they need about a tenth of the launches.
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
    """The terms of a layer that depend on its weights alone.

    After the base GNN comes `project`, a Linear (weight P, bias b) or the identity, and
    then, for every pooled encoding, a transform: an MLP whose first Linear has no bias.
    With the weights of these first Linears stacked as W, a single product of the base
    GNN's states s replaces them and `project`: W (P s + b) = (W P) s + W b.
    """

    matrix: Tensor
    """[c', w]: W P, or W if `project` is the identity."""
    offset: Tensor | None
    """[c']: W b; None if `project` is the identity."""
    gates: dict[str, Tensor]
    """[t, c]: by encoding, the gate for every row of the hop table; without the
    centroid's gate where `centroid` includes it."""
    centroid: Tensor | None
    """[c, w + 4]: [P, b, ...], each row times the centroid's gate if it has one, to be
    multiplied with states to which `BIAS_COLUMN` is appended; None if `project` is the
    identity."""


@contextmanager
def batched_weight_products(layers: Sequence[GNNAK]) -> Iterator[None]:
    """Batch and cache the results of `weight_products` inside a `with` block.

    The first call for one of `layers` computes the products of all layers among them
    whose weights have the same shapes; further calls return the cached results.
    """
    token = _cache.set(_ProductCache(layers))
    try:
        yield
    finally:
        _cache.reset(token)


def weight_products(layer: GNNAK) -> WeightProducts:
    """Return the weight-only terms of a layer, which must have transforms.

    Inside a checkpoint they are neither batched nor cached: the checkpoint recomputes
    them in the backward pass, for one layer at a time.
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
    """The products of some layers, each computed with and without gradients.

    Args:
        layers: The layers.
    """

    def __init__(self, layers: Sequence[GNNAK]) -> None:
        self.layers = layers
        self.products: dict[bool, dict[GNNAK, WeightProducts]] = {True: {}, False: {}}


_cache: ContextVar[_ProductCache | None] = ContextVar("weight_products", default=None)


def _shapes(layer: GNNAK) -> Hashable:
    """Return a key that is equal for layers whose products can be batched."""
    parts = (layer.hop_table, layer.gates, layer.project, layer.transforms)
    weights = [w for part in parts if part is not None for w in part.parameters()]
    sizes = tuple((w.shape, w.dtype, w.device) for w in weights)
    return layer.encodings, tuple(layer.gates), type(layer.project), sizes


def _compute(layers: Sequence[GNNAK]) -> list[WeightProducts]:
    """Compute the products of layers with equal `_shapes`, batched."""
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
    # The zeros of `BIAS_COLUMN` meet further copies of the bias, to no effect.
    centroid = torch.cat([weight, bias.expand(-1, -1, len(BIAS_COLUMN))], dim=2)
    if "centroid" in tables:
        centroid = centroid * tables.pop("centroid")[:, 0, :, None]
    gates = _per_layer(tables, count)
    parts = (joint.unbind(), offset[:, :, 0].unbind(), gates, centroid.unbind())
    return [WeightProducts(*part) for part in zip(*parts, strict=True)]


def _per_layer(tables: dict[str, Tensor], count: int) -> list[dict[str, Tensor]]:
    """Split tables [count, t, c], by encoding, into a dictionary for each layer."""
    parts = {name: of_all.unbind() for name, of_all in tables.items()}
    return [{name: part[i] for name, part in parts.items()} for i in range(count)]


def _gate_tables(layers: Sequence[GNNAK]) -> dict[str, Tensor]:
    """Return by encoding the gates for every row of the hop tables, [layers, t, c]."""
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
    # With the weights as left factor, their gradients come out contiguous.
    values = torch.baddbmm(offset, matrix, table.transpose(1, 2)).transpose(1, 2)
    values = torch.sigmoid(values.contiguous()).unflatten(0, (len(tables), each))
    return dict(zip(layers[0].gates, values.unbind(1), strict=True))
