"""Tables of gates and of added embeddings, computed in one batch.

A layer looks up its gates, and the embeddings that are added to node states, in tables
with one row per distance to the root. The tables are tiny, so launching their kernels
takes longer than running them. In one batch, the tables of all gates, and of all layers
of a network, need only as many kernels as those of one gate.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from gnnak.fast.layers.batched import computed_for
from gnnak.fast.layers.parts import has_hooks
from gnnak.nn.gates import HopGate
from gnnak.nn.uplift import GNNAK


class HopTables(NamedTuple):
    """Tables of one layer, with a row for each of the t distances to the root."""

    added: Tensor | None
    """[t, c]: the embeddings that are added to node states; None if they are not added
    but appended, or if the layer does not use distances."""
    gates: dict[str, Tensor]
    """The factors of each encoding that has a gate, [t, c]."""


def hop_tables(layer: GNNAK) -> HopTables:
    r"""Compute $W \mathbf{d}$ and $\text{Sigmoid}(W \mathbf{d} + b)$ for all distances.

    Here $\mathbf{d}$ is the learned embedding of a distance. The tables of all layers
    of a `Network` are computed together, except under activation checkpointing. In any
    other model, each layer computes its own.

    Args:
        layer: A GNN-AK layer.
    """
    if layer.hop_table is None:
        return HopTables(None, {})
    return computed_for(layer, "hop tables", _tables, _shapes)


def _tables(layers: Sequence[GNNAK]) -> list[HopTables]:
    """Compute the tables of layers with equal `_shapes`."""
    if not _can_batch(layers[0]):
        return [_call_modules(layer) for layer in layers]
    return _compute(layers)


def _can_batch(layer: GNNAK) -> bool:
    """Return whether `_compute` gives the same tables as the modules of a layer.

    `_compute` reads the weights of these modules but does not call them. So the modules
    must be of the types that a layer has from the start, without hooks, autocast must
    be off, and all weights must be plain parameters: neither sharded, nor computed by a
    parametrisation.
    """
    if layer.hop_table is None:
        return False
    linears = _linears(layer)
    parts = [layer.hop_table, *layer.gates.values(), *linears]
    weights = [layer.hop_table.weight, *(linear.weight for linear in linears)]
    return (
        bool(linears)
        and all(type(gate) is HopGate for gate in layer.gates.values())
        and all(type(linear) is nn.Linear for linear in linears)
        and all(
            (linear.bias is None) == (linear is layer.hop_linear) for linear in linears
        )
        and all(type(weight) is nn.Parameter for weight in weights)
        and not any(map(has_hooks, parts))
        and not torch.is_autocast_enabled(weights[0].device.type)
    )


def _linears(layer: GNNAK) -> list[nn.Linear]:
    """Return the Linears that map distance embeddings: of the gates, and `hop_linear`.

    `hop_linear` maps the embeddings that are added to node states.
    """
    gates = [cast(HopGate, gate).linear for gate in layer.gates.values()]
    return gates if layer.hop_linear is None else [*gates, layer.hop_linear]


def _call_modules(layer: GNNAK) -> HopTables:
    """Compute the tables by calling the modules of the layer."""
    assert layer.hop_table is not None
    d = layer.hop_table.weight
    added = None if layer.hop_linear is None else layer.hop_linear(d)
    return HopTables(added, {name: gate(d) for name, gate in layer.gates.items()})


def _shapes(layer: GNNAK) -> Hashable:
    """Return a key that is equal for layers whose tables can be computed together.

    The key has the names of the gates, and for each weight its shape, dtype and device,
    and whether it is trained.
    """
    if layer.hop_table is None or not _can_batch(layer):
        return id(layer)
    weights = [layer.hop_table.weight, *(each.weight for each in _linears(layer))]
    sizes = tuple((w.shape, w.dtype, w.device, w.requires_grad) for w in weights)
    return tuple(layer.gates), layer.hop_linear is None, sizes


def _compute(layers: Sequence[GNNAK]) -> list[HopTables]:
    """Compute the tables of layers with equal `_shapes`, in one batch."""
    names, adds = list(layers[0].gates), layers[0].hop_linear is not None
    gates = [list(layer.gates.values()) for layer in layers]
    linears = [cast(HopGate, gate).linear for of_layer in gates for gate in of_layer]
    weights = [cast(Any, layer.hop_table).weight for layer in layers]
    weights += [cast(nn.Linear, layer.hop_linear).weight for layer in layers if adds]
    weights += [linear.weight for linear in linears]
    weights += [linear.bias for linear in linears]
    tables = _Tables.apply(len(layers), len(names), *weights)
    added = tables[: len(layers)] if adds else [None] * len(layers)
    of_gates = tables[len(layers) :] if adds else tables
    count = len(names)
    return [
        HopTables(one, dict(zip(names, of_gates[i * count :], strict=False)))
        for i, one in enumerate(added)
    ]


class _Stacked(NamedTuple):
    """The weights of l layers with g gates each, stacked."""

    d: Tensor
    """The embeddings of t distances, [l, 1, t, h]."""
    adding: Tensor | None
    """The weights of the Linears whose results are added to states, [l, 1, c, h]."""
    gating: Tensor | None
    """The weights of the Linears of the gates, [l, g, c, h]; None without gates."""
    bias: Tensor | None
    """The biases of the Linears of the gates, [l, g, 1, c]; None without gates."""


def _stacked(layers: int, gates: int, weights: tuple[Tensor, ...]) -> _Stacked:
    """Stack the weights of layers.

    Args:
        layers: Number of layers, l.
        gates: Number of gates of each layer, g.
        weights: The embeddings of all layers, then the weights of the Linears whose
            results are added to states, if there are any, then the weights of all
            gates, then their biases.
    """
    linears = len(weights) - layers - 2 * layers * gates
    d, rest = weights[:layers], weights[layers:]
    adding, rest = rest[:linears], rest[linears:]
    gating, bias = rest[: layers * gates], rest[layers * gates :]
    return _Stacked(
        torch.stack(d)[:, None],
        torch.stack(adding)[:, None] if adding else None,
        torch.stack(gating).unflatten(0, (layers, gates)) if gating else None,
        torch.stack(bias).unflatten(0, (layers, gates))[:, :, None] if bias else None,
    )


class _Tables(torch.autograd.Function):
    """Autograd function of the tables of several layers.

    It returns the table of each layer that is added to states, if there are any, and
    then the table of each gate of each layer.
    """

    @staticmethod
    def forward(
        ctx: Any, layers: int, gates: int, *weights: Tensor
    ) -> tuple[Tensor, ...]:
        stacked = _stacked(layers, gates, weights)
        values = _gate_values(stacked)
        ctx.save_for_backward(*weights)
        ctx.layers, ctx.gates, ctx.stacked, ctx.values = layers, gates, stacked, values
        tables: list[Tensor] = []
        if stacked.adding is not None:
            tables += (stacked.d @ stacked.adding.mT)[:, 0].unbind()
        if values is not None:
            tables += values.flatten(0, 1).unbind()
        return tuple(tables)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights = ctx.saved_tensors
        stacked, values, layers = ctx.stacked, ctx.values, ctx.layers
        if torch.is_grad_enabled():
            # The gradients are to be differentiated again: recompute the tables from
            # the weights, so that autograd records how they depend on the weights.
            stacked = _stacked(layers, ctx.gates, weights)
            values = _gate_values(stacked)
        of_d: list[Tensor] = []
        of_weights: list[Tensor] = []
        if stacked.adding is not None:
            back = torch.stack(grads[:layers])[:, None]
            grads = grads[layers:]
            of_weights += (back.mT @ stacked.d)[:, 0].unbind()
            of_d.append((back @ stacked.adding)[:, 0])
        if values is not None:
            of_values = torch.stack(grads).view_as(values)
            back = torch.ops.aten.sigmoid_backward(of_values, values)
            of_weights += (back.mT @ stacked.d).flatten(0, 1).unbind()
            of_weights += back.sum(dim=2).flatten(0, 1).unbind()
            of_d.append((back @ stacked.gating).sum(dim=1))
        return None, None, *sum(of_d[1:], of_d[0]).unbind(), *of_weights


def _gate_values(stacked: _Stacked) -> Tensor | None:
    """Return the values of all gates, [l, g, t, c]; None without gates."""
    if stacked.gating is None or stacked.bias is None:
        return None
    return torch.sigmoid(stacked.d @ stacked.gating.mT + stacked.bias)
