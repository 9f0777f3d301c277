"""The encodings of a GNN-AK layer on a CPU.

Linears that follow each other are multiplied first: a Linear $A$ at the end of the base
GNN and the first Linear $W$ of an encoding's MLP become one Linear $W A$. Gates depend
only on the distance to the root, so node copies (nodes as they occur in one rooted
subgraph) of equal distance are summed before they are multiplied by a gate.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gnnak.fast.cpu.base import run_base, run_modules
from gnnak.fast.cpu.pairs import PairAxis, hop_pairs
from gnnak.fast.layers.parts import blocks_of, has_hooks
from gnnak.nn.calling import Inputs
from gnnak.nn.calling.masks import explained_convs
from gnnak.nn.encodings import scaled_to_all
from gnnak.nn.norm import BatchNorm, several_processes
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import Encoding, Reduce


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
    if not layer.transforms:
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
    if layer.dropout.training and layer.dropout.p > 0:
        return layer.transforms[name](layer.dropout(run_modules(linears, rows)))
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
