"""Guess the widths of a GNN's node and edge inputs from its attributes and weights."""

from collections.abc import Iterable

from torch import nn
from torch.nn.parameter import is_lazy

EDGE_WIDTH_NAMES = (
    "edge_dim",
    "edge_channels",
    "in_edge_channels",
    "in_channels",
    "in_features",
    "dim",
)
"""Names of module attributes that may hold the width of edge attributes."""


def node_widths(gnn: nn.Module) -> list[int]:
    """Return the widths that the node states of a GNN may have, likeliest first.

    These are the attributes `in_channels`, `channels` and `out_channels` of the GNN,
    then the input widths of its submodules. The list is empty for a lazy GNN, which
    takes any width.

    >>> from torch_geometric.nn import GATConv, GINConv
    >>> node_widths(GATConv(8, 5))
    [8, 5]
    >>> node_widths(GINConv(nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 5))))
    [8, 16]
    """
    if any(is_lazy(weight) for weight in gnn.parameters()):
        return []
    own = ("in_channels", "channels", "out_channels")
    declared = [getattr(gnn, name, None) for name in own]
    for part in gnn.modules():
        declared += [
            getattr(part, name, None) for name in ("in_channels", "in_features")
        ]
    return _unique(_as_width(width) for width in declared)


def edge_widths(gnn: nn.Module, in_channels: int) -> list[int]:
    """Return the widths that the edge attributes of a GNN may have, likeliest first.

    The widths come from attributes of the GNN's modules and from the shapes of its
    weights. Many GNNs apply a Linear to the concatenation of an edge's attributes with
    the states of one or two nodes. So for every width w, the list also has
    w - `in_channels` and w - 2 `in_channels`.

    Args:
        gnn: The GNN.
        in_channels: Width of the node states that the GNN gets.
    """
    declared = [
        getattr(part, name, None) for part in gnn.modules() for name in EDGE_WIDTH_NAMES
    ]
    for weight in gnn.parameters():
        if weight.is_floating_point() and not is_lazy(weight):
            declared += weight.shape
    widths = [in_channels, 1]
    for width in declared:
        if isinstance(width, int):
            widths += [width - ends * in_channels for ends in range(3)]
    return _unique(widths)


def _as_width(declared: object) -> int:
    """Convert the value of an attribute such as `in_channels` to one width.

    A tuple such as (8, 8) gives 8. A value that is no width gives 0.
    """
    if isinstance(declared, tuple) and declared and declared[0] == declared[-1]:
        declared = declared[0]
    return declared if isinstance(declared, int) else 0


def _unique(widths: Iterable[int]) -> list[int]:
    """Return each positive width once, in order of first appearance."""
    return [width for width in dict.fromkeys(widths) if width > 0]
