"""Run the base GNN of a GNN-AK layer, up to the Linears at its end."""

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor, nn
from torch_geometric.nn import GINEConv

from gnnak.fast.cpu.gine import find_messages, gine_sums, pair_states
from gnnak.fast.cpu.pairs import hop_pairs
from gnnak.fast.layers.convs import can_run
from gnnak.nn.base.stack import Stack
from gnnak.nn.calling import Inputs, lift_inputs
from gnnak.nn.norm import BatchNorm
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs

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
