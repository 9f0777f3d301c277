"""Tables of gates and of added embeddings: all those of a layer, with one kernel.

A layer looks up its gates, and the embeddings that are added to node states, in tables
with one row per distance to the root. The tables are tiny, so launching their kernels
takes longer than running them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from gnnak.fast.kernels import has_fast_kernels, kernels_for, kernels_of_backward
from gnnak.fast.kernels.records import MOST_HOP_LINEARS, HopLinears
from gnnak.fast.layers.parts import has_hooks
from gnnak.nn.gates import HopGate
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


_current: ContextVar[dict[GNNAK, HopTables] | None]
_current = ContextVar("hop_tables", default=None)


@contextmanager
def shared_tables() -> Iterator[None]:
    """Context manager: within the block, `hop_tables` computes each table once."""
    token = _current.set({})
    try:
        yield
    finally:
        _current.reset(token)


def hop_tables(layer: GNNAK) -> HopTables:
    r"""Compute $W \mathbf{d}$ and $\text{Sigmoid}(W \mathbf{d} + b)$ for all distances.

    Here $\mathbf{d}$ is the learned embedding of a distance.

    Args:
        layer: A GNN-AK layer.
    """
    cached = _current.get()
    if cached is not None and layer in cached:
        return cached[layer]
    tables = _compute(layer, layer.hop_linear)
    if cached is not None:
        cached[layer] = tables
    return tables


def gate_tables(layer: GNNAK) -> dict[str, Tensor]:
    """Compute the gates of a layer: for each gate, its factors at t distances, [t, c].

    Unlike `hop_tables`, this does not compute the embeddings that are added to states.

    Args:
        layer: A GNN-AK layer.
    """
    cached = _current.get()
    if cached is not None and layer in cached:
        return cached[layer].gates
    return _compute(layer, None).gates


def _compute(layer: GNNAK, hop_linear: nn.Linear | None) -> HopTables:
    """Compute the tables of a layer.

    Args:
        layer: The layer.
        hop_linear: The Linear of the layer whose results are added to node states; None
            = do not compute these.
    """
    if layer.hop_table is None:
        return HopTables(None, {})
    d, gates = layer.hop_table.weight, layer.gates
    if not _can_fuse(layer, hop_linear):
        added = None if hop_linear is None else hop_linear(d)
        return HopTables(added, {name: gate(d) for name, gate in gates.items()})
    linears = [cast(HopGate, gate).linear for gate in gates.values()]
    weights = [linear.weight for linear in linears]
    if hop_linear is not None:
        weights = [hop_linear.weight, *weights]
    biases = [linear.bias for linear in linears]
    found = list(_Tables.apply(d, len(weights), *weights, *biases))
    added = None if hop_linear is None else found.pop(0)
    return HopTables(added, dict(zip(gates, found, strict=True)))


def _can_fuse(layer: GNNAK, hop_linear: nn.Linear | None) -> bool:
    """Return whether the kernel computes the same tables as the modules of a layer.

    The kernel reads the weights of these modules, which are not called. So the modules
    must be of the types that a layer has from the start, without hooks. With autocast,
    the kernel is more precise: it computes in the dtype of the weights.

    Args:
        layer: The layer.
        hop_linear: As in `_compute`.
    """
    table, gates = layer.hop_table, list(layer.gates.values())
    if table is None or not all(type(gate) is HopGate for gate in gates):
        return False
    d, of_gates = table.weight, [cast(HopGate, gate).linear for gate in gates]
    if not has_fast_kernels(d) or type(d) is not nn.Parameter or d.size(1) > WIDEST:
        return False
    linears = of_gates if hop_linear is None else [*of_gates, hop_linear]
    if not 0 < len(linears) <= MOST_HOP_LINEARS or any(
        map(has_hooks, (table, *gates, *linears))
    ):
        return False
    if not all(_is_plain(linear, d, linear is not hop_linear) for linear in linears):
        return False
    return len({linear.weight.size(0) for linear in of_gates}) <= 1


def _is_plain(linear: nn.Module, d: Tensor, biased: bool) -> bool:
    """Return whether a Linear has weights of its own that the kernel can read.

    They must be neither sharded nor computed by a parametrisation, and be contiguous,
    with the dtype and the device of the embeddings of distances.

    Args:
        linear: The Linear.
        d: The embeddings of distances.
        biased: Whether the Linear must have a bias; else it must have none.
    """
    if type(linear) is not nn.Linear or "forward" in vars(linear):
        return False
    if (linear.bias is not None) != biased:
        return False
    weights = [linear.weight, linear.bias] if biased else [linear.weight]
    return all(
        type(weight) is nn.Parameter
        and weight.dtype == d.dtype
        and weight.device == d.device
        and weight.is_contiguous()
        for weight in weights
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
        tables = kernels_for(d).hop_tables(d.contiguous(), linears)
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
        grad_d, found = kernels.hop_tables_backward(
            d.contiguous(), linears, tables, given
        )
        return grad_d, None, *found.weights, *found.biases
