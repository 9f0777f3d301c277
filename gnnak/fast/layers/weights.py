"""What layers compute from their weights alone, for all layers of a network at once.

Each is a few tiny products, whose kernels take longer to start than to run: a handful
of them for all layers together is a tenth of as many for each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from gnnak.fast.kernels.records import BIAS_COLUMN
from gnnak.fast.layers.encoder import others_hook
from gnnak.fast.layers.parts import blocks_of
from gnnak.nn.gates import HopGate

if TYPE_CHECKING:
    from gnnak.nn.uplift import GNNAK


class WeightProducts(NamedTuple):
    """What follows from the weights of a layer."""

    matrix: Tensor
    """[c', w]: the transforms' first products as one, `project` multiplied in."""
    offset: Tensor | None
    """[c']: what the bias of `project` adds to these products."""
    gates: dict[str, Tensor]
    """[t, c]: by encoding, the gate for every row of the hop table; not the centroid's
    where it is in `centroid`."""
    centroid: Tensor | None
    """[c, w + 4]: weight and bias of `project`, gated for the centroid, as one matrix,
    for rows with `BIAS_COLUMN` behind; None if it is no Linear."""


@contextmanager
def batched_weight_products(layers: Sequence[GNNAK]) -> Iterator[None]:
    """Inside, `weight_products` one of these layers computes them for all that are alike."""
    token = _together.set(_Together(layers))
    try:
        yield
    finally:
        _together.reset(token)


def weight_products(layer: GNNAK) -> WeightProducts:
    """What follows from the weights of a layer, which must have transforms.

    Inside of a checkpoint, which computes the layer again by itself, for it alone.
    """
    together = _together.get()
    if together is None or layer not in together.layers or others_hook():
        return _compute([layer])[0]
    found = together.found[torch.is_grad_enabled()]
    if layer not in found:
        alike = [one for one in together.layers if _kind(one) == _kind(layer)]
        found |= zip(alike, _compute(alike), strict=True)
    return found[layer]


class _Together:
    """Layers that are computed together, and what was found, with gradients or not."""

    def __init__(self, layers: Sequence[GNNAK]) -> None:
        self.layers = layers
        self.found: dict[bool, dict[GNNAK, WeightProducts]] = {True: {}, False: {}}


_together: ContextVar[_Together | None] = ContextVar("together", default=None)


def _kind(layer: GNNAK) -> Hashable:
    """What layers share that can be computed together."""
    parts = (layer.hop_table, layer.gates, layer.project, layer.transforms)
    weights = [w for part in parts if part is not None for w in part.parameters()]
    sizes = tuple((w.shape, w.dtype, w.device) for w in weights)
    return layer.encodings, tuple(layer.gates), type(layer.project), sizes


def _compute(layers: Sequence[GNNAK]) -> list[WeightProducts]:
    count, one = len(layers), layers[0]
    names = [name for name in one.encodings if name in one.transforms]
    firsts = [
        blocks_of(layer.transforms[name])[0].linear.weight
        for layer in layers
        for name in names
    ]
    matrix = torch.cat(firsts).view(count, -1, firsts[0].size(1))
    tables = _gates(layers)
    if not isinstance(one.project, nn.Linear):
        bare = zip(matrix.unbind(), _of_each(tables, count), strict=True)
        return [WeightProducts(matrix, None, gates, None) for matrix, gates in bare]
    projects = [cast(nn.Linear, layer.project) for layer in layers]
    weight = torch.stack([project.weight for project in projects])
    bias = torch.stack([project.bias for project in projects])[:, :, None]
    joint, offset = torch.bmm(matrix, weight), torch.bmm(matrix, bias)
    # What is multiplied with the zeros of `BIAS_COLUMN` may be anything.
    centroid = torch.cat([weight, bias.expand(-1, -1, len(BIAS_COLUMN))], dim=2)
    if "centroid" in tables:
        centroid = centroid * tables.pop("centroid")[:, 0, :, None]
    gates = _of_each(tables, count)
    parts = (joint.unbind(), offset[:, :, 0].unbind(), gates, centroid.unbind())
    return [WeightProducts(*part) for part in zip(*parts, strict=True)]


def _of_each(tables: dict[str, Tensor], count: int) -> list[dict[str, Tensor]]:
    """The tables of each of so many layers, by encoding."""
    parts = {name: of_all.unbind() for name, of_all in tables.items()}
    return [{name: part[i] for name, part in parts.items()} for i in range(count)]


def _gates(layers: Sequence[GNNAK]) -> dict[str, Tensor]:
    """[layers, t, c]: by encoding, the gates for every row of the hop tables."""
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
    # With weights first in the product, each gradient of them is one piece of memory.
    values = torch.baddbmm(offset, matrix, table.transpose(1, 2)).transpose(1, 2)
    values = torch.sigmoid(values.contiguous()).unflatten(0, (len(tables), each))
    return dict(zip(layers[0].gates, values.unbind(1), strict=True))
