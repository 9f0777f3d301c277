"""Example values for the arguments of a GNN besides `x` and `edge_index`.

A trial run calls the GNN on a path of three nodes, which has four directed edges.
"""

import torch
from torch import Tensor, nn

from gnnak.nn.calling.roles import POSITION_ARGUMENTS, TYPE_ARGUMENTS, role_of
from gnnak.nn.calling.signature import further_arguments, needs_both_edge_arguments

DIMENSIONS = (3, 2)
"""Numbers of coordinates to try for positions of nodes."""


def unknown_arguments(gnn: nn.Module) -> list[str]:
    """Return the required arguments of a GNN whose names do not tell what they hold."""
    further = further_arguments(gnn)
    return [name for name, needed in further.items() if needed and not role_of(name)]


def example_arguments(gnn: nn.Module, in_channels: int) -> list[dict[str, Tensor]]:
    """Return sets of example values for the further arguments of a GNN.

    The first set has the required arguments only; further sets add the optional
    arguments whose names tell what they hold, and other numbers of coordinates. The
    list is empty if the name of a required argument does not tell what it holds.

    Args:
        gnn: The GNN.
        in_channels: Width of the node states, which initial states have, too.

    >>> from torch_geometric.nn import RGCNConv
    >>> example_arguments(RGCNConv(8, 8, num_relations=2), 8)
    [{}, {'edge_type': tensor([0, 0, 0, 0])}]
    """
    if unknown_arguments(gnn):
        return []
    further = further_arguments(gnn)
    needed = [name for name, required in further.items() if required]
    known = [name for name in further if role_of(name) in ("node", "edge")]
    sets: list[dict[str, Tensor]] = []
    for names in dict.fromkeys((tuple(needed), tuple(known))):
        has_positions = any(name in POSITION_ARGUMENTS for name in names)
        for dimensions in DIMENSIONS if has_positions else DIMENSIONS[:1]:
            sets.append(
                {name: _example(name, in_channels, dimensions) for name in names}
            )
    if needs_both_edge_arguments(gnn):
        sets = [{**values, "edge_weight": torch.ones(4)} for values in sets]
    return sets


def _example(name: str, in_channels: int, dimensions: int) -> Tensor:
    """Return an example value for one argument, for a path of three nodes."""
    rows = 4 if role_of(name) == "edge" else 3
    if name in TYPE_ARGUMENTS:
        return torch.zeros(rows, dtype=torch.long)
    if role_of(name) == "num_nodes":
        return torch.tensor(rows)
    return torch.zeros(rows, dimensions if name in POSITION_ARGUMENTS else in_channels)
