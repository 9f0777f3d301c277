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

from gnnak.nn.fused.encoder import others_hook
from gnnak.nn.fused.parts import blocks_of
from gnnak.nn.gates import HopGate

if TYPE_CHECKING:
    from gnnak.nn.uplift import GNNAK


class OfWeights(NamedTuple):
    """What follows from the weights of a layer."""

    matrix: Tensor
    """[c', w]: the transforms' first products as one, `project` multiplied in."""
    offset: Tensor | None
    """[c']: what the bias of `project` adds to these products."""
    gates: dict[str, Tensor]
    """[t, c]: by encoding, the gate for every row of the hop table."""
    centroid: tuple[Tensor, Tensor] | None
    """Weight and bias of `project`, gated for the centroid; None if it is no Linear."""


@contextmanager
def weights_together(layers: Sequence[GNNAK]) -> Iterator[None]:
    """Inside, `weights_of` one of these layers computes them for all that are alike."""
    token = _together.set(_Together(layers))
    try:
        yield
    finally:
        _together.reset(token)


def weights_of(layer: GNNAK) -> OfWeights:
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
        self.found: dict[bool, dict[GNNAK, OfWeights]] = {True: {}, False: {}}


_together: ContextVar[_Together | None] = ContextVar("together", default=None)


def _kind(layer: GNNAK) -> Hashable:
    """What layers share that can be computed together."""
    parts = (layer.hop_table, layer.gates, layer.project, layer.transforms)
    weights = [w for part in parts if part is not None for w in part.parameters()]
    sizes = tuple((w.shape, w.dtype, w.device) for w in weights)
    return layer.encodings, tuple(layer.gates), type(layer.project), sizes


def _compute(layers: Sequence[GNNAK]) -> list[OfWeights]:
    count, one = len(layers), layers[0]
    names = [name for name in one.encodings if name in one.transforms]
    firsts = [
        blocks_of(layer.transforms[name])[0].linear.weight
        for layer in layers
        for name in names
    ]
    matrix = torch.cat(firsts).view(count, -1, firsts[0].size(1))
    values = _gates(layers)
    each = len(one.gates)
    tables: Sequence[Tensor] = () if values is None else values.unbind()
    gates = [
        dict(zip(one.gates, tables[each * i : each * (i + 1)], strict=False))
        for i in range(count)
    ]
    if not isinstance(one.project, nn.Linear):
        bare = zip(matrix.unbind(), gates, strict=True)
        return [OfWeights(matrix, None, gate, None) for matrix, gate in bare]
    projects = [cast(nn.Linear, layer.project) for layer in layers]
    weight = torch.stack([project.weight for project in projects])
    bias = torch.stack([project.bias for project in projects])[:, :, None]
    joint, offset = torch.bmm(matrix, weight), torch.bmm(matrix, bias)
    if values is not None and "centroid" in one.gates:
        place = list(one.gates).index("centroid")
        gate = values.view(count, each, *values.shape[1:])[:, place, 0, :, None]
        weight, bias = weight * gate, bias * gate
    parts = (joint.unbind(), offset[:, :, 0].unbind(), gates)
    centroid = zip(weight.unbind(), bias[:, :, 0].unbind(), strict=True)
    return [OfWeights(*part) for part in zip(*parts, centroid, strict=True)]


def _gates(layers: Sequence[GNNAK]) -> Tensor | None:
    """[layers * gates, t, c]: every gate for every row of its hop table."""
    tables: list[Tensor] = [
        layer.hop_table.weight for layer in layers if layer.hop_table is not None
    ]
    linears = [
        cast(HopGate, gate).linear for layer in layers for gate in layer.gates.values()
    ]
    if not tables or not linears:
        return None
    each = len(linears) // len(tables)
    table = torch.stack(tables).repeat_interleave(each, dim=0)
    matrix = torch.stack([linear.weight for linear in linears])
    offset = torch.stack([linear.bias for linear in linears])[:, None]
    return torch.sigmoid(torch.baddbmm(offset, table, matrix.transpose(1, 2)))
