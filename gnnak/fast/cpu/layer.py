"""The encodings of a GNN-AK layer on a CPU.

Linears that follow each other are multiplied first: a Linear $A$ at the end of the base
GNN and the first Linear $W$ of an encoding's MLP become one Linear $W A$. Gates depend
only on the distance to the root, so node copies of equal distance are summed before
they are multiplied by a gate.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch_geometric.nn import GINEConv

from gnnak.fast.cpu.gine import (
    PairAxis,
    find_messages,
    gine_sums,
    hop_pairs,
    pair_states,
)
from gnnak.fast.layers.convs import can_run
from gnnak.fast.layers.parts import blocks_of, has_hooks
from gnnak.nn.base.stack import Stack
from gnnak.nn.calling import Inputs, lift_inputs
from gnnak.nn.calling.masks import explained_convs
from gnnak.nn.encodings import scaled_to_all
from gnnak.nn.norm import BatchNorm, several_processes
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce

NORMS = (nn.BatchNorm1d, BatchNorm)
"""Norms whose output may be overwritten: their backward pass does not read it."""


class BeforeLinears(NamedTuple):
    """Output of the base GNN before the Linears at its end, and these Linears."""

    rows: Tensor
    """[m, k]: one row for each node copy (a node as it occurs in one subgraph)."""
    linears: list[nn.Linear]
    """The Linears still to apply, one after the other; may be empty."""


def run_base(
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
) -> BeforeLinears:
    """Run the base GNN of a layer, without the Linears at its end.

    Args:
        layer: The GNN-AK layer, without hooks.
        x: Node states, [n, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Edge states, [e, c], weights, [e], or `Inputs`; or None.
    """
    gnn = layer.gnn
    last = [layer.project] if type(layer.project) is nn.Linear else []
    conv = gnn.convs[0] if type(gnn) is Stack and gnn.num_layers == 1 else gnn
    if not isinstance(edge_attr, Tensor) or not _fits(layer, conv, edge_attr):
        h, e = layer.augment(x, subgraphs), lift_inputs(edge_attr, subgraphs)
        called = (h, subgraphs.edge_index, e, subgraphs.subgraph)
        return BeforeLinears(layer.calling(gnn, *called), last)
    assert isinstance(conv, GINEConv)
    pairs = hop_pairs(layer.hop_table, subgraphs, "node", x.dtype)
    c = pair_states(layer, x, pairs)
    summed = gine_sums(conv, c, edge_attr, find_messages(subgraphs, pairs))
    parts = list(conv.nn) if type(conv.nn) is nn.Sequential else [conv.nn]
    if type(gnn) is Stack:
        out = run_modules([*parts, gnn.norms[0], *gnn.after], summed)
        return BeforeLinears(pairs.of_copies @ c + out, last)
    end = parts[-1]
    if type(end) is nn.Linear:
        parts, last = parts[:-1], [end, *last]
    return BeforeLinears(run_modules(parts, summed), last)


def run_modules(modules: Iterable[nn.Module], rows: Tensor) -> Tensor:
    """Call modules one after the other; a ReLU overwrites the output of a BatchNorm.

    Args:
        modules: The modules.
        rows: The input of the first module, [m, c].
    """
    before = None
    for module in modules:
        if type(module) is nn.Sequential:
            rows = run_modules(module, rows)
        elif type(module) is nn.ReLU and type(before) in NORMS:
            rows = rows.relu_()
        else:
            rows = module(rows)
        before = module
    return rows


def _fits(layer: GNNAK, conv: nn.Module, e: Tensor) -> bool:
    """Return whether `gine_sums` computes the messages of a conv.

    Args:
        layer: The GNN-AK layer.
        conv: The conv.
        e: Edge states, [e, c], or weights, [e].
    """
    width = layer.in_channels
    if layer.hop_table is not None and layer.hop_linear is None:
        width += layer.hop_table.weight.size(1)
    keywords = layer.calling.keywords is not None
    return type(conv) is GINEConv and not keywords and can_run(conv, e, width)


def can_run_on_cpu(
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
) -> bool:
    """Return whether `cpu_encodings` can compute the encodings of a layer.

    This needs full precision, the weights' dtype, subgraphs without padding, and the
    modules that `GNNAK` builds, without hooks.

    Args:
        layer: The GNN-AK layer.
        x: Node states, [n, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Edge states, weights or further arguments; None if there are none.
    """
    if x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return False
    weights = {weight.dtype for weight in layer.parameters()}
    values = edge_attr if isinstance(edge_attr, Tensor) else x
    exact = weights <= {x.dtype} and x.dtype in (torch.float, torch.double)
    known = subgraphs.num_nodes is not None and subgraphs.num_edges is not None
    full = subgraphs.real is None and subgraphs.num_copies > 1
    return (
        exact
        and values.dtype == x.dtype
        and known
        and full
        and _has_known_parts(layer)
        and not several_processes()
    )


def _has_known_parts(layer: GNNAK) -> bool:
    """Return whether the parts of a layer are those that `GNNAK` builds, without hooks.

    PyG's explainers set masks on convs; layers with such convs run in plain PyTorch.
    """
    transforms = list(layer.transforms.values())
    blocks = [block for transform in transforms for block in transform.children()]
    types = [tuple(map(type, block.children())) for block in blocks]
    return (
        type(layer) is GNNAK
        and type(layer.project) in (nn.Linear, nn.Identity)
        and all(type(part) is nn.Sequential for part in transforms + blocks)
        and all(found == (nn.Linear, BatchNorm, nn.ReLU) for found in types)
        and not explained_convs(layer.gnn)
        and not any(has_hooks(part) for part in layer.modules() if part is not layer)
    )


def cpu_encodings(
    layer: GNNAK,
    x: Tensor,
    subgraphs: RootedSubgraphs,
    edge_attr: Tensor | Inputs | None,
    context_reduce: Reduce,
) -> dict[Encoding, Tensor]:
    """Compute the same encodings as `GNNAK.encode`.

    Args:
        layer: A layer that `can_run_on_cpu` accepts.
        x: Node states, [n, c].
        subgraphs: The rooted subgraphs.
        edge_attr: Edge states, [e, c], weights, [e], or `Inputs`; or None.
        context_reduce: How the context encoding is pooled.
    """
    rows, linears = run_base(layer, x, subgraphs, edge_attr)
    drops = layer.dropout.training and layer.dropout.p > 0
    if not layer.transforms or drops:
        rows, linears = run_modules(linears, rows), []
    encodings: dict[Encoding, Tensor] = {}
    for name in layer.encodings:
        if name == "centroid":
            states = run_modules(linears, rows.index_select(0, subgraphs.centroid))
            gate = _gate_table(layer, name)
            encodings[name] = states if gate is None else states * gate[0]
            continue
        states = _transformed(layer, name, rows, linears)
        reduce = context_reduce if name == "context" else layer.reduce
        encodings[name] = _pooled(layer, name, states, subgraphs, reduce)
    return encodings


def _gate_table(layer: GNNAK, name: Encoding) -> Tensor | None:
    """Return the gates of an encoding for each distance, [t, c]; None without gates."""
    if name not in layer.gates:
        return None
    assert layer.hop_table is not None
    return layer.gates[name](layer.hop_table.weight)


def _transformed(
    layer: GNNAK, name: Encoding, rows: Tensor, linears: list[nn.Linear]
) -> Tensor:
    """Apply the Linears at the end of the base GNN and the MLP of an encoding.

    Args:
        layer: The GNN-AK layer.
        name: The encoding.
        rows: The output of the base GNN before its last Linears, [m, k].
        linears: These Linears.
    """
    if name not in layer.transforms:
        return rows
    rows = layer.dropout(rows)
    first, *others = blocks_of(layer.transforms[name])
    matrix, offset = first.linear.weight, None
    for part in reversed(linears):
        if part.bias is not None:
            added = matrix @ part.bias
            offset = added if offset is None else offset + added
        matrix = matrix @ part.weight
    if offset is not None and first.norm.training and "centroid" in layer.encodings:
        # The norm subtracts the mean, so the gradient of the offset is zero and need
        # not be computed. Without a centroid encoding, the offset is the only use of
        # the bias, and the gradient of the bias must not be None.
        offset = offset.detach()
    states = first.norm(linear(rows, matrix, offset)).relu_()
    for block in others:
        states = block.norm(block.linear(states)).relu_()
    return states


def _pooled(
    layer: GNNAK,
    name: Encoding,
    states: Tensor,
    subgraphs: RootedSubgraphs,
    reduce: Reduce,
) -> Tensor:
    """Multiply states by gates, and pool them by subgraph or by node.

    Args:
        layer: The GNN-AK layer.
        name: "subgraph" or "context".
        states: One row for each of the m node copies (nodes as they occur in one
            subgraph), [m, c].
        subgraphs: The rooted subgraphs.
        reduce: "sum" or "mean".
    """
    axis: PairAxis = "node" if name == "context" else "subgraph"
    pairs = hop_pairs(layer.hop_table, subgraphs, axis, states.dtype)
    sums = pairs.of_copies.T @ states
    gate = _gate_table(layer, name)
    if gate is not None:
        sums = sums * (pairs.one_hot @ gate)
    pooled = pairs.of_keys.T @ sums
    if reduce == "mean":
        return pooled / subgraphs.by(axis).ptr.diff().clamp(min=1)[:, None]
    return scaled_to_all(pooled, subgraphs) if name == "context" else pooled
