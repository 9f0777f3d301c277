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
from gnnak.nn.uplift import GNNAK
from gnnak.subgraphs.rooted import RootedSubgraphs


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
    own = pairs.of_copies @ c
    summed = gine_sums(conv, c, own, edge_attr, find_messages(subgraphs, pairs))
    if type(gnn) is Stack:
        out = conv.nn(summed)
        return BeforeLinears(own + gnn.after(gnn.norms[0](out)), last)
    if type(conv.nn) is nn.Sequential and type(conv.nn[-1]) is nn.Linear:
        last = [conv.nn[-1], *last]
        return BeforeLinears(run_modules(list(conv.nn)[:-1], summed), last)
    return BeforeLinears(conv.nn(summed), last)


def run_modules(modules: Iterable[nn.Module], rows: Tensor) -> Tensor:
    """Call modules one after the other."""
    for module in modules:
        rows = module(rows)
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
