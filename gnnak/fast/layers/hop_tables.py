"""Tables of gates and of added embeddings: all those of a layer, with one kernel.

A layer looks up its gates, and the embeddings that are added to node states, in tables
with one row per distance to the root. The tables are tiny, so launching their kernels
takes longer than running them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gnnak.fast.kernels import has_fast_kernels, kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import MOST_HOP_LINEARS, HopLinears
from gnnak.fast.layers.parts import has_hooks
from gnnak.nn.encodings import HopGate
from gnnak.nn.uplift import GNNAK

WIDEST = 64
"""The kernel supports embeddings of distances up to this width."""


class HopTables(NamedTuple):
    """Tables of one layer, with a row for each of the t distances to the root."""

    added: Tensor | None
    """[t, c]: the embeddings that are added to node states; None if they are not added
    but appended, or if the layer does not use distances."""
    gates: dict[str, Tensor]
    """The factors of each encoding that has a gate, [t, c]."""


class HopWeights(NamedTuple):
    """The weights from which a kernel computes the tables of a layer."""

    d: Tensor
    """[t, h]: the embeddings of all distances."""
    linears: HopLinears
    """The Linear whose results are added to node states, if any, and the gates."""


_gates: ContextVar[dict[GNNAK, dict[str, Tensor]] | None]
_gates = ContextVar("gates", default=None)


@contextmanager
def shared_gates() -> Iterator[None]:
    """Context manager: let `remember_gates` and `gate_tables` share gates."""
    token = _gates.set({})
    try:
        yield
    finally:
        _gates.reset(token)


def remember_gates(layer: GNNAK, gates: dict[str, Tensor]) -> None:
    """Let `gate_tables` return these gates, in the current `shared_gates` block."""
    known = _gates.get()
    if known is not None:
        known[layer] = gates


def hop_tables(layer: GNNAK) -> HopTables:
    r"""Compute $W \mathbf{d}$ and $\text{Sigmoid}(W \mathbf{d} + b)$ for all distances.

    Here $\mathbf{d}$ is the learned embedding of a distance.

    Args:
        layer: A GNN-AK layer.
    """
    tables = _compute(layer, layer.hop_linear)
    remember_gates(layer, tables.gates)
    return tables


def gate_tables(layer: GNNAK) -> dict[str, Tensor]:
    """Compute the gates of a layer: for each gate, its factors at t distances, [t, c].

    Unlike `hop_tables`, this does not compute the embeddings that are added to states.

    Args:
        layer: A GNN-AK layer.
    """
    known = _gates.get()
    if known is not None and layer in known:
        return known[layer]
    return _compute(layer, None).gates


def _compute(layer: GNNAK, hop_linear: nn.Linear | None) -> HopTables:
    """Compute the tables of a layer.

    Args:
        layer: The layer.
        hop_linear: The Linear of the layer whose results are added to node states; None
            = do not compute these.
    """
    hop_table, gates = layer.hop_table, layer.gates
    if hop_table is None:
        return HopTables(None, {})
    weights = hop_weights(layer, hop_linear)
    if weights is None:
        d = hop_table.weight
        added = None if hop_linear is None else hop_linear(d)
        return HopTables(added, {name: gate(d) for name, gate in gates.items()})
    (matrices, biases), count = weights.linears, len(weights.linears.weights)
    found = list(_Tables.apply(weights.d, count, *matrices, *biases))
    added = None if hop_linear is None else found.pop(0)
    return HopTables(added, dict(zip(gates, found, strict=True)))


def hop_weights(layer: GNNAK, hop_linear: nn.Linear | None) -> HopWeights | None:
    """Return the weights of the tables of a layer, if a kernel can compute the tables.

    The kernel reads the weights of modules that are not called then. So the modules
    must be of the types that a layer has from the start, without hooks. With autocast,
    the kernel is more precise: it computes in the dtype of the weights.

    Args:
        layer: The layer.
        hop_linear: As in `_compute`.

    Returns:
        The weights; None if the modules of the layer must compute the tables.
    """
    table = layer.hop_table
    if table is None or has_hooks(table):
        return None
    d = table.weight
    if not has_fast_kernels(d) or not _is_plain(d, d) or d.size(1) > WIDEST:
        return None
    weights, biases = [], []
    if hop_linear is not None:
        pair = _weights_of(hop_linear, d)
        if pair is None or pair[1] is not None:
            return None
        weights.append(pair[0])
    for gate in layer.gates._modules.values():
        pair = None
        if type(gate) is HopGate and not has_hooks(gate):
            pair = _weights_of(gate._modules["linear"], d)
        if pair is None or pair[1] is None:
            return None
        weights.append(pair[0])
        biases.append(pair[1])
    if not 0 < len(weights) <= MOST_HOP_LINEARS:
        return None
    if any(bias.size(0) != biases[0].size(0) for bias in biases):
        return None
    return HopWeights(d, HopLinears(weights, biases))


def _weights_of(
    linear: nn.Module | None, d: Tensor
) -> tuple[Tensor, Tensor | None] | None:
    """Return weight and bias of a Linear, if the kernel can read them.

    They must be neither sharded nor computed by a parametrisation, and be contiguous,
    with the dtype and the device of the embeddings of distances.

    Args:
        linear: The Linear.
        d: The embeddings of distances.

    Returns:
        The weight, and the bias or None; None if the Linear must be called.
    """
    if type(linear) is not nn.Linear or has_hooks(linear) or "forward" in vars(linear):
        return None
    weight, bias = map(linear._parameters.get, ("weight", "bias"))
    if weight is None or not _is_plain(weight, d):
        return None
    if bias is not None and not _is_plain(bias, d):
        return None
    return weight, bias


def _is_plain(weight: Tensor, d: Tensor) -> bool:
    """Return whether a weight is an ordinary, contiguous parameter, stored like `d`."""
    return (
        type(weight) is nn.Parameter
        and weight.dtype == d.dtype
        and weight.get_device() == d.get_device()
        and weight.is_contiguous()
    )


class _Tables(torch.autograd.Function):
    """Autograd function of all tables of a layer, in the order of `HopLinears`."""

    @staticmethod
    def forward(
        ctx: Any, d: Tensor, count: int, *weights_and_biases: Tensor
    ) -> tuple[Tensor, ...]:
        linears = HopLinears(
            list(weights_and_biases[:count]), list(weights_and_biases[count:])
        )
        tables = kernels_for(d).hop_tables(d, linears)
        ctx.save_for_backward(d, *weights_and_biases, *tables)
        ctx.counts = count, len(linears.biases)
        return tuple(tables)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d, *saved = ctx.saved_tensors
        weights, biases = ctx.counts
        linears = HopLinears(saved[:weights], saved[weights : weights + biases])
        tables, kernels = saved[weights + biases :], kernels_of_backward(d)
        given = [grad.contiguous() for grad in grads]
        grad_d, found = kernels.hop_tables_backward(d, linears, tables, given)
        return grad_d, None, *found.weights, *found.biases
